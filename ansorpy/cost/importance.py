"""Permutation importance of columns for a number: by how much a shuffled column worsens it.

Source: Breiman, Random Forests, Machine Learning 45, 2001, section 10; trees of `cost.gbm`.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.cost.gbm import boosted

FOLDS: Final = 4  # parts of the rows, each held out once
SHUFFLES: Final = 8  # shuffles of each column in each part
TREES: Final = 60

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ColumnImportance:
    """Importances as shares of the variance of the number, on rows held out.

    Args:
        shares: shape (columns,): the rise of the squared error of a shuffled column.
        explained: the part of the variance that the trees explain; 0 or less: nothing.
    """

    shares: FloatArray
    explained: float


def permutation_importance(
    rows: npt.NDArray[np.float32], numbers: FloatArray, rng: np.random.Generator
) -> ColumnImportance:
    """Return the importance of each column.

    Args:
        rows: shape (m, columns), m at least 2 * FOLDS.
        numbers: shape (m,), not all equal.
    """
    variance, part = float(numbers.var()), rng.permutation(len(rows)) % FOLDS
    rises, errors = np.zeros(rows.shape[1]), 0.0
    for fold in range(FOLDS):
        held, kept = part == fold, part != fold
        mean = float(numbers[kept].mean())
        missed = numbers[kept] - mean

        def objective(values: Any, _: Any, missed: FloatArray = missed) -> tuple[Any, Any]:
            return values - missed, np.ones(len(missed))

        booster = boosted(rows[kept], objective, {"seed": 0, "num_threads": 1}, TREES)

        def error(tested: npt.NDArray[np.float32], booster: Any = booster) -> float:
            expected = np.asarray(booster.predict(tested, num_threads=1)) + mean  # noqa: B023
            return float(((numbers[held] - expected) ** 2).sum())  # noqa: B023

        own = error(rows[held])
        errors += own
        for column in range(rows.shape[1]):
            for _ in range(SHUFFLES):
                shuffled = rows[held].copy()
                rng.shuffle(shuffled[:, column])
                rises[column] += (error(shuffled) - own) / SHUFFLES
    whole = variance * len(rows)
    return ColumnImportance(rises / whole, 1.0 - errors / whole)
