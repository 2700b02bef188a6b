"""The model that knows nothing: the control group, and plain random search."""

from collections.abc import Sequence

import numpy as np

from ansorpy.cost.model import Batch, Sample, Scores


class RandomModel:
    """Scores are uniform in [0, 1); measurements are ignored."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return fresh draws: the same candidate gets another score at the next call."""
        return [self._rng.random(len(batch)) for batch in batches]

    def update(self, samples: Sequence[Sample]) -> None:
        """Do nothing."""
