"""Programs of the extra `cuda`: their absence, and the output of `ptxas -v`."""

from pathlib import Path

import pytest

from ansorpy.codegen.simt import assemble
from ansorpy.codegen.simt.assemble import BIN, Resources, resources_of
from ansorpy.errors import BuildError

TOLD = """ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'phase0' for 'sm_90'
ptxas info    : Function properties for phase0
    8 bytes stack frame, 12 bytes spill stores, 16 bytes spill loads
ptxas info    : Used 127 registers, used 1 barriers, 8 bytes cumulative stack size, 16640 bytes smem
ptxas info    : Compile time = 185.253 ms
ptxas info    : Compiling entry function 'phase1' for 'sm_90'
ptxas info    : Function properties for phase1
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers
"""


def test_resources_of_every_kernel_are_read() -> None:
    assert resources_of(TOLD) == (
        ("phase0", Resources(127, 16640, 12, 16, 8)),
        ("phase1", Resources(10)),
    )
    assert resources_of("") == ()


def test_a_folder_without_ptxas_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(BIN, str(tmp_path))
    message = (
        f"cannot assemble because {BIN} has no ptxas; expected pip install 'ansorpy\\[cuda\\]'"
    )
    with pytest.raises(BuildError, match=message):
        assemble.assemble("", "sm_90")


def test_a_base_install_has_no_ptxas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BIN, raising=False)
    monkeypatch.setattr(assemble, "_PACKAGES", {"ptxas": "ansorpy-no-such-package"})
    message = r"cannot assemble because ptxas is not installed; expected pip install 'ansorpy\[cuda"
    with pytest.raises(BuildError, match=message):
        assemble.program("ptxas")


def test_a_program_that_fails_is_a_build_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\necho 'syntax error on line 1' >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv(BIN, str(tmp_path))
    message = "cannot assemble for sm_90 because ptxas refused the code: syntax error on line 1"
    with pytest.raises(BuildError, match=message):
        assemble.assemble("nonsense", "sm_90")


def test_a_program_that_hangs_is_stopped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "ptxas"
    program.write_text("#!/bin/sh\nwhile :; do :; done\n")
    program.chmod(0o755)
    monkeypatch.setenv(BIN, str(tmp_path))
    monkeypatch.setattr(assemble, "TIMEOUT_S", 0.2)
    with pytest.raises(BuildError, match=r"because ptxas did not end well: .*timed out"):
        assemble.assemble("nonsense", "sm_90")
