"""A cost model of random scores: the control group of benchmarks, and random search."""

from collections.abc import Sequence

import numpy as np

from ansorpy.cost.model import Batch, Sample, Scores


class RandomModel:
    """Uniform scores in [0, 1), regardless of measurements."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return random scores: the same candidate gets another score at the next call."""
        return [self._rng.random(len(batch)) for batch in batches]

    def update(self, samples: Sequence[Sample]) -> None:
        """Do nothing."""
