"""Cubins and static reports, by ptxas and nvdisasm of the extra `cuda`."""

import pytest

from ansorpy.codegen.simt.assemble import assemble, program
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.errors import BuildError
from ansorpy.gpus import PRESETS
from ansorpy.target import Target, cuda_target
from benchmarks.cuda.report import static_report
from tests.codegen.simt.texts import SQUARES, row_products


def _installed() -> bool:
    try:
        return program("ptxas").is_file() and program("nvdisasm").is_file()
    except BuildError:
        return False


needs_ptxas = pytest.mark.skipif(not _installed(), reason="no ptxas here: make test-cuda")


@pytest.mark.cuda
@needs_ptxas
@pytest.mark.parametrize("arch", PRESETS)
def test_the_main_loop_of_a_kernel_is_counted(arch: str) -> None:
    (one,) = static_report(row_products(steps=100, sums=16), cuda_target(arch))
    assert not one.spills
    assert one.resources.shared_bytes == 256
    assert 17 <= one.resources.registers <= 64
    assert one.main["FFMA"] == 64 * 16
    assert one.main.share("FFMA") > 0.9
    (load,) = (code for code, count in one.main.codes for _ in range(count) if "LDG" in code)
    assert ".128" in load
    assert (one.main["BAR"], one.main["LDS"], one.main.local_accesses) == (2, 16, 0)
    assert one.occupancy.blocks_per_sm in range(16, 33)


@pytest.mark.cuda
@needs_ptxas
def test_too_many_sums_spill() -> None:
    (one,) = static_report(row_products(steps=100, sums=300), cuda_target("sm_90"))
    assert one.spills
    assert one.sass.all.local_accesses > 0


@pytest.mark.cuda
@needs_ptxas
def test_code_of_a_newer_instruction_set_is_refused() -> None:
    text = ptx(SQUARES, "sm_90")
    assert assemble(text, "sm_90").code.startswith(b"\x7fELF")
    text = text.replace(".version 8.6", ".version 99.9")
    with pytest.raises(BuildError, match="ptxas refused the code"):
        assemble(text, "sm_90")


def test_a_report_needs_the_facts_of_a_gpu() -> None:
    with pytest.raises(ValueError, match="a static report needs the facts of a GPU"):
        static_report(row_products(4, 2), Target("cuda"))
