"""Check of derivation rules: contract, end, counts of sketches, and results against the oracle.

A rule is asked as in a search, under observation. Every sketch that it takes part in is lowered,
interpreted and compared with the float64 reference; on a CPU it is also compiled and run between
guard pages, in the measuring processes. The first counterexample ends the check.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Final

import numpy as np

from ansorpy.errors import AnsorError, LoweringError, RuleError, SpecError, shown
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.interp import run as interpret
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.measure.verify.cases import Case, each_case
from ansorpy.measure.verify.check import compare_all
from ansorpy.measure.verify.inputs import constants
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.flatten import flattened
from ansorpy.plan.lower import lower
from ansorpy.population import sample
from ansorpy.replay import UNFIT
from ansorpy.sketch import Derivation, derive
from ansorpy.state.rule import Rule, name_of
from ansorpy.state.state import State
from ansorpy.state.text import history
from ansorpy.target import CpuTarget, GpuTarget, Target
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from ansorpy.topi.suites import LIBRARY, SUITE_SMALL
from ansorpy.tuner.rule_sets.watch import Endless, Violation, watched

RULE_S: Final = 10.0  # time limit of one call of a rule; ours take milliseconds
PLANS: Final = 2  # plans of a sketch that are run, each with one row of random sizes
CASES: Final = 2  # random numbers, then small integers, whose results are exact
RUN_FLOP: Final = 100_000  # operations of a Dag that is interpreted to show the effect of a finding
NO_VERDICT: Final = ("run-timeout", "build-timeout", "memory")  # failures that refute nothing

Verify = Callable[[Dag, Sequence[Program]], Sequence[Failed | None]]


@dataclass(frozen=True, slots=True)
class CheckOperator:
    """A workload at a small shape, which is run, and at a larger one for the count of sketches."""

    name: str
    small: Dag
    large: Dag | None = None


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The first state that refutes a rule: a loop nest with its steps, and the difference."""

    rule: str
    operator: str
    shape: str
    stage: str
    state: str
    difference: str


@dataclass(frozen=True, slots=True)
class RuleWork:
    """The part of one rule in the check of an operator.

    states       successors that it made, at the small and at the large shape
    shapes       of these two, those at which it applied
    sketches     of the small shape that it took part in: each is checked
    interpreted  programs of these sketches
    compiled     of the programs, those that also ran as machine code
    """

    rule: str
    states: int
    shapes: int
    sketches: int
    interpreted: int
    compiled: int


@dataclass(frozen=True, slots=True)
class CheckedOperator:
    """An operator without counterexample; counts of sketches without and with the rules."""

    operator: str
    shape: str
    before: int
    after: int
    large_before: int | None
    large_after: int | None
    states: int  # sketches that the rules took part in
    interpreted: int  # programs
    compiled: int  # programs that also ran as machine code
    uses: tuple[RuleWork, ...]  # one per rule that applied
    counts: tuple[int, int | None] | None = None  # sketches on a fixed target, if it was asked


@dataclass(frozen=True, slots=True)
class _Run:
    """A sketch that was run: the rules that took part in it, and its programs."""

    rules: frozenset[str]
    interpreted: int
    compiled: int


@dataclass(frozen=True, slots=True)
class _Refuted(Exception):  # noqa: N818 - a finding, not an error of ours
    """A counterexample without its operator."""

    rule: str
    stage: str
    state: str
    difference: str


# The data transform of F(2, 3), Winograd: constants by which stages are unrolled.
_TRANSFORM: Final = """
def constant_transform(float(10) X) -> (V) {
    D(i) = fmax(X(i), 0.0) where i in 0:10
    B(r, a) = r == a ? 1.0 : (r == 2 ? (a == 0 ? -1.0 : 1.0) : 0.0) where r in 0:4, a in 0:4
    V(p, a) +=! B(r, a) * D(p * 2 + r) where p in 0:4, a in 0:4, r in 0:4 with const_axes(a, r)
}
"""

# Smaller than in the suite, whose 81 sketches take long; and shapes that `FuseChain`, `AddRfactor`,
# `StreamReduction` and `SplitReduction` are made for.
_SMALLER: Final[Mapping[str, Callable[[], Dag]]] = MappingProxyType(
    {"attention": lambda: workloads.attention(3, 5, 2)}
)
_MORE: Final[Mapping[str, Callable[[], Dag]]] = MappingProxyType(
    {
        "attention_rows": lambda: workloads.attention(16, 5, 4),
        "long_column_sum": lambda: workloads.reduce_columns(16, 160),
        "long_row_sum": lambda: workloads.reduce_rows(2, 96),
        "row_sum_of_4100": lambda: workloads.reduce_rows(1, 4100),
        "constant_transform": lambda: parse(_TRANSFORM)[0],
    }
)

# The machine of golden counts: sketches depend on cores and features of a target.
COUNTED_ON: Final[Mapping[str, Target]] = MappingProxyType(
    {"cpu": CpuTarget(), "cuda": GpuTarget()}
)


def operators(names: Sequence[str] = ()) -> Iterator[CheckOperator]:
    """Yield the operators of the check (all of them without names).

    Raises:
        SpecError: there is no such operator.
    """
    known = {**SUITE_SMALL, **_SMALLER, **_MORE}
    for name in names:
        if name not in known:
            raise SpecError(
                f"cannot check rules on operator {shown(name)!r} because no such operator exists;"
                f" expected {', '.join(known)}"
            )
    for name in names or known:
        large = LIBRARY.get(name)
        yield CheckOperator(name, known[name](), None if large is None else large())


def check_operator(
    mine: tuple[Rule, ...],
    base: tuple[Rule, ...],
    operator: CheckOperator,
    target: Target,
    verify: Verify | None = None,
    rule_s: float = RULE_S,
) -> CheckedOperator | Counterexample:
    """Check rules on one operator.

    Args:
        mine: the rules to be checked, which are tried first.
        base: the rule set behind them; () if `mine` is a whole set.
        verify: runs programs of a Dag as machine code, None for those that are right; without it
            they are interpreted only.
        rule_s: seconds that one call of a rule may take.
    """
    tallies: list[Counter[str]] = [Counter(), Counter()]
    small, large = (tuple(watched(rule, rule_s, states) for rule in mine) for states in tallies)
    dag = operator.small
    try:
        before, after, derivation = _derived(small, base, dag, target)
        runs = _run(derivation, set(map(name_of, mine)), target, verify)
        counts: tuple[int | None, int | None] = (None, None)
        if operator.large is not None:
            dag = operator.large
            counts = _derived(large, base, dag, target)[:2]
    except _Refuted as found:
        return Counterexample(
            found.rule, operator.name, shape_of(dag), found.stage, found.state, found.difference
        )
    uses = [_use(name, tallies, runs) for name in dict.fromkeys(map(name_of, mine))]
    return CheckedOperator(
        operator.name, shape_of(operator.small), before, after, *counts, len(runs),
        sum(run.interpreted for run in runs), sum(run.compiled for run in runs),
        tuple(use for use in uses if use.states),
    )  # fmt: skip


def sketch_counts(
    kind: str, rules: tuple[Rule, ...], operator: CheckOperator
) -> tuple[int, int | None]:
    """Return the numbers of sketches at the small and at the large shape, on a fixed target."""
    small = len(derive(operator.small, COUNTED_ON[kind], rules).sketches)
    if operator.large is None:
        return small, None
    return small, len(derive(operator.large, COUNTED_ON[kind], rules).sketches)


def _use(rule: str, counts: Sequence[Counter[str]], runs: Sequence["_Run"]) -> RuleWork:
    mine = [run for run in runs if rule in run.rules]
    return RuleWork(
        rule, sum(states[rule] for states in counts), sum(states[rule] > 0 for states in counts),
        len(mine), sum(run.interpreted for run in mine), sum(run.compiled for run in mine),
    )  # fmt: skip


def shape_of(dag: Dag) -> str:
    """Return the inputs of a Dag with their shapes: "A[7, 13], B[13, 17]"."""
    return ", ".join(f"{node.name}{list(node.shape)}" for node in dag.placeholders)


def _derived(
    rules: tuple[Rule, ...], base: tuple[Rule, ...], dag: Dag, target: Target
) -> tuple[int, int, Derivation]:
    """Return the counts of sketches without and with the watched rules, and the derivation."""
    before = len(derive(dag, target, base).sketches) if base else 0
    names = ", ".join(map(name_of, rules))
    try:
        derivation = derive(dag, target, (*rules, *base))
    except Endless as late:
        raise _Refuted(late.rule, late.at.name, str(late.at.state), str(late)) from None
    except RuleError as error:
        raise _refuted(error, names, dag, target) from error
    except SpecError as error:
        raise _Refuted(names, "", "", f"{error} (without the rule {before})") from error
    kept: dict[str, list[int]] = {}
    for number, sketch in enumerate(derivation.sketches):
        for other in kept.setdefault(str(sketch), []):
            if derivation.sketches[other].stages == sketch.stages:
                path = _paths(derivation, set(map(name_of, rules)))[number]
                rule, stage = path[-1] if path else (names, "")
                why = f"sketches {other} and {number} are equal"
                count = f"the count is {len(derivation.sketches)}, without the rule {before}"
                raise _Refuted(rule, stage, _told(sketch), f"{why}; {count}")
        kept[str(sketch)].append(number)
    return before, len(derivation.sketches), derivation


def _refuted(error: RuleError, names: str, dag: Dag, target: Target) -> _Refuted:
    """Return the finding in a failed derivation, with its effect on results if there is one."""
    cause = error.__cause__
    if not isinstance(cause, Violation):
        if error.rule not in names.split(", "):  # one of the set behind
            return _Refuted(names, error.stage, error.state, f"a later rule fails: {error}")
        return _Refuted(error.rule, error.stage, error.state, str(error))
    text = str(cause)
    if cause.state is None:
        return _Refuted(error.rule, error.stage, error.state, text)
    effect = ""
    if flop_count(dag) <= RUN_FLOP:
        wrong = _programs(dag, cause.state, target, _cases(dag))[1]
        effect = f"; {wrong}" if wrong else ""
    return _Refuted(error.rule, error.stage, _told(cause.state), text + effect)


def _paths(derivation: Derivation, names: set[str]) -> dict[int, tuple[tuple[str, str], ...]]:
    """Return for each sketch the rules of `names` on its path, with their stages."""
    paths: dict[int, tuple[tuple[str, str], ...]] = {}
    work: list[tuple[int, tuple[tuple[str, str], ...]]] = [(0, ())]
    while work:
        number, path = work.pop()
        visit = derivation.visits[number]
        if visit.sketch is not None:
            paths[visit.sketch] = path
        for trial in visit.trials:
            longer = (*path, (trial.rule, visit.stage)) if trial.rule in names else path
            work += [(successor, longer) for successor in trial.successors]
    return paths


def _run(
    derivation: Derivation, names: set[str], target: Target, verify: Verify | None
) -> list[_Run]:
    """Run every sketch of the rules.

    Raises:
        _Refuted: a sketch cannot be lowered, or its results are wrong.
    """
    dag = derivation.dag
    paths = {number: path for number, path in sorted(_paths(derivation, names).items()) if path}
    cases = _cases(dag) if paths else ()
    programs: dict[int, list[Program]] = {}
    for number, path in paths.items():
        sketch = derivation.sketches[number]
        programs[number], wrong = _programs(dag, sketch, target, cases)
        if wrong:
            raise _Refuted(*path[-1], _told(sketch), wrong)
    chosen = {number: found[0] for number, found in programs.items() if found}
    failures = verify(dag, tuple(chosen.values())) if verify is not None and chosen else ()
    for number, failed in zip(chosen, failures, strict=False):
        if failed is not None and failed.kind not in NO_VERDICT:
            why = f"as machine code, {failed.kind}: {failed.message}"
            raise _Refuted(*paths[number][-1], _told(derivation.sketches[number]), why)
    ran = set(list(chosen)[: len(failures)])
    return [
        _Run(frozenset(rule for rule, _ in path), len(programs[number]), number in ran)
        for number, path in paths.items()
    ]


def _cases(dag: Dag) -> tuple[Case, ...]:
    return tuple(islice(each_case(dag, 0), CASES))


def _programs(
    dag: Dag, state: State, target: Target, cases: Sequence[Case]
) -> tuple[list[Program], str]:
    """Interpret programs of a state; return them, and the difference.

    The difference is "" if every program is right.
    """
    rng = np.random.default_rng(0)
    programs: list[Program] = []
    try:
        found = plans(state, target, PLANS)
        if not found:
            return [], f"none of its plans can be lowered: {_obstacle(state, target)}"
        for plan in found:
            for row in sample(plan, 1, rng):
                programs.append(bind(plan, tuple(map(int, row)), target))
                wrong = _difference(dag, programs[-1], cases)
                if wrong:
                    return programs, wrong
    except UNFIT as error:
        kind = "" if isinstance(error, AnsorError) else f"{type(error).__name__}: "
        return programs, f"the state cannot be lowered or run: {kind}{shown(error, 300)}"
    return programs, ""


def _obstacle(state: State, target: Target) -> str:
    try:
        lower(flattened(state), (), target)
    except LoweringError as error:
        return str(error)
    return "no choice of places and lanes fits"


def _difference(dag: Dag, program: Program, cases: Sequence[Case]) -> str:
    """Return the first difference between interpreted results and the reference, "" if none."""
    if program.meaning is not None:
        cases = reformulated(cases, program.meaning)
    for case in cases:
        got = interpret(program, {**case.inputs, **constants(dag)})
        failed = compare_all(case, got.__getitem__, program.by_name)
        if failed is not None:
            return failed.message
    return ""


def _told(state: State) -> str:
    """Return a loop nest, and the steps that made it."""
    steps = history(state)
    return f"{state}\nsteps:\n{steps}" if steps else str(state)
