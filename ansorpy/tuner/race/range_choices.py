"""First answers of the ranges of a dim: choices of the cost model that share packed weights.

The last range is chosen first; the search of another range begins with its choices. If the near
choices of a range pack the weights in another tile order than later ranges do, the plans of these
are searched with the sizes that decide their packs.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from math import sqrt
from typing import Final, Protocol

import numpy as np

from ansorpy.cost.model import CostModel, ForTask
from ansorpy.plan.ahead import sizes_ahead
from ansorpy.population import fit, legal
from ansorpy.search import Candidate, best_of_plans
from ansorpy.search.fixed import best_with
from ansorpy.tuner.tasks.ranges import NEAR, in_turn, near, with_small_packs
from ansorpy.tuner.tasks.task import Task

JOINED: Final = 2  # choices whose packs are shared; timed together, since no trial corrects them
KEPT: Final = 16  # candidates of each plan of a range: their packs differ
STARTS: Final = 48  # choices of the last range that the search of another one begins with
TINY: Final = 1e-12  # least score that is divided by
SHARING: Final = 1.5  # likewise `NEAR`, by the model, if times decide afterwards
TIMED: Final = 3  # plans of a range whose best choices are timed alone
FORMS: Final = 3  # candidates of another range whose packs a range tries
ALONE_S: Final = 0.2  # seconds in which they are, in turns
PLANS: Final = 3  # plans of the first and of the last range that ranges between them have

Ranked = list[tuple[Candidate, float]]  # candidates with their costs, the least first
# Returns a candidate of the range of a number with the packs of one of another range, or none.
Like = Callable[[int, Task, Candidate], list[Candidate]]


class Ranker(Protocol):
    """A function that returns the best candidates of a task, at most `keep` of each plan.

    With candidates to start from, its search is shorter.
    """

    def __call__(self, task: Task, *, keep: int, starts: Sequence[Candidate] = ()) -> Ranked:
        """Return them."""
        ...


def cost_of_score(score: float) -> float:
    """Return a cost that is comparable within a task.

    The analytic model has the order of candidates, but ratios of about the square of theirs.
    """
    return 1 / sqrt(max(score, TINY))


class Timer(Protocol):
    """A function that times candidates of a task in turns, each alone."""

    def __call__(
        self, task: Task, candidates: list[Candidate], seconds: float, /
    ) -> list[tuple[Candidate, float]]:
        """Return those that ran with their costs in seconds, the least first."""
        ...


def choose_ranges(
    parts: Sequence[Task], ranker: Ranker, model: CostModel, seed: int, timer: Timer | None = None
) -> list[tuple[Candidate, ...]]:
    """Return choices of a candidate for each range, the best first; [] if a range has none.

    A range between others without plans gets the best plans of the first and of the last one: to
    record the features of a plan takes longest.

    Args:
        timer: tells which choices that share packed weights are about as fast as others, if the
            weights are cold; None: the model does.
    """
    last = parts[-1]
    ranked = {last.name: ranker(last, keep=KEPT)}
    for part in parts[:-1]:  # the first one is open, so that its choices are known next
        if not part.space.plans:
            _open(part, [(other, ranked[other.name]) for other in (last, parts[0])])
        starts = _moved(part, last, [one for one, _ in ranked[last.name][:STARTS]])
        ranked[part.name] = ranker(part, keep=KEPT, starts=starts)
    of_parts = [ranked[part.name] for part in parts]
    if not all(of_parts):
        return []
    if timer is not None and weights_are_cold(parts):
        like = _like(parts, of_parts, SHARING, model, seed)
        shared = [_by_time(parts, of_parts, like, timer)]
    else:
        shared = _by_cost(parts, of_parts, _like(parts, of_parts, NEAR, model, seed))
    every = [[one for one, _ in found][:KEPT] for found in of_parts]
    return list(dict.fromkeys([*shared, *in_turn(every)]))


def weights_are_cold(parts: Sequence[Task]) -> bool:
    """Return True if the ranges are timed with cold weights: there the model errs most."""
    return all(part.identity.cold_bytes for part in parts)


def _by_cost(
    parts: Sequence[Task], ranked: Sequence[Ranked], like: Like
) -> list[tuple[Candidate, ...]]:
    """Return choices that share packed weights, as the costs of the model tell."""

    def further(number: int, chosen: Sequence[Candidate]) -> Iterator[Candidate]:
        if parts[number].history.ranked():
            return  # costs are times, not scores
        others = parts[number + 1 :] or parts[:-1]
        bests = chosen or [of_part[0][0] for of_part in ranked[:-1]]
        for pair in zip(others, bests, strict=True):
            yield from like(number, *pair)

    spaces, alike = [part.space for part in parts], list(map(near, ranked))
    shared: list[tuple[Candidate, ...]] = []
    while alike[-1] and len(shared) < JOINED:
        shared.append(with_small_packs(spaces, alike, further))
        used = shared[-1][-1].plan
        alike = [one[1:] or one for one in alike[:-1]] + [[c for c in alike[-1] if c.plan != used]]
    return shared


def _by_time(
    parts: Sequence[Task], ranked: Sequence[Ranked], like: Like, timer: Timer
) -> tuple[Candidate, ...]:
    """Return a choice that shares packed weights, as times of the ranges alone tell.

    First the best choices of several plans are timed. Then the last range tries the packs of the
    fastest ones of the others, and each other range the packs of the fastest ones of the last.
    """
    timed = [
        timer(part, best_of_plans([one for one, _ in of_part], TIMED), ALONE_S)
        for part, of_part in zip(parts, ranked, strict=True)
    ]
    last, spaces = len(parts) - 1, [part.space for part in parts]
    for number in reversed(range(len(parts))):
        others = range(last) if number == last else (last,)
        models = [(parts[k], one) for k in others for one in near(timed[k])[:FORMS]]
        own, packs = near(timed[number]), spaces[number].packs
        known = list(map(packs, own))
        more = [
            one
            for part, model in models
            if part.space.packs(model) not in known
            for one in like(number, part, model)
        ]
        if more:
            timed[number] = timer(parts[number], list(dict.fromkeys([*own, *more])), ALONE_S)
    return with_small_packs(spaces, list(map(near, timed)))


def _open(part: Task, neighbours: Sequence[tuple[Task, Ranked]]) -> None:
    """Lower the best plans of other ranges for a part, or plans of its own if it has none."""
    for other, ranked in neighbours:
        for one in best_of_plans([candidate for candidate, _ in ranked], PLANS):
            part.space.number_of(other.space.texts[one.plan])
    if not part.space.plans:
        part.space.lower(PLANS)


def _moved(part: Task, other: Task, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates of another range in the plans of a part, if they are legal there."""
    found = []
    for one in candidates:
        text = other.space.texts[one.plan]
        if text in part.space.texts:
            number = part.space.texts.index(text)
            own, model = part.space.plans[number], other.space.plans[one.plan]
            if own.column.keys() != model.column.keys():
                continue  # a loop of one step has no tile size
            rows = fit(own, np.array([[one.row[model.column[name]] for name in own.column]]))
            if legal(own, rows).all():
                found.append(Candidate(number, tuple(map(int, rows[0]))))
    return list(dict.fromkeys(found))


def _like(
    parts: Sequence[Task], ranked: Sequence[Ranked], ratio: float, model: CostModel, seed: int
) -> Like:
    """Return the function that searches a candidate of a range with the packs of another one.

    Args:
        ratio: of its cost to the least of the range, at most.
    """

    @cache
    def found(number: int, plan: str, sizes: tuple[tuple[str, int], ...]) -> list[Candidate]:
        part, of_part = parts[number], ranked[number]
        place = part.space.number_of(plan)
        if place is None:
            return []
        starts = [candidate.row for candidate, _ in of_part if candidate.plan == place]
        own, rng = part.space.plans[place], np.random.default_rng((seed, 2))
        best = best_with(own, dict(sizes), starts, ForTask(model, part.key), rng, part.target)
        if best is None or cost_of_score(best[1]) > ratio * of_part[0][1]:
            return []
        return [Candidate(place, best[0])]

    def like(number: int, other: Task, packed: Candidate) -> list[Candidate]:
        sizes = sizes_ahead(other.space.plans[packed.plan], packed.row)
        return found(number, other.space.texts[packed.plan], tuple(sizes.items())) if sizes else []

    return like
