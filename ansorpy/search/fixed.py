"""Search of the rows of one plan of which some sizes are given."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.features import extract
from ansorpy.plan.plan import Plan
from ansorpy.population import fit, legal, mutate, sample, unique
from ansorpy.search.evolve import Predictor
from ansorpy.target import Target

IntArray = npt.NDArray[np.int64]

ROUNDS: Final = 4  # after that many, scores hardly rise
KEPT: Final = 32  # rows of a round that have children; their scores take a few ms


def best_with(
    plan: Plan,
    sizes: Mapping[str, int],
    starts: Sequence[tuple[int, ...]],
    model: Predictor,
    rng: np.random.Generator,
    target: Target,
) -> tuple[tuple[int, ...], float] | None:
    """Return the row of the highest score that was found, and the score; None without a legal row.

    Args:
        sizes: given sizes by name, which the row has.
        starts: rows that the search begins with, in which these sizes are replaced.
    """
    if not sizes.keys() <= plan.column.keys():
        return None  # a loop of one step has no tile size
    columns = [plan.column[name] for name in sizes]
    values = list(sizes.values())

    def with_sizes(rows: IntArray) -> IntArray:
        rows = rows.copy()
        rows[:, columns] = values
        rows = unique(fit(plan, rows))
        found: IntArray = rows[legal(plan, rows) & (rows[:, columns] == values).all(axis=1)]
        return found

    given = np.array(starts[:KEPT], np.int64).reshape(-1, len(plan.sizes))
    rows = with_sizes(np.concatenate([given, sample(plan, KEPT, rng)]))
    for _ in range(ROUNDS):
        if not len(rows):
            return None
        (scores,) = model.predict([extract(plan, rows, target)])
        order = np.argsort(-scores, kind="stable")[:KEPT]
        best, score = rows[order[0]], float(scores[order[0]])
        rows = unique(np.concatenate([rows[order], with_sizes(mutate(plan, rows[order], rng))]))
    return tuple(map(int, best)), score
