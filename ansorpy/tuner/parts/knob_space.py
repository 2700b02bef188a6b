"""The space of a template: points are choices of its knobs, and a tuner proposes the next ones.

Points that differ in numbers only share a plan, so that a round of them is measured, recorded and
scored as a round of the search is.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice, product
from math import inf, prod
from operator import eq
from typing import Final, TypeAlias

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.plan.plan import Plan
from ansorpy.replay import plan_text
from ansorpy.schedule.knobs import Knob
from ansorpy.schedule.lowered import PlanKey, Scheduled, applied, forms, placed
from ansorpy.schedule.schedule import Schedule
from ansorpy.schedule.template import Template
from ansorpy.search import Candidate
from ansorpy.search.evolve import Predictor
from ansorpy.search.strategy import SearchView
from ansorpy.state.steps import reformulations
from ansorpy.tuner.tasks.search_space import SearchSpace

Point: TypeAlias = tuple[int, ...]  # the position of the value of each knob

LISTED: Final = 65_536  # points of a space whose points are drawn without repetition
TRIES: Final = 4096  # points without a schedule in a row, after which a tuner gives up
SHAPES: Final = 512  # choices of knobs whose plans are looked up for a record; each takes some ms
FIRST: Final = 16  # random points before the genetic tuner breeds
PARENTS: Final = 32  # best points that have children, at most
LEAST_PARENTS: Final = 4
MUTATION: Final = 0.1  # share of the knobs of a child that are drawn again, as in AutoTVM
POPULATION: Final = 256  # points that the model scores in each generation
GENERATIONS: Final = 4
EPSILON: Final = 0.05  # share of random points in a round; the model chooses the others


@dataclass(slots=True)
class KnobSpace:
    """The candidates of a template for one task."""

    name: str
    template: Template
    knobs: tuple[Knob, ...]
    tuner: str
    allow: frozenset[str]
    single: bool = False
    loops: str = ""
    candidates: dict[Point, Candidate | None] = field(default_factory=dict)  # None: no schedule
    points: dict[Candidate, Point] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    plans: dict[PlanKey, Plan] = field(default_factory=dict)
    cursor: int = 0  # the next point of the grid
    shapes: dict[str, Point] = field(default_factory=dict)  # see `find`; made for the first record

    @property
    def size(self) -> int:
        """The number of points."""
        return prod(len(knob.values) for knob in self.knobs)

    def open(self, space: SearchSpace) -> None:
        """Find a point with a schedule.

        Raises:
            SpecError: there is none among the first `TRIES`; tells the most frequent reasons.
        """
        rng = np.random.default_rng(0)
        if any(self.candidate(space, point) for point in self._drawn(rng)):
            return
        told = "; ".join(f"{count} times: {why}" for why, count in self.reasons.most_common(3))
        raise SpecError(
            f"cannot tune {space.dag.name} by its template because none of"
            f" {len(self.candidates)} choices of its knobs has a schedule ({told}); expected one"
            " that has"
        )

    def candidate(self, space: SearchSpace, point: Point) -> Candidate | None:
        """Return the candidate of a point; None if its schedule does not fit."""
        if point not in self.candidates:
            self.candidates[point] = self._make(space, point)
        return self.candidates[point]

    def _make(self, space: SearchSpace, point: Point) -> Candidate | None:
        try:
            schedule = self._schedule(space, point)
            state = applied(schedule, space.dag, self.allow)
            one = placed(schedule, state, space.target, self.plans)
        except SpecError as error:
            self.reasons[str(error)] += 1
            return None
        space.allowed |= frozenset(reformulations(one.plan.state))
        made = Candidate(space.add_plan(one.plan, plan_text(one.plan)), one.row)
        self.points.setdefault(made, point)
        return made

    def find(self, space: SearchSpace, plan: str, row: tuple[int, ...]) -> Candidate | None:
        """Return the candidate of a plan and a row; None if no point is found that makes it.

        Knobs that change plans take choices that make the plan; then each of the other knobs takes
        the value that gives most sizes of the row. A size that depends on two of those knobs may
        not be found. The text of the plan is compared, never read.
        """
        if not self.shapes:
            self.shapes = self._shapes(space)
        point = self.shapes.get(plan)
        if point is None:
            return None
        for at in range(len(self.knobs)):
            moved = self._values(point, at)
            point = max(moved, key=lambda one: self._matches(space, one, plan, row))
        made = self.candidate(space, point)
        same = made is not None and (space.texts[made.plan], made.row) == (plan, row)
        return made if same else None

    def _values(self, point: Point, at: int) -> list[Point]:
        """Return the points with each value of one knob, the point's own value first."""
        others = [one for one in range(len(self.knobs[at].values)) if one != point[at]]
        return [(*point[:at], one, *point[at + 1 :]) for one in (point[at], *others)]

    def _shapes(self, space: SearchSpace) -> dict[str, Point]:
        """Return a point of each plan by the text of the plan; of `SHAPES` points at most."""
        base = next(iter(self.points.values()), self.at(0))
        own = set(map(id, self._plans(space, base)))
        turned = [
            at
            for at in range(len(self.knobs))
            if any(set(map(id, self._plans(space, p))) != own for p in self._values(base, at))
        ]
        shapes: dict[str, Point] = {}
        choices = product(*(range(len(self.knobs[at].values)) for at in turned))
        for chosen in islice(choices, SHAPES):
            values = dict(zip(turned, chosen, strict=True))
            point = tuple(values.get(at, base[at]) for at in range(len(base)))
            for plan in self._plans(space, point):
                shapes.setdefault(plan_text(plan), point)
        return shapes

    def _plans(self, space: SearchSpace, point: Point) -> list[Plan]:
        return [one.plan for one in self._forms(space, point)]

    def _forms(self, space: SearchSpace, point: Point) -> list[Scheduled]:
        """Return the plans of a point with its rows, legal or not; none if it has no schedule."""
        try:
            schedule = self._schedule(space, point)
            state = applied(schedule, space.dag, self.allow)
        except SpecError:
            return []
        return list(forms(schedule, state, space.target, self.plans))

    def _matches(self, space: SearchSpace, point: Point, plan: str, row: tuple[int, ...]) -> int:
        """Return the number of sizes of a row that a point gives; -1 if it has another plan."""
        rows = [one.row for one in self._forms(space, point) if plan_text(one.plan) == plan]
        return sum(map(eq, rows[0], row)) if rows else -1

    def _schedule(self, space: SearchSpace, point: Point) -> Schedule:
        values = {knob.name: knob.values[at] for knob, at in zip(self.knobs, point, strict=True)}
        return self.template.schedule(space.dag, values)

    def propose(
        self, space: SearchSpace, view: SearchView, count: int, rng: np.random.Generator
    ) -> list[Candidate]:
        """Return `count` candidates that are not seen; fewer if fewer are found."""
        chosen: dict[Candidate, None] = {}
        for points in (TUNERS[self.tuner](self, space, view, count, rng), self._drawn(rng)):
            missed = 0
            for point in points:
                if len(chosen) == count or missed == TRIES:
                    break
                one = self.candidate(space, point)
                if one is None or one in view.seen or one in chosen:
                    missed += 1
                    continue
                chosen[one], missed = None, 0
        return list(chosen)

    def random_point(self, rng: np.random.Generator) -> Point:
        """Return a point, each with the same probability."""
        return tuple(int(rng.integers(len(knob.values))) for knob in self.knobs)

    def at(self, number: int) -> Point:
        """Return a point by its number; the last knob changes first."""
        point = []
        for knob in reversed(self.knobs):
            number, position = divmod(number, len(knob.values))
            point.append(position)
        return tuple(reversed(point))

    def _drawn(self, rng: np.random.Generator) -> Iterator[Point]:
        """Yield points in random order: all of a small space, `TRIES` of a large one."""
        if self.size <= LISTED:
            yield from map(self.at, rng.permutation(self.size).tolist())
        else:
            for _ in range(TRIES):
                yield self.random_point(rng)

    def ranked(self, view: SearchView) -> list[Point]:
        """Return the measured points that survived, the least cost first."""
        return [self.points[one] for one in view.measured if one in self.points]


Proposals: TypeAlias = Iterator[Point]
Tuner: TypeAlias = Callable[
    [KnobSpace, SearchSpace, SearchView, int, np.random.Generator], Proposals
]


def random(
    own: KnobSpace, space: SearchSpace, view: SearchView, count: int, rng: np.random.Generator
) -> Proposals:
    """Propose random points."""
    return own._drawn(rng)


def grid(
    own: KnobSpace, space: SearchSpace, view: SearchView, count: int, rng: np.random.Generator
) -> Proposals:
    """Propose all points in order, from where the last round ended."""
    while own.cursor < own.size:
        own.cursor += 1
        yield own.at(own.cursor - 1)


def genetic(
    own: KnobSpace, space: SearchSpace, view: SearchView, count: int, rng: np.random.Generator
) -> Proposals:
    """Propose children of the fastest quarter of the points, after `FIRST` random ones.

    Parents are drawn in proportion to their speed.
    """
    if len(view.costs_s) < FIRST:
        yield from own._drawn(rng)
    fastest = own.ranked(view)
    parents = fastest[: min(PARENTS, max(LEAST_PARENTS, len(fastest) // 4))]
    if not parents:
        return
    costs_s = np.array([_cost_s(own, view, point) for point in parents])
    for _ in range(TRIES):
        yield _child(own, parents, 1.0 / costs_s, rng)


def model(
    own: KnobSpace, space: SearchSpace, view: SearchView, count: int, rng: np.random.Generator
) -> Proposals:
    """Propose the unseen points of the best scores after some generations, and a few random ones.

    A generation is bred from the best of the one before, half of it measured points at first.
    """
    population = own.ranked(view)[:PARENTS]
    population += [own.random_point(rng) for _ in range(POPULATION - len(population))]
    scores: dict[Point, float] = {}
    for _ in range(GENERATIONS):
        fresh = [point for point in dict.fromkeys(population) if point not in scores]
        scores |= _scored(own, space, view.model, fresh)
        best = sorted(scores, key=scores.__getitem__, reverse=True)[:PARENTS]
        if not best:
            break
        weights = np.array([scores[point] for point in best])
        weights = weights - weights.min() + 1e-3 * (1.0 + np.ptp(weights))
        population = [_child(own, best, weights, rng) for _ in range(POPULATION)]
    unseen = [point for point in scores if own.candidates[point] not in view.seen]
    ordered = sorted(unseen, key=scores.__getitem__, reverse=True)
    explored = sum(rng.random(count) < EPSILON)
    yield from ordered[: count - explored]
    for _ in range(explored):
        yield own.random_point(rng)
    yield from ordered[count - explored :]


TUNERS: Final[dict[str, Tuner]] = {
    "model": model, "genetic": genetic, "grid": grid, "random": random,
}  # fmt: skip


def _scored(
    own: KnobSpace, space: SearchSpace, model: Predictor, points: Sequence[Point]
) -> dict[Point, float]:
    """Return the scores of the points that have a schedule; higher is better."""
    made = {point: own.candidate(space, point) for point in points}
    by_plan: dict[int, dict[Point, Candidate]] = {}
    for point, one in made.items():
        if one is not None:
            by_plan.setdefault(one.plan, {})[point] = one
    batches = [space.features(plan, list(own.values())) for plan, own in by_plan.items()]
    found = model.predict(batches) if batches else []
    return {
        point: float(score)
        for own, scores in zip(by_plan.values(), found, strict=True)
        for point, score in zip(own, scores, strict=True)
    }


def _child(
    own: KnobSpace, parents: Sequence[Point], weights: np.ndarray, rng: np.random.Generator
) -> Point:
    """Return a point with each knob of one of two parents; some knobs are drawn again."""
    share = np.cumsum(weights) / np.sum(weights)
    first, second = (parents[min(int(at), len(parents) - 1)] for at in _drawn_two(share, rng))
    picks = rng.random((2, len(own.knobs)))
    return tuple(
        int(rng.integers(len(knob.values))) if mutate < MUTATION else (one if pick < 0.5 else other)
        for knob, one, other, pick, mutate in zip(own.knobs, first, second, *picks, strict=True)
    )


def _drawn_two(share: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    return np.searchsorted(share, rng.random(2), side="right")


def _cost_s(own: KnobSpace, view: SearchView, point: Point) -> float:
    one = own.candidates[point]
    return inf if one is None else view.costs_s[one]
