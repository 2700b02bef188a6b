"""Structural mutation: plans of one sketch that differ in one choice."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Plan, StageChoice

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

# Weights on the scale of ansorpy.population.Weights, in which a tile size has 0.90. The
# weights of location and parallel granularity are released Ansor's, of lane and pack ours.
WEIGHTS: Final[Mapping[str, float]] = {
    "location": 0.05, "pack": 0.02, "lane": 0.02, "parallel": 0.01,
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class Moves:
    """The plans that rows of one plan can move to; `weights` are on the scale of WEIGHTS."""

    plans: IntArray
    weights: FloatArray

    @property
    def total(self) -> float:
        """The weight of all moves, compared with 0.90 for a tile size; 0 without siblings."""
        return float(self.weights.sum())


def moves(plans: Sequence[Plan]) -> list[Moves]:
    """Return the moves of every plan.

    Two plans of one sketch differ by the first of location, pack, lane and parallel in which
    their choices for a stage differ (a difference in one often forces differences in the later
    ones). The nearest plans of each kind are neighbours, and share the weight of the kind.
    """
    codes, kinds = _codes(plans)
    sketches = _sketches(plans)
    answer = []
    for i in range(len(plans)):
        differs = codes != codes[i]
        distance = differs.sum(axis=1)
        sibling = (sketches == sketches[i]) & (distance > 0)
        neighbours: list[int] = []
        weights: list[float] = []
        taken = np.zeros(len(plans), np.bool_)
        for kind, weight in WEIGHTS.items():
            mine = sibling & ~taken & differs[:, kinds == kind].any(axis=1)
            taken |= mine
            if not mine.any():
                continue
            near = np.flatnonzero(mine & (distance == distance[mine].min()))
            neighbours += near.tolist()
            weights += [weight / len(near)] * len(near)
        answer.append(Moves(np.array(neighbours, np.int64), np.array(weights, np.float64)))
    return answer


def _sketches(plans: Sequence[Plan]) -> IntArray:
    known: list[Plan] = []
    numbers = []
    for plan in plans:
        for number, other in enumerate(known):
            if other.state is plan.state or other.state == plan.state:
                numbers.append(number)
                break
        else:
            numbers.append(len(known))
            known.append(plan)
    return np.array(numbers, np.int64)


def _codes(plans: Sequence[Plan]) -> tuple[IntArray, npt.NDArray[np.str_]]:
    """Return a number per plan and (stage, kind of choice), and the kind of every column."""
    chosen = [dict(plan.choices) for plan in plans]
    stages = sorted(set().union(*chosen)) if chosen else []
    columns, kinds = [], []
    for stage in stages:
        for kind in WEIGHTS:
            values = [_value(choice.get(stage), kind) for choice in chosen]
            number = {value: i for i, value in enumerate(dict.fromkeys(values))}
            columns.append([number[value] for value in values])
            kinds.append(kind)
    codes = np.array(columns, np.int64).reshape(len(columns), len(plans)).T
    return codes, np.array(kinds, np.str_)


def _value(choice: StageChoice | None, kind: str) -> object:
    return None if choice is None else getattr(choice, kind)
