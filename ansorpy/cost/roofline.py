"""The analytic model: the slowest of arithmetic, latency, L1, L2 and memory, store by store.

Not handled: CUDA, where occupancy decides; vector and parallel loops of extent 1 count as none.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.cost.model import Batch, Sample, Scores
from ansorpy.features import NAMES
from ansorpy.target import Target

FloatArray = npt.NDArray[np.float64]

# Cycles of one vector operation; only the proportions matter for a ranking.
_CYCLES: Final[Mapping[str, float]] = {
    "mad": 0.5, "addsub": 0.5, "mul": 0.5, "cmp": 0.5, "divmod": 8.0, "math_func": 12.0,
    "other_func": 1.0,
}  # fmt: skip
_COLUMN: Final[Mapping[str, int]] = {name: i for i, name in enumerate(NAMES)}
_COSTS: Final = (
    *(
        (_COLUMN[f"{kind}_{name}"], cycles)
        for kind in ("float", "int") for name, cycles in _CYCLES.items()
    ),
    (_COLUMN["bool_op"], 0.5), (_COLUMN["select_op"], 0.5),
)  # fmt: skip
_BUFFERS: Final = tuple(name[:2] for name in NAMES if name.endswith(".unique_bytes"))
_LARGEST_LOG2: Final = 60.0  # more is no count of anything: it would overflow the sums


@dataclass(frozen=True, slots=True)
class Rates:
    """Of one core, per cycle, but for `memory_bytes`, which all cores share.

    Nominal figures of a server core: a ranking needs their proportions, the learned model the
    rest.
    """

    l1_bytes: float = 128.0  # two vector loads
    l2_bytes: float = 32.0
    memory_bytes: float = 4.0
    store_cycles: float = 0.25  # issue slots of one iteration, vector or scalar
    task_cycles: float = 500.0  # to hand out one parallel task
    gather: float = 8.0  # times the cost of a vector load that lies together
    latency_cycles: float = 4.0  # of a multiply-add, before the next one on the same accumulator


class RooflineModel:
    """score = 1 / estimated cycles. Ignores measurements."""

    def __init__(self, target: Target, rates: Rates | None = None) -> None:
        self._target = target
        self._rates = rates or Rates()

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return one array of scores per batch; features as `ansorpy.features.extract` gives."""
        return [1.0 / self.cycles(batch).sum(axis=1) for batch in batches]

    def update(self, samples: Sequence[Sample]) -> None:
        """Do nothing."""

    def cycles(self, batch: Batch) -> FloatArray:
        """Return an estimate of the cycles of every store, shape (n, stores), at least 1."""
        cores, lanes = self._target.cores, self._target.lanes("float32")
        tasks = np.maximum(_count(batch, "parallel_prod"), 1.0)
        busy = tasks / np.ceil(tasks / cores)  # cores that work, on average
        length = np.maximum(_count(batch, "vec_len"), 1.0)
        # Elements per vector operation: tails leave lanes empty, scalar code all but one.
        filled = length / np.ceil(length / lanes)
        issued = _count(batch, "outer_prod") * self._rates.store_cycles
        for column, cycles in _COSTS:
            issued += _counts(batch, column) * cycles
        near, far, memory = self._traffic(batch, filled)
        # The vectors of the register tile are independent chains of accumulation.
        chains = np.ceil(length / lanes) * np.maximum(_count(batch, "unroll_prod"), 1.0)
        waited = _count(batch, "float_mad") * self._rates.latency_cycles / chains
        per_core = np.maximum.reduce(
            [
                issued / filled,
                waited / filled,
                near / self._rates.l1_bytes,
                far / self._rates.l2_bytes,
            ]
        )
        starting = np.where(tasks > 1, tasks * self._rates.task_cycles / cores, 0.0)
        slowest = np.maximum(per_core / busy, memory / self._rates.memory_bytes) + starting
        answer: FloatArray = np.maximum(slowest, 1.0)
        return answer

    def _traffic(
        self, batch: Batch, filled: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the bytes that pass the register, L1 and L2 borders, all of shape (n, stores)."""
        shape = batch.shape[:2]
        near, far, memory = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        # What is reused within so many iterations, written out, stays in registers.
        written = np.maximum(_count(batch, "unroll_prod"), _count(batch, "auto_unroll_max_step"))
        tile = np.clip(written, 1.0, self._target.registers) * filled
        for buffer in _BUFFERS:
            uses = np.maximum(_count(batch, f"{buffer}.reuse_ct"), 1.0)
            apart = _count(batch, f"{buffer}.reuse_dis_bytes")
            held = _count(batch, f"{buffer}.reuse_dis_iter") <= tile
            # Lanes that lie apart are gathered one by one, each through a slot of its own.
            apart_lanes = (filled > 1.0) & (_count(batch, f"{buffer}.stride") > 1.0)
            slots = np.where(apart_lanes, self._rates.gather, 1.0)
            near += slots * _count(batch, f"{buffer}.bytes") / np.where(held, uses, 1.0)
            lines = 64.0 * _count(batch, f"{buffer}.lines")
            least = 64.0 * _count(batch, f"{buffer}.unique_lines")
            far += np.maximum(least, lines / np.where(apart <= self._target.l1_bytes, uses, 1.0))
            fits = np.maximum(apart, 0.0) <= self._target.l2_bytes
            small = _count(batch, f"{buffer}.unique_bytes") <= self._target.l2_bytes
            memory += np.where(fits | small, least, np.maximum(least, lines / uses))
        return near, far, memory


def _count(batch: Batch, name: str) -> FloatArray:
    return _counts(batch, _COLUMN[name])


def _counts(batch: Batch, column: int) -> FloatArray:
    """Return what a log2(1 + x) feature stands for, at least 0.

    Rounded: as float32 a 16 comes back as 16.000002, and would need two vectors.
    """
    logs = np.clip(batch[:, :, column].astype(np.float64), 0.0, _LARGEST_LOG2)
    answer: FloatArray = np.rint(np.exp2(logs) - 1.0)
    return answer
