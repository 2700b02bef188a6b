"""The result of a tuning, as it is printed in Python and by the command line."""

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ansorpy.artifact.rate import Rate
from ansorpy.events import TaskResult
from ansorpy.result import Result, shell_step, summary

WON = TaskResult(
    name="mm", key="k", best_s=1e-3, baseline_s=2e-3, trials=64, seconds=3.0, verified=True,
    winner="tuned", kernel=Path("kernels/mm-1.zip"), rate=Rate(2e12, False), naive_s=50e-3,
    numpy_s=2e-3, failures={"wrong": 1, "build": 2},
)  # fmt: skip
LOST = replace(
    WON, name="<x>", best_s=None, verified=False, winner=None, kernel=None, rate=None, naive_s=None,
    numpy_s=None, failures={"wrong": 64}, examples={"wrong": "C[0] is 1, not 2"},
)  # fmt: skip

SUMMARY = """\
mm: 1 ms, 2000.0 GFLOP/s, verified
  speed-up  50.00x the untuned kernel (50 ms), 2.00x NumPy (2 ms)
  trials    64, 3 failed
  kernel    kernels/mm-1.zip
12.3 s in all (stopped: trials)
next: result.kernels["mm"](...)"""

NOTHING = """\
<x>: no kernel: no candidate passed its checks
  trials    64, 64 failed
  failures  wrong: C[0] is 1, not 2"""


def test_a_result_prints_a_summary_and_the_next_step() -> None:
    found = Result((WON,), 12.34, "trials")
    assert str(found) == repr(found) == SUMMARY


def test_a_task_without_a_kernel_prints_its_failures() -> None:
    assert summary([LOST]) == NOTHING


@pytest.mark.parametrize(
    ("naive_s", "numpy_s", "who"),
    [(5e-3, 5e-4, "NumPy"), (1e-3, 2e-3, "the untuned kernel"), (1e-3, None, "the untuned kernel")],
)
def test_a_faster_baseline_is_named(naive_s: float, numpy_s: float | None, who: str) -> None:
    beaten = replace(WON, winner="baseline", naive_s=naive_s, numpy_s=numpy_s)
    assert f"the baseline won: {who}" in summary([beaten])


def test_the_time_of_compilation_is_told_apart_from_the_latency() -> None:
    line = "  compiled  750 ms, at the first call of kernel.py; in no time above\n"
    told = summary([replace(WON, compile_s=0.75)])
    assert line in told
    assert told.replace(line, "") == summary([WON])


def test_a_numpy_baseline_that_failed_is_named_with_its_reason() -> None:
    noted = replace(WON, numpy_s=None, numpy_note="in the NumPy baseline: MemoryError: 9 GB")
    told = "50.00x the untuned kernel (50 ms), NumPy left out: in the NumPy baseline: MemoryError"
    assert told in summary([noted])


def test_an_answer_from_the_records_says_so() -> None:
    assert "trials    0, answered from the records" in summary(
        [replace(WON, trials=0, failures={}, from_store=True)]
    )


def test_a_notebook_shows_a_table_and_names_are_escaped() -> None:
    html = Result((WON, LOST), 12.34, "trials")._repr_html_()
    assert "<td>1 ms, 2000.0 GFLOP/s, verified</td>" in html
    assert "&lt;x&gt;" in html
    assert "<x>" not in html
    assert "result.kernels[&quot;mm&quot;](...)" in html
    assert "<th>failures</th>" in html
    assert "failures" not in Result((WON,), 12.34, "trials")._repr_html_()
    assert "12.3 s" in Result((), 12.34, "store")._repr_html_()


def test_kernels_show_their_names_without_being_loaded() -> None:
    kernels = Result((WON, LOST), 1.0, "trials").kernels
    assert repr(kernels) == "Kernels(mm: kernels/mm-1.zip)"


@pytest.mark.parametrize("name", ["mm.zip", 'it\'s $HOME `x` "mm".zip'])
def test_the_next_step_can_be_pasted_into_a_shell(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"no zip")
    line = shell_step(tmp_path / name)
    program, flag, code = shlex.split(line)
    assert (program in ("python", sys.executable), flag) == (True, "-c")
    run = [sys.executable, "-c", code]
    told = subprocess.run(run, capture_output=True, text=True, timeout=60, check=False).stderr
    assert "PackageError" in told  # the file was found, and is no package
    assert "No such file" not in told
