"""The derivation of a task as indented rows of a page.

Consecutive visits without a decision become one row. Only a visit with several successors increases
the level of the rows after it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.sketch import Derivation, RuleTrial, Visit
from ansorpy.state.rule import Verdict

DEEPEST: Final = 9  # largest level of indentation


@dataclass(frozen=True, slots=True)
class TreeRow:
    """One row: a visit with a decision, a run of visits without one, a branch, or a sketch.

    A branch is successor number `branch` (from 1) of a visit with several ones, made by `rule`.
    """

    level: int
    visits: tuple[Visit, ...] = ()
    rule: str = ""
    branch: int = 0
    sketch: int | None = None
    loops: str = ""  # loops of the sketch, with symbolic sizes

    @property
    def decided(self) -> tuple[RuleTrial, ...]:
        """The rules that applied; empty for a run of visits without a decision."""
        if self.visits[0].undecided:
            return ()
        return tuple(t for t in self.visits[0].trials if t.verdict is not Verdict.SKIP)


@dataclass(frozen=True, slots=True)
class RuleUse:
    """Number of evaluations and applications of a rule in the whole derivation."""

    rule: str
    asked: int
    applied: int


@dataclass(frozen=True, slots=True)
class PathStep:
    """A decision on the way to a sketch: the rule that applied to a stage, and the reason.

    A result of a rule with several ones is told as "2 of 3"; "" if it has one.
    """

    stage: str
    rule: str
    why: str
    result: str = ""


def path_to(derivation: Derivation, loops: str) -> list[PathStep]:
    """Return the decisions on the way to the sketch with these loops; [] if there is none."""
    numbers = [n for n, one in enumerate(derivation.sketches) if str(one) == loops]
    parents = {
        successor: (number, visit.stage, trial)
        for number, visit in enumerate(derivation.visits)
        if not visit.undecided
        for trial in visit.trials
        for successor in trial.successors
    } | {
        visit.trials[-1].successors[0]: (number, "", visit.trials[-1])
        for number, visit in enumerate(derivation.visits)
        if visit.undecided
    }
    at = next((n for n, one in enumerate(derivation.visits) if one.sketch in numbers), None)
    steps = []
    while at in parents:
        before, stage, trial = parents[at]
        if stage:
            place, count = trial.successors.index(at) + 1, len(trial.successors)
            result = f"{place} of {count}" if count > 1 else ""
            steps.append(PathStep(stage, trial.rule, trial.answer.why, result))
        at = before
    return steps[::-1]


def tree_rows(derivation: Derivation) -> Iterator[TreeRow]:
    """Yield the rows of the tree depth first, in the order of the rules."""
    stack: list[tuple[int, int | TreeRow]] = [(0, 0)]
    while stack:
        level, item = stack.pop()
        if isinstance(item, TreeRow):
            yield item
            continue
        visit = derivation.visits[item]
        if visit.sketch is not None:
            yield TreeRow(level, sketch=visit.sketch, loops=str(derivation.sketches[visit.sketch]))
            continue
        visits = tuple(_run(derivation, visit))
        yield TreeRow(level, visits=visits)
        stack += reversed(list(_following(visits[-1], level)))


def _run(derivation: Derivation, visit: Visit) -> Iterator[Visit]:
    """Yield the visit and, while no visit decides anything, the following ones."""
    yield visit
    while visit.undecided:
        visit = derivation.visits[visit.trials[-1].successors[0]]
        if not visit.undecided:
            return
        yield visit


def _following(visit: Visit, level: int) -> Iterator[tuple[int, int | TreeRow]]:
    successors = [(trial.rule, number) for trial in visit.trials for number in trial.successors]
    if len(successors) == 1:
        yield level, successors[0][1]
        return
    deeper = min(level + 1, DEEPEST)
    for branch, (rule, number) in enumerate(successors, start=1):
        yield deeper, TreeRow(deeper, rule=rule, branch=branch)
        yield deeper, number


def rule_uses(visits: Sequence[Visit]) -> list[RuleUse]:
    """Return the uses of all rules, in the order of their evaluation."""
    asked: dict[str, int] = {}
    applied: dict[str, int] = {}
    for visit in visits:
        for trial in visit.trials:
            asked[trial.rule] = asked.get(trial.rule, 0) + 1
            applied[trial.rule] = applied.get(trial.rule, 0) + (trial.verdict is not Verdict.SKIP)
    return [RuleUse(rule, count, applied[rule]) for rule, count in asked.items()]
