"""Rules and sampled choices that are over-represented among the failures of a task.

Every trial has *traits*: the rules that made its sketch, the structural choices of its plan, and
its sizes. A trait is a suspect of a kind of failure if more of these failures have it than chance
explains. Trials of a search are no random sample, so that a suspect is a hint and no proof.

Source: docs/adr/0163-reasons.md; Fisher, The Design of Experiments, 1935 (exact test).
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import exp, lgamma
from typing import Final

from ansorpy.events import Suspect
from ansorpy.plan.plan import StageChoice
from ansorpy.search import Candidate
from ansorpy.state.state import Attached, Inlined
from ansorpy.tuner.tasks.task import Task

LEAST_FAILED: Final = 5  # failures of a kind that have the trait: fewer are chance
LEAST_LIFT: Final = 1.5  # ratio of the share of the trait among the failures to that in all trials
ERROR: Final = 0.01  # largest chance that any suspect of a task is none (Bonferroni)


@dataclass(frozen=True, slots=True)
class Traits:
    """The traits of a measured candidate; `failure` is the kind of its failure, "" for none."""

    structure: Collection[str]  # rules and structural choices, the rules first
    sizes: Mapping[str, int]
    failure: str


def suspects_of(task: Task) -> tuple[Suspect, ...]:
    """Return the suspects of a task, at most one of each kind of failure."""
    if len(task.history.kinds) < LEAST_FAILED:
        return ()
    return suspects([trial_of(task, candidate) for candidate in task.history.costs_s])


def trial_of(task: Task, candidate: Candidate) -> Traits:
    """Return the traits of a measured candidate."""
    sizes = sizes_of(task, candidate)
    return Traits(structure_of(task, candidate), sizes, task.history.kinds.get(candidate, ""))


def sizes_of(task: Task, candidate: Candidate) -> dict[str, int]:
    """Return the sizes of a candidate by name."""
    names = (size.name for size in task.space.plans[candidate.plan].sizes)
    return dict(zip(names, candidate.row, strict=True))


def structure_of(task: Task, candidate: Candidate) -> tuple[str, ...]:
    """Return the rules and the structural choices of a candidate, as texts."""
    plan = task.space.plans[candidate.plan]
    rules = (f"rule {one}" for one in task.space.rules_of(plan.state))
    choices = (text for name, choice in plan.choices for text in _choices(name, choice))
    return (*rules, *choices)


def _choices(stage: str, choice: StageChoice) -> Iterator[str]:
    match choice.location:
        case Attached(stage=other, loop=loop):
            yield f"{stage} computed at {other}.{loop}"
        case Inlined():
            yield f"{stage} inlined"
        case _:
            yield f"{stage} at the root, {choice.parallel} parallel loops"
    yield f"{stage} in scalars" if choice.lane is None else f"{stage} vectorized over {choice.lane}"
    yield from (f"{operand} packed" for operand in choice.pack)


def suspects(trials: Sequence[Traits]) -> tuple[Suspect, ...]:
    """Return the most significant suspect of each kind of failure that has one.

    A trait of all trials is none. Of traits that the same trials have, the first counts.
    """
    kinds = dict.fromkeys(trial.failure for trial in trials if trial.failure)
    having: dict[frozenset[int], str] = {}
    for trait, members in _traits(trials):
        if len(members) < len(trials):
            having.setdefault(members, trait)
    suspects = []
    for kind in kinds:
        failed = frozenset(n for n, trial in enumerate(trials) if trial.failure == kind)
        tests = len(having) * len(kinds)
        best = min(_tested(kind, failed, having, len(trials)), key=lambda one: one.p, default=None)
        if best is not None and best.p * tests <= ERROR:
            suspects.append(best)
    return tuple(suspects)


def _tested(
    kind: str, failed: frozenset[int], having: Mapping[frozenset[int], str], count: int
) -> Iterator[Suspect]:
    for members, trait in having.items():
        both = len(members & failed)
        if both >= LEAST_FAILED and both * count >= LEAST_LIFT * len(members) * len(failed):
            p = upper_tail(both, len(failed), len(members), count)
            yield Suspect(kind, trait, both, len(failed), len(members), count, p)


def _traits(trials: Sequence[Traits]) -> Iterator[tuple[str, frozenset[int]]]:
    """Yield every trait with the numbers of its trials: structure, then values and ranges."""
    members: dict[str, set[int]] = {}
    sizes: dict[str, dict[int, set[int]]] = {}  # by name and value
    for number, trial in enumerate(trials):
        for trait in trial.structure:
            members.setdefault(trait, set()).add(number)
        for name, value in trial.sizes.items():
            sizes.setdefault(name, {}).setdefault(value, set()).add(number)
    yield from ((trait, frozenset(numbers)) for trait, numbers in members.items())
    for name, by_value in sizes.items():
        for value in sorted(by_value):
            yield f"{name} = {value}", frozenset(by_value[value])
            up = (numbers for other, numbers in by_value.items() if other >= value)
            yield f"{name} >= {value}", frozenset[int]().union(*up)
            down = (numbers for other, numbers in by_value.items() if other <= value)
            yield f"{name} <= {value}", frozenset[int]().union(*down)


def upper_tail(both: int, failed: int, having: int, count: int) -> float:
    """Return the chance that at least `both` of `failed` draws have a trait.

    Drawn without replacement from `count` trials of which `having` have the trait: the p-value of
    Fisher's exact test, one-sided.
    """
    last = min(failed, having)
    every = _log_choose(count, failed)
    return min(
        1.0,
        sum(
            exp(_log_choose(having, k) + _log_choose(count - having, failed - k) - every)
            for k in range(max(both, failed + having - count), last + 1)
        ),
    )


def _log_choose(n: int, k: int) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
