"""Feature extraction: all features of all stores, for all rows at once."""

import weakref
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.features import access, allocation, compute, core, intensity, occupancy, outer
from ansorpy.features.column_program import ColumnValue
from ansorpy.features.walk import walk
from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.target import GpuTarget, Target
from ansorpy.uncollected import uncollected

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]

NAMES: Final = (
    *compute.NAMES, *access.NAMES, *intensity.NAMES, *allocation.NAMES, *outer.NAMES,
    *core.NAMES,
)  # fmt: skip
RAW: Final = frozenset(
    i for i, name in enumerate(NAMES) if "type." in name or name == "is_gpu"
)  # not log-transformed
_CURVE: Final = NAMES.index(intensity.NAMES[0])
_IS_GPU: Final = NAMES.index("is_gpu")
_CHUNK: Final = 2048  # rows per pass, so that operands and results of an operation stay in cache


def extract(plan: Plan, rows: IntArray, target: Target) -> FloatArray:
    """Describe every store of `plan` for the cost model, for all rows at once.

    Args:
        rows: int64, shape (n, sizes); column order = plan.sizes; must be legal.

    Returns:
        float32, shape (n, stores, F); store order = program order, columns as NAMES; all but
        one-hots and `is_gpu` are log2(1 + x).

    Raises:
        LoweringError: the program is not symbolic, or mentions a size that is no column.
    Source: Ansor, OSDI 2020, appendix; differences: ADR-0008.
    """
    prepared = prepare(plan).of(target)
    answer = np.empty((len(rows), prepared.stores, len(NAMES)), np.float32)
    flat = answer.reshape(len(rows), prepared.stores * len(NAMES))
    for start in range(0, len(rows), _CHUNK):
        prepared.fill(rows[start : start + _CHUNK], flat[start : start + _CHUNK])
    answer[:, :, _IS_GPU] = isinstance(target, GpuTarget)
    return answer


class Prepared:
    """The features of a plan on a target as an expression program, before a row is known."""

    def __init__(self, plan: Plan, target: Target) -> None:
        stores = walk(plan.program, plan.sizes)
        touched = access.touched(stores)
        held = occupancy.caches(touched, target)
        self.stores = len(stores.statements)
        fixed = np.zeros(self.stores * len(NAMES), np.float32)
        outputs: list[ColumnValue] = []
        logged: list[int] = []
        raw: list[int] = []
        raw_outputs: list[ColumnValue] = []
        self._curves: list[tuple[int, npt.NDArray[np.intp], npt.NDArray[np.intp]]] = []
        curves = []
        for position, statement in enumerate(stores.statements):
            start = position * len(NAMES)
            values = [
                *compute.features(stores.builder, statement), *access.features(touched, position),
                *[stores.builder.const(0)] * intensity.SAMPLES,
                *allocation.features(stores.builder, statement),
                *outer.features(stores.builder, statement),
                *core.features(held, position, target),
            ]  # fmt: skip
            for i, value in enumerate(values):
                if value.is_constant:
                    number = value.constant
                    fixed[start + i] = number if i in RAW else np.log2(number + 1)
                elif i in RAW:
                    raw.append(start + i)
                    raw_outputs.append(value)
                else:
                    logged.append(start + i)
                    outputs.append(value)
            line = intensity.curve(stores.builder, statement, touched.footprints[position])
            if line is not None:
                curves.append((start + _CURVE, line))
        # Equal features, for example of two stores in one nest, are computed once.
        self._fixed = fixed[:, None]
        points: list[ColumnValue] = []
        for start, line in curves:
            first = len(outputs) + len(raw_outputs) + len(points)
            middle = first + len(line.work)
            points += [*line.work, *line.intensity]
            stop = middle + len(line.intensity)
            self._curves.append((start, np.arange(first, middle), np.arange(middle, stop)))
        self._logged = np.array(logged, np.intp)
        self._raw = np.array(raw, np.intp)
        values = [*outputs, *raw_outputs, *points]
        self._outputs = len(values)  # the values hold the whole record
        self._program = stores.builder.program(values)
        stores.builder.clear()

    @property
    def steps(self) -> int:
        """The number of column operations of one pass."""
        return self._program.steps

    def fill(self, rows: IntArray, out: FloatArray) -> None:
        """Write the features of `rows` into `out`, shape (n, stores * F)."""
        n = len(rows)
        computed = np.empty((self._outputs, n), np.float32)
        self._program.run(np.ascontiguousarray(rows.T, dtype=np.float64), computed)
        block = np.empty((len(self._fixed), n), np.float32)
        block[:] = self._fixed
        block[self._logged] = _log(computed[: len(self._logged)])
        block[self._raw] = computed[len(self._logged) : len(self._logged) + len(self._raw)]
        for start, work, height in self._curves:
            sampled = intensity.samples(computed[work], computed[height])
            block[start : start + intensity.SAMPLES] = _log(sampled)
        out[:] = block.T


def _log(values: FloatArray) -> FloatArray:
    logged: FloatArray = np.log2(values + np.float32(1))
    return logged


class PreparedByTarget:
    """The prepared features of a plan by target; nearly always there is one target."""

    def __init__(self, plan: Plan) -> None:
        self._plan = weakref.ref(plan)
        self._known: dict[Target, Prepared] = {}

    def of(self, target: Target) -> Prepared:
        """Return the prepared features for a target."""
        plan = self._plan()
        assert plan is not None
        if target not in self._known:
            with uncollected():
                self._known[target] = Prepared(plan, target)
        return self._known[target]


prepare = per_plan(PreparedByTarget)


def named(features: FloatArray) -> Sequence[dict[str, float]]:
    """Return the features of one row, shape (stores, F), as one dictionary per store."""
    return [dict(zip(NAMES, map(float, store), strict=True)) for store in features]
