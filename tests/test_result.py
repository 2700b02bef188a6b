"""The result of a tuning, as it is printed in Python and by the command line."""

import shlex
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ansorpy.artifact.rate import Rate
from ansorpy.errors import PackageError
from ansorpy.events import TaskResult
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.records import MemoryStore, Record
from ansorpy.result import Result, explanation, records_of, shell_step, summary
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


def test_the_best_time_and_the_factor_are_those_of_the_only_task() -> None:
    found = Result((WON,), 12.34, "trials")
    assert (found.best_s, found.speedup) == (1e-3, 2.0)
    assert Result((LOST,), 1.0, "trials").speedup is None
    with pytest.raises(ValueError, match="cannot choose one of 2 tasks; expected a member of res"):
        _ = Result((WON, LOST), 1.0, "trials").best_s


def on_record() -> Result:
    """Return a result with two trials; a task that equals another one has none of its own."""
    store = MemoryStore()
    outcomes: tuple[Outcome, ...] = (Failed("wrong", "C[0] is 1, not 2"), Measured((2e-3, 1e-3)))
    store.append([Record("k", "w", "cpu", "{}", (n,), one) for n, one in enumerate(outcomes)])
    tasks = (WON, replace(WON, name="twin", same_as="mm"))
    return Result(tasks, 1.0, "trials", records=records_of(tasks, store))


def test_trials_are_rows() -> None:
    columns = ("task", "trial", "best_s", "failed", "message", "row")
    assert [tuple(one[name] for name in columns) for one in on_record().trials] == [
        ("mm", 1, None, "wrong", "C[0] is 1, not 2", (0,)),
        ("mm", 2, 1e-3, None, None, (1,)),
    ]


def test_without_pandas_there_is_no_dataframe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)  # importing it raises ImportError
    with pytest.raises(PackageError, match="because pandas is not installed; expected pip install"):
        on_record().to_dataframe()


def test_a_dataframe_has_a_row_per_trial() -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    assert list(on_record().to_dataframe()["trial"]) == [1, 2]


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


def test_a_notebook_shows_cards_and_names_are_escaped() -> None:
    html = Result((WON, LOST), 12.34, "trials")._repr_html_()
    assert html.index("2.00x faster than NumPy") < html.index("1 ms, 2000.0 GFLOP/s, 86 % of the")
    assert "&lt;x&gt;" in html
    assert "<x>" not in html
    assert "<script" not in html
    assert "<code>result.kernels[&quot;mm&quot;](...)</code>" in html
    assert ">failures<" in html
    assert "failures" not in Result((WON,), 12.34, "trials")._repr_html_()
    assert "12.3 s" in Result((), 12.34, "store")._repr_html_()


def test_a_card_draws_the_trials_of_a_task_once() -> None:
    assert on_record()._repr_html_().count("<svg") == 1


def test_the_best_trial_is_a_row() -> None:
    best = replace(on_record(), tasks=(WON,)).best
    assert best is not None
    assert (best["trial"], best["best_s"]) == (2, 1e-3)
    assert Result((WON,), 1.0, "trials").best is None


def test_columns_are_arrays() -> None:
    columns = on_record().to_columns()
    assert columns["trial"].tolist() == [1, 2]
    assert columns["best_s"].dtype == np.float64
    assert np.isnan(columns["best_s"][0])
    assert columns["failed"].tolist() == ["wrong", ""]
    assert columns["row"].tolist() == [(0,), (1,)]
    assert Result((WON,), 1.0, "trials").to_columns()["best_s"].shape == (0,)


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
