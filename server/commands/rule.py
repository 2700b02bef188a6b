"""`ansorpy rule`: the check of derivation rules."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Final, TextIO

import typer

from ansorpy.progress import Painter, bar, is_painted
from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.common import (
    INTERRUPTED,
    NOTHING_SURVIVED,
    read_source,
    wrong_input,
)
from ansorpy.units import clock, counted

if TYPE_CHECKING:
    from ansorpy.tuner.rule_sets.check import CheckedOperator, Counterexample
    from ansorpy.tuner.rule_sets.child import CheckBegun, RuleReport, RuleRequest

HEAD: Final = ("rule", "states", "shapes", "sketches", "interpreted", "compiled", "result")

app = Commands(help="Check derivation rules.")


@app.callback()
def _group() -> None:
    """Keep `check` a command of its own although the group has no other."""


@app.command()
def check(
    source: Annotated[
        str, typer.Argument(help="A .py file of rules, or a registered rule set: cpu, cuda.")
    ],
    target: Annotated[
        str, typer.Option(help="KIND[:ARCH]: cpu, or cuda:sm_90; that of the set unless given.")
    ] = "",
    cores: Annotated[int, typer.Option(min=1, max=256, help="Threads of the kernels.")] = 1,
    operator: Annotated[
        list[str] | None,
        typer.Option("--operator", "--operators", help="Operators to check on; all unless given."),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help="A .te text with operators to check on; small ones, they are run."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check that rules are right: every state that they make is run and compared.

    \b
    The rules of a file are put in front of the registered set; a whole set is
    checked alone. On small shapes, every sketch that they take part in is
    interpreted and compared with the float64 reference; on a CPU its program
    also runs as machine code. The derivation has to end, and the counts of
    sketches are shown; a whole set has to reach the golden counts. The
    first counterexample ends the check: operator, shape, loop nest, difference.

    \b
    A table tells per rule: states that it made, shapes at which it applied,
    sketches that it took part in, their programs that were interpreted and
    that also ran as machine code. Ctrl-C ends the check with the results so far.

    \b
    The file is code: it runs in a process of your own, with a time limit, with
    your rights. Exit codes: 0 passed, 2 wrong input, 3 refused or not proved,
    130 interrupted.
    """
    from ansorpy.rules.counts import COUNTS
    from ansorpy.tuner.rule_sets.child import RuleRequest

    with wrong_input():
        text = read_source(on)[0] if on is not None else ""
        request = RuleRequest(
            source, target, cores, tuple(operator or ()), text, golden=dict(COUNTS.get(source, {}))
        )
        report = _checked(request, as_json)
    typer.echo(json.dumps(as_object(report), indent=2) if as_json else end_of(report))
    if not report.passed:
        raise typer.Exit(INTERRUPTED if report.interrupted else NOTHING_SURVIVED)


def _checked(request: "RuleRequest", as_json: bool) -> "RuleReport":
    """Check rules, with a line per operator unless `as_json`; an interrupt ends the check."""
    from ansorpy.tuner.rule_sets.child import CheckBegun, RuleReport, check_in_child, report_of

    begun = CheckBegun((), ())
    checked: list[CheckedOperator] = []
    try:
        with showing(sys.stderr if as_json else sys.stdout, request.source) as show:
            for event in check_in_child(request):
                match event:
                    case RuleReport():
                        return event
                    case CheckBegun():
                        begun = event
                        show(event, "")
                    case _:
                        checked.append(event)
                        show(event, "" if as_json else line_of(event))
    except KeyboardInterrupt:
        return report_of(request, begun, checked)
    raise AssertionError  # the report is the last event


@dataclass
class CheckTally:
    """The state of a check, for the line at the foot of a terminal."""

    source: str
    begin_s: float  # by the clock of the caller
    operators: Sequence[str] = ()
    done: int = 0

    def take(self, event: "CheckBegun | CheckedOperator") -> None:
        """Note the begin, or a checked operator."""
        from ansorpy.tuner.rule_sets.child import CheckBegun

        if isinstance(event, CheckBegun):
            self.operators = event.operators
        else:
            self.done += 1

    def status(self, now_s: float) -> str:
        """Return the line."""
        begin = f"rule check {self.source}: "
        if self.done >= len(self.operators):
            return f"{begin}{clock(now_s - self.begin_s)}"
        part = f"{bar(self.done, len(self.operators))} {self.done}/{len(self.operators)} operators"
        return f"{begin}{part}, {self.operators[self.done]}, {clock(now_s - self.begin_s)}"


@contextmanager
def showing(
    stream: TextIO, source: str, now: Callable[[], float] = time.monotonic
) -> Iterator[Callable[["CheckBegun | CheckedOperator", str], None]]:
    """Give a function that notes an event and writes its line, above a status on a terminal."""
    tally = CheckTally(source, now())
    painter = Painter(stream, lambda: tally.status(now())) if is_painted(stream) else None

    def show(event: "CheckBegun | CheckedOperator", line: str) -> None:
        tally.take(event)
        if line and painter:
            painter.above(line)
        elif line:
            typer.echo(line, stream)

    try:
        yield show
    finally:
        if painter:
            painter.close()


def line_of(work: "CheckedOperator") -> str:
    """Return the line of an operator that the rules passed."""
    after = work.large_after
    large = "" if after is None else f" (large: {_count(work.large_before, after)})"
    return (
        f"ok   {work.operator}, {work.shape}: {_count(work.before, work.after)} sketches{large};"
        f" of the rules {work.states}, in {work.interpreted} programs, {work.compiled} as machine"
        " code"
    )


def _count(before: int | None, after: int) -> str:
    return f"{before} -> {after}" if before else str(after)


def end_of(report: "RuleReport") -> str:
    """Return the last lines: the table, then the counterexample or the sums."""
    table = table_of(report) if report.checked else ""
    if report.counterexample is not None:
        return table + counterexample_of(report.counterexample)
    sums = (
        f"{counted(len(report.checked), 'operator')}, {sum(one.states for one in report.checked)}"
        f" sketches, {sum(one.interpreted for one in report.checked)} programs interpreted,"
        f" {sum(one.compiled for one in report.checked)} run as machine code"
    )
    return table + _verdict(report, sums)


def _verdict(report: "RuleReport", sums: str) -> str:
    if report.interrupted:
        return (
            f"interrupted: {len(report.operators) - len(report.checked)} of"
            f" {counted(len(report.operators), 'operator')} are not checked. No counterexample in"
            f" {sums}"
        )
    if report.miscounts:
        text = "; ".join(
            f"{one.operator} has {_pair(one.counts)}, not {_pair(one.golden)}"
            for one in report.miscounts
        )
        return (
            f"refused: the numbers of sketches at the small and the large shape are not the golden"
            f" ones: {text}. No counterexample in {sums}"
        )
    if not report.passed:
        return (
            f"not proved: {', '.join(report.unused)} applies to no stage of these operators;"
            f" expected an operator that it is made for (--on FILE.te). No counterexample in {sums}"
        )
    nowhere = f"; no stage for {', '.join(report.unused)}" if report.unused else ""
    golden = sum(one.counts is not None for one in report.checked)
    counts = f"; {golden} golden counts" if golden else ""
    return f"passed: {', '.join(report.rules)}: {sums}{counts}{nowhere}"


def _pair(counts: tuple[int, int | None]) -> str:
    return " and ".join(str(count) for count in counts if count is not None)


def table_of(report: "RuleReport") -> str:
    """Return a line per rule with its sums over the operators that were checked."""
    refused = "" if report.counterexample is None else report.counterexample.rule
    lines: list[tuple[str, ...]] = [HEAD]
    for rule in report.rules:
        uses = [use for one in report.checked for use in one.uses if use.rule == rule]
        sums = (
            sum(use.states for use in uses), sum(use.shapes for use in uses),
            sum(use.sketches for use in uses), sum(use.interpreted for use in uses),
            sum(use.compiled for use in uses),
        )  # fmt: skip
        run = any(use.sketches for use in uses)
        result = "ok" if run else "derived only" if uses else "no stage"
        result = "refused" if rule in refused.split(", ") else result
        lines.append((rule, *map(str, sums), result))
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join(_row(line, widths) for line in lines)


def _row(cells: Sequence[str], widths: Sequence[int]) -> str:
    first, *numbers, result = cells
    padded = (cell.rjust(width) for cell, width in zip(numbers, widths[1:-1], strict=True))
    return "  ".join((first.ljust(widths[0]), *padded, result)) + "\n"


def counterexample_of(counterexample: "Counterexample") -> str:
    """Return a counterexample as text."""
    stage = f", stage {counterexample.stage}" if counterexample.stage else ""
    lines = [
        f"refused: {counterexample.rule}",
        f"operator: {counterexample.operator}, {counterexample.shape}{stage}",
        f"difference: {counterexample.difference}",
    ]
    if counterexample.state:
        lines += ["state:", *(f"  {line}" for line in counterexample.state.splitlines())]
    return "\n".join(lines)


def as_object(report: "RuleReport") -> dict[str, object]:
    """Return the object that `--json` prints."""
    told = asdict(report)
    return {
        "passed": report.passed,
        "interrupted": report.interrupted,
        **told,
        "unused": list(report.unused),
    }
