"""Search strategies: the choice of the candidates that a round of a task measures."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ansorpy.features import extract
from ansorpy.plan.plan import Plan
from ansorpy.search.candidate import Candidate
from ansorpy.search.evolve import Predictor, evolve
from ansorpy.search.pick import eps_greedy, random_search
from ansorpy.target import Target


@dataclass(frozen=True, slots=True)
class SearchView:
    """The part of a task that a search strategy sees.

    task       the task of the plans, as in `Sample.task`
    plans      the search space, one plan per sketch and structural choices; it may grow
    costs_s    seconds of each measured candidate, inf for a failure
    measured   the candidates that survived, the least cost first
    seen       candidates that must not be proposed: measured, or waiting for a measurement
    model      the cost model of the task
    """

    task: str
    plans: Sequence[Plan]
    target: Target
    costs_s: Mapping[Candidate, float]
    measured: Sequence[Candidate]
    seen: Collection[Candidate]
    model: Predictor

    def scores(self, candidates: Sequence[Candidate]) -> npt.NDArray[np.float64]:
        """Return the scores of the cost model, shape (n,), float64; higher is better."""
        whole = np.zeros(len(candidates))
        numbers = np.array([candidate.plan for candidate in candidates], np.int64)
        batches, places = [], []
        for number in sorted(set(numbers.tolist())):
            place = np.flatnonzero(numbers == number)
            rows = np.array([candidates[i].row for i in place.tolist()], np.int64)
            plan = self.plans[number]
            batches.append(extract(plan, rows.reshape(len(place), len(plan.sizes)), self.target))
            places.append(place)
        for place, scores in zip(places, self.model.predict(batches), strict=True):
            whole[place] = scores
        return whole

    def random(self, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Return legal candidates that are not seen, spread evenly over the plans.

        Fewer than `count` are returned only if all plans together hold no more.
        """
        return random_search(self.plans, self.seen, count, rng)


class SearchStrategy(Protocol):
    """A choice of candidates; each task of a tuning has an object of its own."""

    def propose(
        self, view: SearchView, count: int, rng: np.random.Generator
    ) -> Sequence[Candidate]:
        """Return `count` different legal candidates that are not seen.

        Fewer if fewer are left; a task whose round has none ends. Random numbers come from `rng`,
        so that the seed of the request decides and an interrupted search goes on with the same.
        """
        ...


@runtime_checkable
class ResumableStrategy(SearchStrategy, Protocol):
    """A search strategy whose memory survives an interruption, as JSON in each checkpoint."""

    def state(self) -> Any:
        """Return the memory as JSON; it is read after every round."""
        ...

    def restore(self, state: Any) -> None:
        """Bring a new object to the memory that `state` returned."""
        ...


class Evolution:
    """The strategy of Ansor: evolution by the cost model, and a share of random candidates."""

    def propose(self, view: SearchView, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Return the best of one round of evolution, candidates of rare families, random ones."""
        found = evolve(
            view.plans, view.model, view.seen, rng, measured=view.measured, target=view.target
        )
        return eps_greedy(found, view.plans, view.seen, count, rng)


class RandomSearch:
    """Legal candidates at random, without the cost model: the control group of a strategy."""

    def propose(self, view: SearchView, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Return random candidates."""
        return view.random(count, rng)
