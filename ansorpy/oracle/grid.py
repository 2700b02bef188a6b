"""Expressions evaluated over a box of points of a node, with errors tracked on request."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import FLOATS, computed
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.expr.functions import FUNCTIONS
from ansorpy.oracle import error_bounds, numeric
from ansorpy.oracle.error_bounds import ZERO, Bounded
from ansorpy.te.dag import Compute
from ansorpy.te.tensor_data import Array, FloatArray, rounded

Ranges = Mapping[str, tuple[int, int]]  # axis name -> [from, to)
Values = Mapping[str, tuple[Bounded, ...]]


@dataclass(frozen=True)
class Grid:
    """A box of points of a node: array dimensions are its axes, spatial ones first.

    A value has the extents of the axes it depends on and 1 elsewhere, or no dimensions at all.
    """

    node: Compute
    ranges: Ranges
    values: Values
    tracked: bool

    @cached_property
    def dims(self) -> Mapping[str, int]:
        """The array dimension of every axis."""
        return {name: dim for dim, name in enumerate(self.ranges)}

    @property
    def rank(self) -> int:
        """The number of axes, spatial and reduced."""
        return len(self.ranges)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """The extents of the box."""
        return tuple(high - low for low, high in self.ranges.values())

    def full(self, bounded: Bounded) -> Bounded:
        """Return a value with all dimensions (most of extent 1)."""
        shape = (1,) * self.rank
        value, error = np.asarray(bounded.value), np.asarray(bounded.error)
        return Bounded(
            value if value.ndim else value.reshape(shape),
            error if error.ndim or bounded.exact else error.reshape(shape),
        )

    def spatial(self, bounded: Bounded) -> Bounded:
        """Return a value without the reduce dimensions, on which it does not depend."""
        shape, kept = self.full(bounded), len(self.node.axes)
        error = shape.error if shape.exact else shape.error.reshape(shape.error.shape[:kept])
        return Bounded(shape.value.reshape(shape.value.shape[:kept]), error)

    def value(self, expr: Expr, active: Array | None) -> Bounded:
        """Evaluate; where `active` (None: everywhere) does not hold, the result is not used."""
        match expr:
            case Const(value=value, dtype=dtype):
                return Bounded(_literal(value, dtype))
            case Var(name=name):
                return Bounded(self._axis(name))
            case Read():
                return self._read(expr, active)
            case Binary(op=op):
                if op in ("add", "sub") and self.tracked and expr.dtype in FLOATS:
                    one, size, count = self._sum(expr, active)
                    slack = error_bounds.gamma(count - 1, computed(expr.dtype)) * size
                    return Bounded(one.value, one.error + slack)
                return self._binary(expr, active)
            case Call(fn=fn, a=a):
                return self._call(fn, self.value(a, active), a.dtype)
            case Cast(dtype=dtype, a=a):
                return self._cast(self.value(a, active), a.dtype, dtype)
            case Select(cond=cond, then=then, other=other):
                where = self.value(cond, active)
                return error_bounds.select(
                    where,
                    self.value(then, _narrowed(active, where, True)),
                    self.value(other, _narrowed(active, where, False)),
                )

    def _axis(self, name: str) -> Array:
        shape = [1] * self.rank
        shape[self.dims[name]] = -1
        return np.arange(*self.ranges[name]).reshape(shape)

    def _binary(self, expr: Binary, active: Array | None) -> Bounded:
        a = self.value(expr.a, active)
        if expr.op in ("and", "or"):
            active = _narrowed(active, a, expr.op == "and")
        b = self.value(expr.b, active)
        if self.tracked:
            return error_bounds.binary(expr.op, a, b, expr.a.dtype)
        return Bounded(numeric.BINARY[expr.op](a.value, b.value))

    def _sum(self, expr: Expr, active: Array | None) -> tuple[Bounded, FloatArray, int]:
        """Evaluate a chain of + and - as one sum, since kernels may add in another order.

        Returns value and error before rounding, the sum of the magnitudes, how many terms.
        """
        match expr:
            case Binary(op="add" | "sub", a=a, b=b):
                (x, x_size, x_count), (y, y_size, y_count) = (self._sum(e, active) for e in (a, b))
                value = numeric.BINARY[expr.op](x.value, y.value)
                return Bounded(value, x.error + y.error), x_size + y_size, x_count + y_count
            case Call(fn="neg", a=a):
                one, size, count = self._sum(a, active)
                return Bounded(-one.value, one.error), size, count
            case _:
                one = self.value(expr, active)
                return one, one.magnitude, 1

    def _call(self, fn: str, a: Bounded, dtype: str) -> Bounded:
        if self.tracked:
            return error_bounds.call(fn, a, dtype)
        return Bounded(FUNCTIONS[fn].meaning(a.value))

    def _cast(self, a: Bounded, source: str, dtype: str) -> Bounded:
        if self.tracked:
            return error_bounds.cast(a, source, dtype)
        return Bounded(numeric.cast(a.value, dtype))

    def _read(self, read: Read, active: Array | None) -> Bounded:
        source = self.values[read.tensor][read.output]
        view = self._view(read, source.value.shape)
        if view is not None:
            at, order, shape = view

            def cut(array: Array) -> Array:
                return array[at].transpose(order).reshape(shape)

            return Bounded(cut(source.value), ZERO if source.exact else cut(source.error))
        indices = [self.value(index, active) for index in read.indices]
        cells = tuple(
            self._checked(read, dim, np.asarray(one.value), extent, active)
            for dim, (one, extent) in enumerate(zip(indices, source.value.shape, strict=True))
        )
        place = _flat(cells, source.value.shape)
        error = ZERO if source.exact else np.asarray(source.error.take(place))
        for one in indices:
            if not one.exact:  # the kernel may read another element
                error = np.where(one.error > 0, np.inf, error)
        return Bounded(np.asarray(source.value.take(place)), error)

    def _view(
        self, read: Read, extents: Sequence[int]
    ) -> tuple[tuple[slice | int, ...], list[int], list[int]] | None:
        """Return slices, order and shape of a read by distinct axes and constants, else None."""
        at: list[slice | int] = []
        dims: list[int] = []
        for index, extent in zip(read.indices, extents, strict=True):
            match index:
                case Const(value=value) if 0 <= value < extent:
                    at.append(int(value))
                case Var(name=name) if self.ranges[name][1] <= extent:
                    at.append(slice(*self.ranges[name]))
                    dims.append(self.dims[name])
                case _:
                    return None
        if len(set(dims)) < len(dims):
            return None
        shape = [self.extents[dim] if dim in dims else 1 for dim in range(self.rank)]
        return tuple(at), sorted(range(len(dims)), key=dims.__getitem__), shape

    def _checked(
        self, read: Read, dim: int, index: Array, extent: int, active: Array | None
    ) -> Array:
        """Return the index, clipped where it does not matter; SpecError where it does."""
        if index.min() >= 0 and index.max() < extent:
            return index
        bad = (index < 0) | (index >= extent)
        used = bad if active is None else bad & active
        if used.any():
            wrong = np.broadcast_to(index, used.shape)[used][0]
            raise SpecError(
                f"node {self.node.name}: {read} reads index {wrong} of dimension {dim}, "
                f"which has {extent} elements"
            )
        return np.clip(index, 0, extent - 1)


def _flat(cells: Sequence[Array], shape: Sequence[int]) -> Array:
    """Return the row-major places of cells: NumPy looks one index up much faster than several.

    `np.ravel_multi_index` takes three times as long.
    """
    place, stride = np.zeros((), np.int64), 1
    for cell, extent in zip(reversed(cells), reversed(shape), strict=True):
        place, stride = place + cell.astype(np.int64) * stride, stride * extent
    return place


def _literal(value: float, dtype: str) -> Array:
    if dtype in FLOATS:
        return rounded(np.asarray(value), computed(dtype))
    return np.asarray(value, dtype)


def _narrowed(active: Array | None, cond: Bounded, holds: bool) -> Array:
    """Return where a branch may be taken."""
    mask: Array = cond.value if holds else ~cond.value
    if not cond.exact:
        mask = mask | (cond.error > 0)
    return mask if active is None else mask & active
