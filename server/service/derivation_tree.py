"""The derivation of a task as rows of a page: what branches is indented, what does not is folded.

Visits at which nothing was decided become one row, a path without a choice stays at its level: only
a visit with several successors begins deeper ones.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.sketch import Derivation, RuleTrial, Visit
from ansorpy.state.rule import Verdict

DEEPEST: Final = 9  # levels beyond it are not indented further


@dataclass(frozen=True, slots=True)
class TreeRow:
    """Visits (one that decided something, or a run of those that did not), a branch, or a sketch.

    A branch begins at a visit with several successors: `rule` made it, it is number `branch` of
    them (from 1 on).
    """

    level: int
    visits: tuple[Visit, ...] = ()
    rule: str = ""
    branch: int = 0
    sketch: int | None = None
    loops: str = ""  # those of the sketch, sizes open

    @property
    def decided(self) -> tuple[RuleTrial, ...]:
        """The rules that applied, but for a run in which nothing was decided."""
        if self.visits[0].undecided:
            return ()
        return tuple(t for t in self.visits[0].trials if t.verdict is not Verdict.SKIP)


@dataclass(frozen=True, slots=True)
class RuleUse:
    """How often a rule was asked in the whole derivation, and how often it applied."""

    rule: str
    asked: int
    applied: int


def tree_rows(derivation: Derivation) -> Iterator[TreeRow]:
    """Yield the tree depth first, in the order of the rules."""
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
    """Yield the visit, and those after it as long as nothing is decided at any of them."""
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
    """Return the rules in the order in which they are asked."""
    asked: dict[str, int] = {}
    applied: dict[str, int] = {}
    for visit in visits:
        for trial in visit.trials:
            asked[trial.rule] = asked.get(trial.rule, 0) + 1
            applied[trial.rule] = applied.get(trial.rule, 0) + (trial.verdict is not Verdict.SKIP)
    return [RuleUse(rule, count, applied[rule]) for rule, count in asked.items()]
