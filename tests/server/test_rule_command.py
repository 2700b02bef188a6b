"""`ansorpy rule check`: its lines, table, verdicts and exit codes."""

import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ansorpy import rules
from ansorpy.rules import counts
from ansorpy.server.cli import app
from ansorpy.server.commands.rule import showing
from ansorpy.state.rule import name_of
from ansorpy.tuner.rule_sets import child as rule_child
from ansorpy.tuner.rule_sets.check import CheckedOperator
from ansorpy.tuner.rule_sets.child import CheckBegun, RuleReport, RuleRequest, check_in_child
from tests.server.service import MM
from tests.tuner.test_rule_files import GOOD, written

HANGS = "while True:\n    pass\n"
SLEEPS = "import time\ntime.sleep(600)\n"
DIES = "import os\nos._exit(7)\n"


def checked(path: Path, *arguments: str) -> Any:
    return CliRunner().invoke(app, ["rule", "check", str(path), *arguments])


def test_a_right_rule_passes_the_command(tmp_path: Path) -> None:
    called = checked(
        written(tmp_path / "mine.py", GOOD), "--operator", "matmul", "--operator", "softmax"
    )
    assert called.exit_code == 0, called.output
    assert called.stdout.splitlines() == [
        "ok   matmul, A[7, 13], B[13, 17]: 3 -> 5 sketches (large: 3 -> 5); of the rules 2, in 4"
        " programs, 2 as machine code",
        "ok   softmax, X[7, 17]: 9 -> 9 sketches (large: 9 -> 9); of the rules 0, in 0 programs, 0"
        " as machine code",
        "rule       states  shapes  sketches  interpreted  compiled  result",
        "TwoLevels       4       2         2            4         2  ok",
        "passed: TwoLevels: 2 operators, 2 sketches, 4 programs interpreted, 2 run as machine code",
    ]


def test_rules_of_a_request_pass_the_command() -> None:
    called = checked(Path("cpu+winograd2"), "--operator", "conv2d", "--json")
    assert called.exit_code == 0, called.output
    told = json.loads(called.stdout)
    assert (told["passed"], told["rules"], told["counterexample"]) == (True, ["Winograd"], None)
    (one,) = told["checked"]
    assert (one["before"], one["after"], one["states"], one["compiled"]) == (5, 6, 1, 1)


def test_our_own_set_passes_although_some_rules_find_no_stage() -> None:
    called = checked(Path("cpu"), "--operators", "row_sum,long_row_sum")
    assert called.exit_code == 0, called.output
    assert called.stdout.count("ok   ") == 2
    *table, last = called.stdout.splitlines()[2:]
    rows = dict(line.split(maxsplit=1) for line in table[1:])
    assert [*rows] == [name_of(rule) for rule in rules.CPU]
    assert rows["SplitPhases"].split() == ["0", "0", "0", "0", "0", "no", "stage"]
    assert rows["Skip"].split()[2:] == ["6", "12", "6", "ok"]
    assert last.startswith("passed: JoinAxes, SplitPhases, ")
    assert "2 golden counts; no stage for JoinAxes, SplitPhases, " in last
    assert "AddRfactor" not in last.partition("no stage for")[2]


def test_our_set_for_a_gpu_needs_no_gpu() -> None:
    called = checked(Path("cuda"), "--operator", "matmul", "--json")
    assert called.exit_code == 0, called.output
    told = json.loads(called.stdout)
    (one,) = told["checked"]
    assert (one["states"], one["compiled"], one["counts"]) == (1, 0, [1, 1])


def test_a_set_with_other_counts_than_the_golden_ones_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(counts, "COUNTS", {"cpu": {"matmul": (2, 3), "row_sum": (3, 3)}})
    called = checked(Path("cpu"), "--operators", "matmul,row_sum")
    assert called.exit_code == 3
    assert called.stdout.splitlines()[-1] == (
        "refused: the numbers of sketches at the small and the large shape are not the golden ones:"
        " matmul has 3 and 3, not 2 and 3. No counterexample in 2 operators, 6 sketches, 12"
        " programs interpreted, 6 run as machine code"
    )


def test_an_interrupt_tells_the_results_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The interrupt comes after the first of two operators."""

    def interrupted(request: RuleRequest) -> Iterator[CheckBegun | CheckedOperator | RuleReport]:
        for event in check_in_child(request):
            yield event
            if isinstance(event, CheckedOperator):
                raise KeyboardInterrupt

    monkeypatch.setattr(rule_child, "check_in_child", interrupted)
    path = written(tmp_path / "mine.py", GOOD)
    called = checked(path, "--operators", "matmul,softmax")
    assert called.exit_code == 130, called.output
    assert called.stdout.splitlines()[-1] == (
        "interrupted: 1 of 2 operators are not checked. No counterexample in 1 operator, 2"
        " sketches, 4 programs interpreted, 2 run as machine code"
    )


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


ROW = CheckedOperator("row_sum", "X[7, 17]", 0, 3, 0, 3, 3, 6, 3, ())


def test_a_terminal_has_a_progress_line_below_the_operators() -> None:
    stream = Terminal()
    with showing(stream, "cpu", lambda: 65.0) as show:
        show(CheckBegun(("Skip",), ("row_sum", "softmax")), "")
        show(ROW, "ok   row_sum")
    assert "\rok   row_sum\n" in stream.getvalue().replace(" \n", "\n")
    assert "rule check cpu: [##########----------] 1/2 operators, softmax, 0:00" in (
        stream.getvalue()
    )
    assert stream.getvalue().endswith("\r")


def test_elsewhere_there_is_no_progress_line() -> None:
    stream = StringIO()
    with showing(stream, "cpu") as show:
        show(CheckBegun(("Skip",), ("row_sum", "softmax")), "")
        show(ROW, "ok   row_sum")
    assert stream.getvalue() == "ok   row_sum\n"


def test_a_rule_that_applies_nowhere_is_not_proved(tmp_path: Path) -> None:
    called = checked(written(tmp_path / "mine.py", GOOD), "--operator", "softmax")
    assert called.exit_code == 3
    assert "not proved: TwoLevels applies to no stage of these operators" in called.stdout
    (tmp_path / "mm.te").write_text(MM)
    called = checked(written(tmp_path / "mine.py", GOOD), "--on", str(tmp_path / "mm.te"))
    assert called.exit_code == 0, called.output
    assert called.stdout.startswith("ok   mm, A[4, 5], B[5, 6]: ")


def test_a_wrong_rule_is_refused_by_the_command(tmp_path: Path) -> None:
    text = GOOD.replace('"SRS").state)', '"SRS").state.with_stage(at.stage))')
    called = checked(written(tmp_path / "wrong.py", text), "--operator", "matmul")
    assert called.exit_code == 3
    first, operator, difference, *state = called.stdout.splitlines()
    assert first == "refused: TwoLevels"
    assert operator == "operator: matmul, A[7, 13], B[13, 17], stage C"
    assert difference.startswith("difference: the steps of a successor give another state: C: i.0:")
    assert state[:4] == ["state:", "  A", "  B", "  C: i:7s j:17s k:13r"]


def test_a_file_that_ends_its_process_is_refused(tmp_path: Path) -> None:
    called = checked(written(tmp_path / "dies.py", DIES), "--operator", "matmul")
    assert called.exit_code == 3
    assert "difference: the process of the check ended with status 7" in called.stdout


@pytest.mark.parametrize("text", [HANGS, SLEEPS])
def test_a_file_that_hangs_is_refused(text: str, tmp_path: Path) -> None:
    path = written(tmp_path / "hangs.py", text)
    (report,) = check_in_child(RuleRequest(str(path), operators=("matmul",)), silence_s=1.0)
    assert isinstance(report, RuleReport)
    assert report.counterexample is not None
    assert report.counterexample.difference == (
        "the check takes more than 1 s of processor time, or 10 s in all"
    )


@pytest.mark.parametrize(
    ("text", "arguments", "told"),
    [
        ("x = 1", (), "cannot use rule file mine.py because it has no rule; expected a class"),
        (GOOD.replace("TwoLevels", "Tiling"), (), "cannot use two rules named Tiling, of mine.py"),
        (GOOD, ("--operator", "gemm"), "cannot check rules on operator 'gemm' because no such"),
        (GOOD, ("--target", "cuda:sm_90"), "cannot use the rules of mine for cuda because its K"),
        (None, (), "cannot read rule file mine.py because of 'No such file or directory'"),
    ],
)  # fmt: skip
def test_the_command_refuses_wrong_input(
    tmp_path: Path, text: str | None, arguments: tuple[str, ...], told: str
) -> None:
    path = tmp_path / "mine.py"
    if text is not None:
        written(path, text)
    called = checked(path, *arguments)
    assert called.exit_code == 2, called.output
    assert called.stderr.startswith(f"ansorpy: {told}")
