"""The meaning of any Dag in NumPy: float64 for floats, exact wrapping integers, and error bounds.

`evaluate` answers the outputs. `evaluate_bounded` answers every node with a bound on the error
of a kernel that computes in the dtypes of the nodes. What the operators mean on arrays, and what
float16 and bfloat16 are, stands in `numeric`; what the bounds assume, in `bounded`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Final

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.te import bounded, numeric
from ansorpy.te.bounded import ZERO, Bounded
from ansorpy.te.dag import Compute, ConstantTensor, Dag
from ansorpy.te.expr import (
    FLOATS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    dtype_of,
    variables,
)  # fmt: skip
from ansorpy.te.numeric import Array, FloatArray
from ansorpy.te.reduction import (
    Partial,
    components,
    contracted,
    finished,
    first_extreme,
    merged,
    reduced,
)  # fmt: skip

# Elements of one intermediate array. A few live at once, so memory stays near 64 MiB; the body
# of a general reduction works in smaller boxes, which stay in the cache.
FACTOR_ELEMENTS: Final = 1 << 21
POINT_ELEMENTS: Final = 1 << 18

Ranges = Mapping[str, tuple[int, int]]  # axis name -> [from, to)
Values = Mapping[str, tuple[Bounded, ...]]


def evaluate(dag: Dag, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the outputs in the order of `dag.outputs` (argmax and argmin: value, then index).

    Args:
        inputs: one array per placeholder, by name, rounded here to the dtype of the placeholder.

    Returns:
        float64 arrays for float nodes; integers and bool in their own dtype.

    Raises:
        SpecError: the inputs do not fit, or an element outside a tensor is read.
    """
    values = _run(dag, inputs, tracked=False)
    return tuple(one.value for name in dag.outputs for one in values[name])


def evaluate_bounded(dag: Dag, inputs: Mapping[str, Array]) -> dict[str, tuple[Bounded, ...]]:
    """Return values and error bounds of every node, by name, one per output of the node.

    A kernel is right where |kernel - value| <= 2 * error (once for the kernel, once for the
    rounding of this evaluation). An infinite error says that nothing can be said: overflow of
    the dtype is possible, or a divisor may be zero.

    Raises:
        SpecError: as `evaluate`.
    """
    return _run(dag, inputs, tracked=True)


def _run(dag: Dag, inputs: Mapping[str, Array], tracked: bool) -> dict[str, tuple[Bounded, ...]]:
    values: dict[str, tuple[Bounded, ...]]
    values = {name: (Bounded(array),) for name, array in _inputs(dag, inputs).items()}
    with np.errstate(all="ignore"):
        for node in dag.nodes:
            if isinstance(node, ConstantTensor):
                values[node.name] = (Bounded(numeric.loaded(node)),)
            elif isinstance(node, Compute):
                values[node.name] = _compute(node, values, tracked)
    return values


def _inputs(dag: Dag, inputs: Mapping[str, Array]) -> dict[str, Array]:
    names = [node.name for node in dag.placeholders]
    if set(inputs) != set(names):
        raise SpecError(f"inputs {sorted(inputs)} do not match those of {dag.name}: {names}")
    found: dict[str, Array] = {}
    for node in dag.placeholders:
        array = numeric.given(inputs[node.name], node.dtype, f"input {node.name}")
        if array.shape != node.shape:
            raise SpecError(f"input {node.name} has shape {array.shape}, not {node.shape}")
        found[node.name] = array
    return found


def _compute(node: Compute, values: Values, tracked: bool) -> tuple[Bounded, ...]:
    """Evaluate one node, box by box of its spatial points."""
    rank = len(node.axes)
    ranges = {axis.name: (0, axis.extent) for axis in (*node.axes, *node.reduce_axes)}
    outs = [np.empty(node.shape, numeric.meaning(dtype)) for dtype in node.dtypes]
    errors = [np.zeros(node.shape) if tracked else ZERO for _ in node.dtypes]
    factors = _factors(node, tuple(ranges))
    limit = FACTOR_ELEMENTS if len(factors) > 1 else POINT_ELEMENTS
    parts = [variables(factor) for factor in factors]
    parts.append(frozenset(axis.name for axis in node.axes))
    for box in _boxes(ranges, parts, limit, tuple(ranges)[:rank]):
        grid = _Grid(node, box, values, tracked)
        at = tuple(slice(*box[axis.name]) for axis in node.axes)
        for out, error, result in zip(outs, errors, _box(grid, factors, limit), strict=True):
            out[at] = result.value
            if tracked:
                error[at] = result.error
    return tuple(
        Bounded(out, bounded.settle(out, error, dtype) if tracked else ZERO)
        for out, error, dtype in zip(outs, errors, node.dtypes, strict=True)
    )


def _factors(node: Compute, order: Sequence[str]) -> list[Expr]:
    """Return the factors of a sum of products, one where the product has no structure to use.

    Each factor is evaluated over its own variables only; two are then contracted.
    """
    if node.combiner != "sum":
        return [*node.body]
    stack, factors = [node.body[0]], list[Expr]()
    while stack:
        top = stack.pop()
        if isinstance(top, Binary) and top.op == "mul":
            stack += [top.b, top.a]
        else:
            factors.append(top)
    every = variables(node.body[0])
    if any(variables(factor) == every for factor in factors):
        return [*node.body]
    while len(factors) > 2:
        factors.sort(key=lambda factor: len(variables(factor)))
        factors = [Binary("mul", factors[0], factors[1]), *factors[2:]]
    return [*node.body] if any(variables(factor) == every for factor in factors) else factors


def _box(grid: "_Grid", factors: Sequence[Expr], limit: int) -> tuple[Bounded, ...]:
    """Evaluate one box of spatial points, box by box of the reduce axes."""
    node = grid.node
    if node.combiner is None:
        return (grid.value(node.body[0], None),)
    if node.combiner in ("argmax", "argmin"):
        return _arg(grid, node.combiner)
    rest = tuple(axis.name for axis in node.reduce_axes)
    parts = [variables(factor) for factor in factors]
    sums = [
        _partial(replace(grid, ranges=box), node.combiner, factors)
        for box in _boxes(grid.ranges, parts, limit, rest)
    ]
    result = sums[0]
    for more in sums[1:]:
        result = merged(node.combiner, result, more)
    if node.start is not None:
        start = grid.spatial(grid.value(node.start, None))
        begun = components(node.combiner, start) if grid.tracked else (start.value,)
        result = merged(node.combiner, result, begun)
    count = prod(axis.extent for axis in node.reduce_axes) + len(factors)
    return (finished(node.combiner, result, count, node.dtype),)


def _partial(grid: "_Grid", combiner: str, factors: Sequence[Expr]) -> Partial:
    axes = range(len(grid.node.axes), grid.rank)
    if len(factors) == 2:
        pair = [grid.full(grid.value(factor, None)) for factor in factors]
        return contracted(pair, axes, grid.extents[axes.start :], grid.tracked)
    terms = grid.full(grid.value(factors[0], None))
    parts = components(combiner, terms) if grid.tracked else (terms.value,)
    return reduced(combiner, parts, axes, grid.extents[axes.start :])


def _arg(grid: "_Grid", combiner: str) -> tuple[Bounded, ...]:
    rank = len(grid.node.axes)

    def flat(one: Bounded) -> Bounded:
        def spread(array: Array) -> Array:
            shape = grid.extents
            return np.broadcast_to(array, shape).reshape(*shape[:rank], -1)

        return Bounded(spread(one.value), ZERO if one.exact else spread(one.error))

    value, index = (flat(grid.full(grid.value(body, None))) for body in grid.node.body)
    return first_extreme(combiner, value, index, grid.tracked)


def _boxes(
    ranges: Ranges, parts: Sequence[frozenset[str]], limit: int, may_split: Sequence[str]
) -> Iterator[Ranges]:
    """Yield boxes, in row-major order of halves, in which no part has more than `limit` points."""

    def extent(name: str) -> int:
        return ranges[name][1] - ranges[name][0]

    worst = max(parts, key=lambda part: prod(map(extent, part)))
    splits = [name for name in may_split if name in worst and extent(name) > 1]
    if prod(map(extent, worst)) <= limit or not splits:
        yield ranges
        return
    longest = max(splits, key=extent)
    low, high = ranges[longest]
    for half in ((low, (low + high) // 2), ((low + high) // 2, high)):
        yield from _boxes({**ranges, longest: half}, parts, limit, may_split)


@dataclass(frozen=True)
class _Grid:
    """A box of points of a node: array dimensions are its axes, spatial ones first.

    A value has the extents of the axes it depends on and 1 elsewhere, or no dimensions at all.
    """

    node: Compute
    ranges: Ranges
    values: Values
    tracked: bool

    @cached_property
    def dims(self) -> Mapping[str, int]:
        return {name: dim for dim, name in enumerate(self.ranges)}

    @property
    def rank(self) -> int:
        return len(self.ranges)

    @cached_property
    def extents(self) -> tuple[int, ...]:
        return tuple(high - low for low, high in self.ranges.values())

    def full(self, one: Bounded) -> Bounded:
        """Return a value with all dimensions (most of extent 1)."""
        shape = (1,) * self.rank
        value, error = np.asarray(one.value), np.asarray(one.error)
        return Bounded(
            value if value.ndim else value.reshape(shape),
            error if error.ndim or one.exact else error.reshape(shape),
        )

    def spatial(self, one: Bounded) -> Bounded:
        """Return a value without the reduce dimensions, on which it does not depend."""
        shape, kept = self.full(one), len(self.node.axes)
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
                if op in ("add", "sub") and self.tracked and dtype_of(expr) in FLOATS:
                    one, size, count = self._sum(expr, active)
                    slack = bounded.gamma(count - 1, dtype_of(expr)) * size
                    return Bounded(one.value, one.error + slack)
                return self._binary(expr, active)
            case Call(fn=fn, a=a):
                return self._call(fn, self.value(a, active), dtype_of(a))
            case Cast(dtype=dtype, a=a):
                return self._cast(self.value(a, active), dtype_of(a), dtype)
            case Select(cond=cond, then=then, other=other):
                where = self.value(cond, active)
                return bounded.select(
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
            return bounded.binary(expr.op, a, b, dtype_of(expr.a))
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
            return bounded.call(fn, a, dtype)
        return Bounded(numeric.FUNCTION[fn](a.value))

    def _cast(self, a: Bounded, source: str, dtype: str) -> Bounded:
        if self.tracked:
            return bounded.cast(a, source, dtype)
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
        error = ZERO if source.exact else np.asarray(source.error[cells])
        for one in indices:
            if not one.exact:  # the kernel may read another element
                error = np.where(one.error > 0, np.inf, error)
        return Bounded(np.asarray(source.value[cells]), error)

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


def _literal(value: float, dtype: str) -> Array:
    if dtype in FLOATS:
        return numeric.rounded(np.asarray(value), dtype)
    return np.asarray(value, dtype)


def _narrowed(active: Array | None, cond: Bounded, holds: bool) -> Array:
    """Return where a branch may be taken."""
    mask: Array = cond.value if holds else ~cond.value
    if not cond.exact:
        mask = mask | (cond.error > 0)
    return mask if active is None else mask & active
