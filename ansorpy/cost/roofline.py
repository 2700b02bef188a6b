"""The analytic cost model: the limit of every store, from vector steps to memory traffic.

Not handled: CUDA, where occupancy decides.
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

_COLUMN: Final[Mapping[str, int]] = {name: i for i, name in enumerate(NAMES)}
_LONG_TILE: Final = 1024  # vectors of a tile whose code exceeds the L1 cache: about 16 KB
_LARGEST_LOG2: Final = 60.0  # largest log2 of a count; larger ones would overflow the sums
_COMBINES: Final = _COLUMN["B0.access_type.read_write"]
_OPERATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "multiply_add": ("float_mad", "int_mad"),
    "simple": ("float_addsub", "float_mul", "float_cmp", "float_other_func"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CycleRates:
    """Cycles of one core for one vector (or one byte, tile, task); only proportions matter.

    The defaults are for vectors of 512 bits: close to a fit of measured candidates of 35 subgraphs
    on a Zen 4 core (docs/adr/0008), and to the numbers in the processor's manual.
    """

    multiply_add: float = 1.0
    simple: float = 1.0
    divide: float = 5.0
    function: float = 16.0
    integer: float = 0.55
    index_divide: float = 2.0
    load: float = 1.0
    split: float = 1.8  # added to `load` if the vector may straddle two lines
    broadcast: float = 0.35
    gather: float = 30.0
    move: float = 4.4  # a result, to or from memory
    transpose: float = 8.0  # a result whose lanes are not adjacent in memory
    tile: float = 0.8  # loop control around a register tile
    latency: float = 4.0  # a multiply-add, until the next one on the same accumulator can start
    horizontal: float = 7.5  # combining the lanes of a vector
    l2_byte: float = 1 / 72
    l3_byte: float = 1 / 37
    memory_byte: float = 1 / 13  # beyond L3
    wait: float = 870.0  # latency of the first bytes of a sequence of accesses beyond L2
    stretch: float = 50.0  # latency of the first lines of a contiguous stretch beyond L2
    spill: float = 2.0  # per tile and vector that does not fit the registers
    fetch: float = 2.0  # per vector of a tile whose code exceeds the L1 cache
    task: float = 500.0  # start of one parallel iteration
    memory_cores: float = 2.0  # cores that saturate the bandwidth beyond L2


LONG_VECTORS: Final = CycleRates()
# Half cycles: a core starts two multiply-adds and two loads per cycle (docs/adr/0008).
SHORT_VECTORS: Final = CycleRates(
    function=17.3, integer=0.64, index_divide=1.8, load=1.8, split=1.5, broadcast=1.2, gather=15.0,
    move=2.4, transpose=8.6, tile=0.86, latency=7.9, horizontal=9.3, l2_byte=1 / 31, l3_byte=1 / 13,
    memory_byte=1 / 5, wait=590.0, stretch=29.0, spill=1.8,
)  # fmt: skip
SHORT_LANES: Final = 8  # lanes of float32; a core computes two vectors of as many at once


def rates_of(target: Target) -> CycleRates:
    """Return the rates for the vectors of a processor."""
    return SHORT_VECTORS if target.lanes("float32") <= SHORT_LANES else LONG_VECTORS


class RooflineModel:
    """score = 1 / estimated cycles. Ignores measurements."""

    def __init__(self, target: Target, rates: CycleRates | None = None) -> None:
        self._target = target
        self._rates = rates or rates_of(target)

    def predict(self, batches: Sequence[Batch], task: str = "") -> list[Scores]:
        """Return one array of scores per batch of features, as `features.extract` returns them."""
        sizes = [batch.shape[0] * batch.shape[1] for batch in batches]
        if not sum(sizes):
            return [np.zeros(len(batch)) for batch in batches]
        # One pass over all rows, because many plans give many small batches.
        rows = np.concatenate([batch.reshape(-1, 1, batch.shape[2]) for batch in batches])
        parts = np.split(self.cycles(rows)[:, 0], np.cumsum(sizes)[:-1])
        return [
            1.0 / part.reshape(batch.shape[:2]).sum(axis=1)
            for part, batch in zip(parts, batches, strict=True)
        ]

    def update(self, samples: Sequence[Sample]) -> None:
        """Do nothing."""

    def cycles(self, batch: Batch) -> FloatArray:
        """Return an estimate of the cycles of every store, shape (n, stores), at least 1.

        Overlapping limits are combined by the 3-norm: close to the largest limit if it stands out,
        and above it if several are close. Stores that run ahead of the call count nothing.
        """
        rates = self._rates
        arithmetic, ports = self._arithmetic(batch), self._ports(batch)
        steps, chains = _count(batch, "core.steps"), _count(batch, "core.chains")
        waiting = np.where(
            batch[:, :, _COMBINES] > 0, steps * rates.latency / np.maximum(chains, 1.0), 0.0
        )
        issue = _overlapped(arithmetic, ports, waiting) + self._overhead(batch, chains)
        near = _count(batch, "core.past_l1_bytes") * rates.l2_byte
        beyond = _count(batch, "core.past_l3_bytes")
        far = (
            np.maximum(_count(batch, "core.past_l2_bytes") - beyond, 0.0) * rates.l3_byte
            + beyond * rates.memory_byte
            + _count(batch, "core.past_l2_waits") * rates.wait
            + _count(batch, "core.past_l2_stretches") * rates.stretch
        )
        tasks = np.maximum(_count(batch, "parallel_prod"), 1.0)
        cores = self._target.cores
        busy = tasks / np.ceil(tasks / cores)  # busy cores on average
        starting = np.where((tasks > 1) & (cores > 1), tasks * rates.task / cores, 0.0)
        shared = np.minimum(busy, max(1.0, min(rates.memory_cores, cores)))
        answer = _overlapped(issue / busy, near / busy, far / shared) + starting
        timed = _count(batch, "core.timed") > 0
        return np.where(timed, answer, 0.0) + 1.0

    def _arithmetic(self, batch: Batch) -> FloatArray:
        """Return the cycles of the operations: one vector of each operation per vector step."""
        iterations = np.maximum(_count(batch, "outer_prod"), 1.0)
        steps = _count(batch, "core.steps")
        total = np.zeros(batch.shape[:2])
        for kind, names in _OPERATIONS.items():
            for name in names:
                total += _count(batch, name) * getattr(self._rates, kind)
        heavy = (
            _count(batch, "core.functions") * self._rates.function
            + _count(batch, "core.divides") * self._rates.divide
            + _count(batch, "core.integers") * self._rates.integer
            + _count(batch, "core.index_divides") * self._rates.index_divide
        )
        answer: FloatArray = total / iterations * steps + heavy
        return answer

    def _ports(self, batch: Batch) -> FloatArray:
        """Return the cycles of loads and stores between registers and L1."""
        kinds = {
            "loads": "load", "split_loads": "split", "broadcasts": "broadcast",
            "gathers": "gather", "moves": "move", "transposes": "transpose",
        }  # fmt: skip
        total = np.zeros(batch.shape[:2])
        for column, rate in kinds.items():
            total += _count(batch, f"core.{column}") * getattr(self._rates, rate)
        return total

    def _overhead(self, batch: Batch, chains: FloatArray) -> FloatArray:
        """Return the cycles that do not overlap: loop control, combining of lanes, spills."""
        tiles = _count(batch, "core.tiles")
        surplus = _count(batch, "core.registers") - self._target.tile_registers
        # Tiles of more chains are stored vector by vector: no register is live for long.
        spilt = np.where(chains <= 2 * self._target.tile_registers, np.maximum(surplus, 0.0), 0.0)
        steps = _count(batch, "core.steps")
        fetched = np.where((tiles > 0) & (steps > _LONG_TILE * tiles), steps, 0.0)
        answer: FloatArray = (
            fetched * self._rates.fetch
            + tiles * (self._rates.tile + spilt * self._rates.spill)
            + _count(batch, "core.horizontal") * self._rates.horizontal
        )
        return answer


def _overlapped(*parts: FloatArray) -> FloatArray:
    largest = np.maximum.reduce(parts)
    scale = np.where(largest > 0, largest, 1.0)  # cubes of large counts lose no precision
    answer: FloatArray = scale * np.cbrt(sum((part / scale) ** 3 for part in parts))
    return answer


def _count(batch: Batch, name: str) -> FloatArray:
    """Return x of a feature log2(1 + x), at least 0."""
    logs = np.clip(batch[:, :, _COLUMN[name]].astype(np.float64), 0.0, _LARGEST_LOG2)
    answer: FloatArray = np.exp2(logs) - 1.0
    return answer
