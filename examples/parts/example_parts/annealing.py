"""A search strategy: neighbours of measured candidates, drawn at a falling temperature."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ansorpy.population import mutate
from ansorpy.search import Candidate
from ansorpy.search.strategy import SearchView
from ansorpy.target import Target

COOLING = 0.7  # factor of the temperature per round
TRIES = 8  # neighbours that are scored per candidate that is asked for


class Annealing:
    """Neighbours of parents that are drawn by exp(-cost / (least cost * temperature))."""

    def __init__(self, target: Target, seed: int) -> None:
        self._temperature = 1.0

    def propose(self, view: SearchView, count: int, rng: np.random.Generator) -> list[Candidate]:
        """Return the best scored neighbours; random candidates where these are too few."""
        found: dict[Candidate, None] = {}
        if view.measured:
            costs_s = np.array([view.costs_s[one] for one in view.measured])
            weights = np.exp(-(costs_s / costs_s[0] - 1.0) / self._temperature)
            drawn = rng.choice(len(costs_s), TRIES * count, p=weights / weights.sum())
            found = dict.fromkeys(self._neighbour(view, view.measured[i], rng) for i in drawn)
            self._temperature *= COOLING
        new = [one for one in found if one not in view.seen]
        best = [new[i] for i in np.argsort(-view.scores(new), kind="stable")[: count // 2]]
        rest = [one for one in view.random(count, rng) if one not in best]
        return [*best, *rest][:count]

    @staticmethod
    def _neighbour(view: SearchView, parent: Candidate, rng: np.random.Generator) -> Candidate:
        row = np.array([parent.row], np.int64)
        child: Sequence[int] = mutate(view.plans[parent.plan], row, rng)[0].tolist()
        return Candidate(parent.plan, tuple(child))

    def state(self) -> Any:
        """Return the temperature, which goes into each checkpoint."""
        return self._temperature

    def restore(self, state: Any) -> None:
        """Go on at a temperature."""
        self._temperature = float(state)
