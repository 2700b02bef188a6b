"""The interface of cost models: feature rows to scores, corrected by measured times."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Batch = npt.NDArray[np.float32]  # (n, stores, F): n candidates of one plan
Scores = npt.NDArray[np.float64]  # (n,): higher is better; comparable within one task
Costs = npt.NDArray[np.float64]  # (n,): seconds, inf for a failure


@dataclass(frozen=True, slots=True, eq=False)
class Sample:
    """Measured candidates of one plan.

    `task` names the workload and target; only times of one task are comparable.
    """

    task: str
    batch: Batch
    costs_s: Costs

    def __post_init__(self) -> None:
        if self.batch.ndim != 3 or self.costs_s.shape != self.batch.shape[:1]:
            raise ValueError(
                f"task {self.task!r}: features {self.batch.shape} need shape (n, stores, F),"
                f" costs {self.costs_s.shape} shape (n,)"
            )
        if not bool((self.costs_s > 0).all()):
            raise ValueError(f"task {self.task!r}: costs must be seconds above 0, or inf")


class CostModel(Protocol):
    """Scores that rank candidates before they are measured. Every score is finite."""

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return one array of scores per batch; plans may differ in their number of stores.

        Args:
            task: the task of the candidates, as in `Sample.task`.
        """
        ...

    def update(self, samples: Sequence[Sample]) -> None:
        """Learn from further measurements, in addition to all earlier ones."""
        ...


@dataclass(frozen=True, slots=True)
class ForTask:
    """A cost model with its task fixed."""

    model: CostModel
    task: str

    def predict(self, batches: Sequence[Batch]) -> list[Scores]:
        """Return one array of scores per batch."""
        return self.model.predict(batches, self.task)
