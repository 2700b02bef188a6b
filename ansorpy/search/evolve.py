"""One round of evolutionary search over the populations of several plans."""

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from ansorpy.features import extract
from ansorpy.plan.plan import Plan
from ansorpy.population import crossover, keys, migrate, mutate, sample, unique
from ansorpy.population.mutate import Weights
from ansorpy.search.candidate import Candidate, KeyArray, Scored, keys_by_plan
from ansorpy.search.siblings import Moves, moves
from ansorpy.target import CpuTarget, Target

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_BATCH: Final = 128  # rows of one plan per batch: a pass over fewer rows takes as long


@dataclass(frozen=True, slots=True)
class EvolutionSettings:
    """Settings of a round, by default as in released Ansor (OSDI 2020 and its source).

    Three settings are ours. `plan_floor` is the share of the population that goes to random
    plans regardless of their scores, so that an early misprediction starves no plan. `pressure`:
    a parent is drawn with probability proportional to score ** pressure. `keep_of_plan` limits
    the candidates kept of one plan, because a model that scores all rows of a plan alike would
    otherwise crowd out all other plans.
    """

    population: int = 2048
    iterations: int = 4
    mutation: float = 0.85
    crossover: float = 0.0
    measured_share: float = 0.2
    keep: int = 256
    keep_of_plan: int = 32
    plan_floor: float = 0.25
    pressure: float = 4.0
    exact: bool = False
    weights: Weights = field(default_factory=Weights)


class Predictor(Protocol):
    """The interface of a cost model to the search."""

    def predict(self, batches: Sequence[npt.NDArray[np.float32]]) -> list[FloatArray]:
        """Return one array of scores per batch of shape (n, stores, F); higher is better."""
        ...


def evolve(
    plans: Sequence[Plan],
    model: Predictor,
    seen: Collection[Candidate],
    rng: np.random.Generator,
    settings: EvolutionSettings | None = None,
    measured: Sequence[Candidate] = (),
    target: Target | None = None,
) -> list[Scored]:
    """Return the unseen candidates of the highest scores, best first, at most `keep`.

    Args:
        seen: candidates that are not proposed again.
        measured: the fastest measured candidates, fastest first; they seed the population.

    Returns fewer than `keep` candidates if the spaces hold no more. Deterministic by `rng`.
    """
    return _Evolution(
        plans, model, seen, rng, settings or EvolutionSettings(), target or CpuTarget()
    ).run(measured)


class _Evolution:
    def __init__(
        self,
        plans: Sequence[Plan],
        model: Predictor,
        seen: Collection[Candidate],
        rng: np.random.Generator,
        settings: EvolutionSettings,
        target: Target,
    ) -> None:
        self.plans = plans
        self.model = model
        self.rng = rng
        self.settings = settings
        self.target = target
        self.moves: list[Moves] = moves(plans)
        self.best = _TopCandidates(settings, keys_by_plan(seen, len(plans)))

    def run(self, measured: Sequence[Candidate]) -> list[Scored]:
        if not self.plans:
            return []
        population = self._first(measured)
        for iteration in range(self.settings.iterations + 1):
            scores = self._score(population)
            for plan, (rows, score) in enumerate(zip(population, scores, strict=True)):
                self.best.offer(plan, rows, score)
            if iteration < self.settings.iterations:
                population = self._next(population, scores)
        return self.best.ranked()

    def _first(self, measured: Sequence[Candidate]) -> list[IntArray]:
        limit = int(self.settings.measured_share * self.settings.population)
        seeds: list[list[tuple[int, ...]]] = [[] for _ in self.plans]
        for candidate in measured[:limit]:
            seeds[candidate.plan].append(candidate.row)
        rest = self.settings.population - min(limit, len(measured))
        shares = self._fresh(rest, first=not measured)
        answer = []
        for plan, own, share in zip(self.plans, seeds, shares, strict=True):
            rows = np.array(own, np.int64).reshape(len(own), len(plan.sizes))
            if share:
                fresh = sample(plan, share, self.rng, self.settings.exact)
                rows = np.concatenate([rows, fresh])
            answer.append(unique(rows))
        return answer

    def _fresh(self, rest: int, first: bool) -> list[int]:
        """Return the number of random rows per plan.

        The first round gives rows to every plan; later rounds give batches to random plans.
        """
        count = len(self.plans)
        drawn = count if first else min(count, max(1, rest // _BATCH))
        shares = np.zeros(count, np.int64)
        shares[self.rng.permutation(count)[:drawn]] = max(1, rest // drawn)
        return [int(share) for share in shares]

    def _score(self, population: Sequence[IntArray]) -> list[FloatArray]:
        batches = [
            extract(plan, rows, self.target)
            for plan, rows in zip(self.plans, population, strict=True)
        ]
        return self.model.predict(batches)

    def _next(self, population: Sequence[IntArray], scores: Sequence[FloatArray]) -> list[IntArray]:
        parents = self._parents(population, scores)
        children: list[list[IntArray]] = [[] for _ in self.plans]
        for plan, (rows, chosen) in enumerate(zip(population, parents, strict=True)):
            if not len(chosen):
                continue
            mutated = self.rng.random(len(chosen)) < self.settings.mutation
            children[plan].append(rows[chosen[~mutated]])
            self._mutate(plan, rows[chosen[mutated]], rows, children)
        return [
            unique(np.concatenate(found)) if found else population[plan][:0]
            for plan, found in enumerate(children)
        ]

    def _mutate(
        self, plan: int, parents: IntArray, rows: IntArray, children: list[list[IntArray]]
    ) -> None:
        """Append the mutated `parents` of a plan to `children`; some migrate to a sibling."""
        own, near = self.plans[plan], self.moves[plan]
        inside = self.settings.weights
        share = near.total / (inside.total + near.total)
        count = _batch_size(share * len(parents), _BATCH // 4, self.rng)
        if count:
            movers = parents[self.rng.integers(0, len(parents), count)]
            sibling = int(self.rng.choice(near.plans, p=near.weights / near.total))
            children[sibling].append(migrate(own, movers, self.plans[sibling], self.rng))
        staying = parents[count:]
        if self.settings.crossover > 0:
            mates = rows[self.rng.integers(0, len(rows), len(staying))]
            crossed = self.rng.random(len(staying)) < self.settings.crossover
            staying[crossed] = crossover(own, staying[crossed], mates[crossed], self.rng)
        children[plan].append(mutate(own, staying, self.rng, self.settings.exact, inside))

    def _parents(
        self, population: Sequence[IntArray], scores: Sequence[FloatArray]
    ) -> list[IntArray]:
        """Return the positions of the parents per plan: by score over all plans, plus the floor.

        Parents are drawn in batches per plan, because every plan with rows costs one more pass.
        """
        floor = int(self.settings.plan_floor * self.settings.population)
        weights = [np.maximum(score, 0.0) ** self.settings.pressure for score in scores]
        totals = np.array([weight.sum() for weight in weights])
        if totals.sum() <= 0:
            weights = [np.ones(len(rows)) for rows in population]
            totals = np.array([float(len(rows)) for rows in population])
        alive = np.flatnonzero([len(rows) > 0 for rows in population])
        counts = _deal(totals, self.settings.population - floor, self.rng)
        spared = self.rng.permutation(alive)[: max(1, floor // _BATCH)]
        for plan in spared.tolist():
            counts[plan] += floor // len(spared)
        return [
            _draw(weight, count, self.rng)
            for weight, count in zip(weights, counts.tolist(), strict=True)
        ]


def _deal(totals: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Distribute `n` parents in batches by the shares of the plans (systematic sampling)."""
    batches = max(1, n // _BATCH)
    ends = np.cumsum(totals) / totals.sum() * batches
    ticks = np.arange(batches) + rng.random()
    owners = np.minimum(np.searchsorted(ends, ticks, side="right"), len(totals) - 1)
    return np.asarray(np.bincount(owners, minlength=len(totals)) * (n // batches), np.int64)


def _batch_size(expected: float, least: int, rng: np.random.Generator) -> int:
    """Return `expected` on average, but no number between 0 and `least`."""
    if expected >= least:
        return int(expected)
    return least if rng.random() * least < expected else 0


def _draw(weights: FloatArray, n: int, rng: np.random.Generator) -> IntArray:
    """Draw `n` positions with probability proportional to weight; uniformly if all are 0."""
    if not len(weights) or n <= 0:
        return np.zeros(0, np.int64)
    share = np.cumsum(weights)
    if share[-1] <= 0:
        return np.asarray(rng.integers(0, len(weights), n), np.int64)
    drawn = np.searchsorted(share, rng.random(n) * share[-1], side="right")
    return np.asarray(np.minimum(drawn, len(weights) - 1), np.int64)


class _TopCandidates:
    """The unseen candidates of the highest scores so far, limited per plan and in total."""

    def __init__(self, settings: EvolutionSettings, seen: list[KeyArray]) -> None:
        self._keep = settings.keep
        self._limit = min(settings.keep, settings.keep_of_plan)
        self._known = seen
        self._heaps: list[list[tuple[float, int, Candidate]]] = [[] for _ in seen]
        self._offers = 0

    def offer(self, plan: int, rows: IntArray, scores: FloatArray) -> None:
        """Insert the rows (without repeats) that are unseen and score well enough."""
        heap = self._heaps[plan]
        key = keys(rows)
        good = np.isin(key, self._known[plan], invert=True)
        if len(heap) == self._limit:
            good &= scores > heap[0][0]
        positions = np.flatnonzero(good)
        if len(positions) > self._limit:
            best = np.argpartition(-scores[positions], self._limit - 1)[: self._limit]
            positions = np.sort(positions[best])
        for position in positions.tolist():
            # Of candidates with equal scores the first one offered stays, for determinism.
            self._offers += 1
            entry = (
                float(scores[position]),
                -self._offers,
                Candidate(plan, tuple(rows[position].tolist())),
            )
            if len(heap) < self._limit:
                heapq.heappush(heap, entry)
            else:
                heapq.heappushpop(heap, entry)
        self._known[plan] = np.concatenate([self._known[plan], key[positions]])

    def ranked(self) -> list[Scored]:
        """Return the candidates, best first."""
        every = sorted(entry for heap in self._heaps for entry in heap)[::-1]
        return [Scored(candidate, score) for score, _, candidate in every[: self._keep]]
