"""Each zip of a tuning passes its own self-test, without ansorpy: on the way and at the end."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ansorpy
from ansorpy import te
from ansorpy.events import Event, FirstAnswer
from ansorpy.records import MemoryStore
from ansorpy.te.dag import Dag

pytestmark = pytest.mark.usefixtures("few_candidates")


def shifted() -> Dag:
    """Return a matrix product with a constant tensor, whose library has a copy of its own."""
    x = te.placeholder((9, 12), name="X")
    table = te.constant(np.linspace(-1, 1, 84, dtype=np.float32).reshape(12, 7), name="T")
    k = te.reduce_axis((0, 12), name="k")
    y = te.compute((9, 7), lambda i, j: te.sum(x[i, k] * table[k, j], axis=k), name="Y")
    return te.dag(y, name="shifted")


def selftest(kernel: Path, folder: Path, file: str, without_numba: bool = False) -> None:
    """Run the self-test of a file of a zip in a process that cannot import ansorpy."""
    shutil.rmtree(folder, ignore_errors=True)
    with zipfile.ZipFile(kernel) as zipped:
        zipped.extractall(folder)
    hidden = ["ansorpy", *(("numba", "llvmlite") if without_numba else ())]
    code = (
        f"import runpy, sys; sys.modules.update(dict.fromkeys({hidden!r}));"
        f" sys.path.insert(0, '.'); sys.argv = [{file!r}, '--selftest'];"
        f" runpy.run_path({str(folder / file)!r}, run_name='__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=folder, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "selftest passed\n"), done.stderr


def test_the_zips_of_a_tuning_pass_their_self_tests(tmp_path: Path) -> None:
    seen: list[FirstAnswer] = []

    def on_event(event: Event) -> None:
        if isinstance(event, FirstAnswer):
            assert "-first-" in event.kernel.name
            selftest(event.kernel, tmp_path / "first", "native.py")
            selftest(event.kernel, tmp_path / "first", "native.py", without_numba=True)
            seen.append(event)

    result = ansorpy.tune(
        shifted(), trials=4, store=MemoryStore(), out=tmp_path / "zips", on_event=on_event
    )
    assert seen
    (kernel,) = (tmp_path / "zips").glob("*.zip")
    assert kernel == result.tasks[0].kernel
    assert "-first" not in kernel.name
    selftest(kernel, tmp_path / "last", "kernel.py")
    selftest(kernel, tmp_path / "last", "native.py")


def test_the_zip_of_a_tuning_without_trials_passes_its_self_test(tmp_path: Path) -> None:
    ansorpy.tune(shifted(), trials=0, store=MemoryStore(), out=tmp_path / "zips")
    (kernel,) = (tmp_path / "zips").glob("*.zip")
    assert "-first" not in kernel.name
    selftest(kernel, tmp_path / "last", "native.py")


@pytest.mark.night
def test_a_tuning_without_time_for_a_trial_delivers_a_kernel_file(tmp_path: Path) -> None:
    ansorpy.tune(shifted(), seconds=0.1, store=MemoryStore(), out=tmp_path / "zips")
    (kernel,) = (tmp_path / "zips").glob("*.zip")
    assert "-first" not in kernel.name
    selftest(kernel, tmp_path / "last", "kernel.py")
    selftest(kernel, tmp_path / "last", "native.py")
