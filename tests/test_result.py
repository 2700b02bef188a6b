"""The result of a tuning, as it is printed in Python and by the command line."""

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ansorpy.artifact.rate import Rate
from ansorpy.events import TaskResult
from ansorpy.result import Result, explanation, shell_step, summary
from ansorpy.verdict import Judgment, Peer

FASTER = Judgment("kernel", 1e-3, (Peer("NumPy", 2e-3),), 1, "float64 loops")
WON = TaskResult(
    name="mm", key="k", best_s=1e-3, baseline_s=2e-3, trials=64, seconds=3.0, verified=True,
    winner="tuned", kernel=Path("kernels/mm-1.zip"), rate=Rate(2e12, False, 0.86), naive_s=50e-3,
    numpy_s=2e-3, failures={"wrong": 1, "build": 2}, verdict=FASTER,
)  # fmt: skip
LOST = replace(
    WON, name="<x>", best_s=None, verified=False, winner=None, kernel=None, rate=None, naive_s=None,
    numpy_s=None, failures={"wrong": 64}, examples={"wrong": "C[0] is 1, not 2"}, verdict=None,
)  # fmt: skip

SUMMARY = """\
mm: 2.00x faster than NumPy (1 ms against 2 ms, 1 thread), verified against float64 loops
  latency   1 ms, 2000.0 GFLOP/s, 86 % of the arithmetic peak
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


def test_the_factor_over_naive_loops_is_in_the_explanation_alone() -> None:
    result = replace(WON, compile_s=0.75)
    assert "naive" not in summary([result])
    told = explanation([result])
    assert "  untuned   naive loops take 50 ms, 50.00 times as long\n" in told
    assert "  compiled  750 ms, at the first call of kernel.py; in no time above\n" in told
    assert "  failures  1 wrong; 2 build" in told
    assert len(told.splitlines()) <= 6  # the name, and five rows
    assert Result((result,), 1.0, "trials").explain() == told


def test_a_result_without_a_race_is_not_compared() -> None:
    assert summary([replace(WON, verdict=None)]).startswith(
        "mm: 1 ms per call, not raced, verified against float64 loops\n"
    )


def test_an_answer_from_the_records_says_so() -> None:
    assert "trials    0, answered from the records" in summary(
        [replace(WON, trials=0, failures={}, from_store=True)]
    )


def test_naive_loops_that_win_are_told() -> None:
    told = "no candidate was faster than the naive loops"
    assert told in summary([replace(WON, winner="baseline", naive_s=WON.best_s)])
    assert told not in summary([WON, replace(WON, winner="baseline"), LOST])


def test_a_notebook_shows_a_table_and_names_are_escaped() -> None:
    html = Result((WON, LOST), 12.34, "trials")._repr_html_()
    assert "<td>1 ms, 2000.0 GFLOP/s, 86 % of the arithmetic peak</td>" in html
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
