"""`ansorpy rule`: the check of derivation rules."""

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ansorpy.server.commands.common import NOTHING_SURVIVED, read_source, wrong_input

if TYPE_CHECKING:
    from ansorpy.tuner.rule_check import CheckedOperator, Counterexample
    from ansorpy.tuner.rule_child import RuleReport

app = typer.Typer(help="Check derivation rules.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """Keep `check` a command of its own although the group has no other."""


@app.command()
def check(
    source: Annotated[
        str, typer.Argument(help="A .py file of rules, or a registered rule set: cpu.")
    ],
    target: Annotated[str, typer.Option(help="KIND[:ARCH]: cpu, or cuda:sm_90.")] = "cpu",
    cores: Annotated[int, typer.Option(min=1, max=256, help="Threads of the kernels.")] = 1,
    operator: Annotated[
        list[str] | None, typer.Option(help="Check on this operator; all of them unless given.")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help="A .te text with operators to check on; small ones, they are run."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check that rules are right: every state that they make is run and compared.

    \b
    The rules are put in front of the registered set. On small shapes, every
    sketch that they take part in is interpreted and compared with the float64
    reference; on a CPU its program also runs as machine code. The derivation
    has to end, and the counts of sketches are shown. The first counterexample
    ends the check: operator, shape, loop nest, difference.

    \b
    The file is code: it runs in a process of your own, with a time limit, with
    your rights. Exit codes: 0 passed, 2 wrong input, 3 refused or not proved.
    """
    from ansorpy.tuner.rule_child import RuleReport, RuleRequest, check_in_child

    report = None
    with wrong_input():
        text = read_source(on)[0] if on is not None else ""
        request = RuleRequest(source, target, cores, tuple(operator or ()), text)
        for event in check_in_child(request):
            if isinstance(event, RuleReport):
                report = event
            elif not as_json:
                typer.echo(line_of(event))
    assert report is not None  # it is the last event
    typer.echo(json.dumps(as_object(report), indent=2) if as_json else end_of(report))
    if not report.passed:
        raise typer.Exit(NOTHING_SURVIVED)


def line_of(one: "CheckedOperator") -> str:
    """Return the line of an operator that the rules passed."""
    large = (
        "" if one.large_after is None else f" (large: {_count(one.large_before, one.large_after)})"
    )
    return (
        f"ok   {one.operator}, {one.shape}: {_count(one.before, one.after)} sketches{large};"
        f" of the rules {one.states}, in {one.interpreted} programs, {one.compiled} as machine code"
    )


def _count(before: int | None, after: int) -> str:
    return f"{before} -> {after}" if before else str(after)


def end_of(report: "RuleReport") -> str:
    """Return the last lines: the counterexample, or the sums."""
    if report.counterexample is not None:
        return counterexample_of(report.counterexample)
    sums = (
        f"{len(report.checked)} operators, {sum(one.states for one in report.checked)} sketches,"
        f" {sum(one.interpreted for one in report.checked)} programs interpreted,"
        f" {sum(one.compiled for one in report.checked)} run as machine code"
    )
    if not report.passed:
        return (
            f"not proved: {', '.join(report.unused)} applies to no stage of these operators;"
            f" expected an operator that it is made for (--on FILE.te). No counterexample in {sums}"
        )
    nowhere = f"; no stage for {', '.join(report.unused)}" if report.unused else ""
    return f"passed: {', '.join(report.rules)}: {sums}{nowhere}"


def counterexample_of(found: "Counterexample") -> str:
    """Return a counterexample as text."""
    stage = f", stage {found.stage}" if found.stage else ""
    lines = [
        f"refused: {found.rule}",
        f"operator: {found.operator}, {found.shape}{stage}",
        f"difference: {found.difference}",
    ]
    if found.state:
        lines += ["state:", *(f"  {line}" for line in found.state.splitlines())]
    return "\n".join(lines)


def as_object(report: "RuleReport") -> dict[str, object]:
    """Return the object that `--json` prints."""
    told = asdict(report)
    return {
        "passed": report.passed,
        **told,
        "unused": list(report.unused),
    }
