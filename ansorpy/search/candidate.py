"""Candidates: a row of one of several plans, with the score of the cost model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ansorpy.population import keys

KeyArray = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True, order=True)
class Candidate:
    """Row `row` of plan number `plan`; hashable."""

    plan: int
    row: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Scored:
    """A candidate and its score by the cost model; higher is better."""

    candidate: Candidate
    score: float


def best_of_plans(candidates: Sequence[Candidate], most: int) -> list[Candidate]:
    """Return the first candidate of each plan, at most `most`."""
    best: dict[int, Candidate] = {}
    for candidate in candidates:
        best.setdefault(candidate.plan, candidate)
    return list(best.values())[:most]


def keys_by_plan(candidates: Iterable[Candidate], plans: int) -> list[KeyArray]:
    """Return the row keys of the candidates of every plan, to compare whole matrices."""
    rows: list[list[tuple[int, ...]]] = [[] for _ in range(plans)]
    for candidate in candidates:
        rows[candidate.plan].append(candidate.row)
    return [keys(np.array(found, np.int64)) if found else np.zeros(0, np.uint64) for found in rows]
