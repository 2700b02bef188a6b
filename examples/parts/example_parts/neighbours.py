"""A cost model of nearest neighbours: candidates like fast ones are expected to be fast."""

from collections.abc import Sequence

import numpy as np

from ansorpy.cost.model import Batch, Sample, Scores
from ansorpy.target import Target

NEAREST = 4  # measured candidates that vote


class Neighbours:
    """The mean speed of the nearest measured candidates of the task, by logarithmic features."""

    def __init__(self, target: Target, seed: int) -> None:
        self._points: dict[str, list[np.ndarray]] = {}  # by task, each of shape (F,)
        self._costs_s: dict[str, list[float]] = {}

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return the scores of each batch; higher is better."""
        if task not in self._points:
            return [np.zeros(len(batch)) for batch in batches]
        points = np.stack(self._points[task])
        speeds = min(self._costs_s[task]) / np.array(self._costs_s[task])  # 0 for a failure
        return [self._scores(told(batch), points, speeds) for batch in batches]

    @staticmethod
    def _scores(new: np.ndarray, points: np.ndarray, speeds: np.ndarray) -> Scores:
        distances = np.abs(new[:, None, :] - points[None, :, :]).mean(axis=2)
        nearest = np.argsort(distances, axis=1, kind="stable")[:, :NEAREST]
        return np.asarray(speeds[nearest].mean(axis=1), np.float64)

    def update(self, samples: Sequence[Sample]) -> None:
        """Remember measured candidates."""
        for sample in samples:
            costs_s = np.minimum(sample.costs_s, 1e9)  # a failure is slow
            self._points.setdefault(sample.task, []).extend(told(sample.batch))
            self._costs_s.setdefault(sample.task, []).extend(costs_s.tolist())


def told(batch: Batch) -> np.ndarray:
    """Return one point per candidate, shape (n, F): its features, summed over the stores."""
    sums = batch.sum(axis=1, dtype=np.float64)
    return np.asarray(np.sign(sums) * np.log1p(np.abs(sums)))
