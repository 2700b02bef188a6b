"""The meaning of any Dag in NumPy: float64 for floats, exact wrapping integers, and error bounds.

`evaluate` returns the outputs. `evaluate_bounded` returns every node with a bound on the error of
a kernel that computes in the dtypes of the nodes. Operators on arrays are in `numeric`, the
assumptions of the bounds in `error_bounds`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Final

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import NARROW, computed
from ansorpy.expr.expr import (
    Binary,
    Expr,
    variables,
)  # fmt: skip
from ansorpy.expr.wide import only_moves
from ansorpy.oracle import error_bounds, numeric
from ansorpy.oracle.error_bounds import ZERO, Bounded
from ansorpy.oracle.grid import Grid, Ranges, Values
from ansorpy.oracle.reduction import (
    Partial,
    components,
    contracted,
    finished,
    first_extreme,
    merged,
    reduced,
)  # fmt: skip
from ansorpy.te.dag import Compute, ConstantTensor, Dag
from ansorpy.te.dims import at_sizes, dims_of, sizes_of
from ansorpy.te.tensor_data import Array, checked_array, constant_array

# Elements of one intermediate array. A few live at once, so memory stays near 64 MiB; the body
# of a general reduction works in smaller boxes, which stay in the cache.
FACTOR_ELEMENTS: Final = 1 << 21
POINT_ELEMENTS: Final = 1 << 18


def evaluate(dag: Dag, inputs: Mapping[str, Array]) -> tuple[Array, ...]:
    """Return the outputs in the order of `dag.outputs` (argmax and argmin: value, then index).

    Args:
        inputs: one array per placeholder, by name, rounded here to the dtype of the placeholder.

    Returns:
        float64 arrays for float nodes; integers and bool in their own dtype.

    Raises:
        SpecError: the inputs do not fit, or an element outside a tensor is read.
    """
    if dims_of(dag):
        dag = at_sizes(dag, sizes_of(dag, {name: np.shape(x) for name, x in inputs.items()}))
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
                values[node.name] = (Bounded(constant_array(node)),)
            elif isinstance(node, Compute):
                values[node.name] = _compute(node, values, tracked)
    return values


def _inputs(dag: Dag, inputs: Mapping[str, Array]) -> dict[str, Array]:
    names = [node.name for node in dag.placeholders]
    if set(inputs) != set(names):
        raise SpecError(f"inputs {sorted(inputs)} do not match those of {dag.name}: {names}")
    arrays: dict[str, Array] = {}
    for node in dag.placeholders:
        array = checked_array(inputs[node.name], node.dtype, f"input {node.name}")
        if array.shape != node.shape:
            raise SpecError(f"input {node.name} has shape {array.shape}, not {node.shape}")
        arrays[node.name] = array
    return arrays


def _compute(node: Compute, values: Values, tracked: bool) -> tuple[Bounded, ...]:
    """Evaluate one node, box by box of its spatial points."""
    rank = len(node.axes)
    ranges = {axis.name: (0, axis.extent) for axis in (*node.axes, *node.reduce_axes)}
    outs = [np.empty(node.shape, numeric.meaning(dtype)) for dtype in node.dtypes]
    errors = [np.zeros(node.shape) if tracked else ZERO for _ in node.dtypes]
    stored = [np.zeros(node.shape) if tracked and d in NARROW else ZERO for d in node.dtypes]
    moves = node.combiner not in ("sum", "prod") and all(map(only_moves, node.body))
    factors = _factors(node, tuple(ranges))
    limit = FACTOR_ELEMENTS if len(factors) > 1 else POINT_ELEMENTS
    parts = [variables(factor) for factor in factors]
    parts.append(frozenset(axis.name for axis in node.axes))
    for box in _boxes(ranges, parts, limit, tuple(ranges)[:rank]):
        grid = Grid(node, box, values, tracked)
        at = tuple(slice(*box[axis.name]) for axis in node.axes)
        results = _box(grid, factors, limit)
        for i, (one, dtype) in enumerate(zip(results, node.dtypes, strict=True)):
            outs[i][at] = one.value
            if tracked:  # box by box, so that the operands stay in the caches
                more = error_bounds.rounding(one.value, one.error, dtype, moves)
                errors[i][at] = error_bounds.settle(one.value, one.error + more, dtype)
                if dtype in NARROW:
                    stored[i][at] = more
    return tuple(
        Bounded(out, error, last) if tracked and np.any(error) else Bounded(out)
        for out, error, last in zip(outs, errors, stored, strict=True)
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


def _box(grid: Grid, factors: Sequence[Expr], limit: int) -> tuple[Bounded, ...]:
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
    return (finished(node.combiner, result, count, computed(node.dtype)),)


def _partial(grid: Grid, combiner: str, factors: Sequence[Expr]) -> Partial:
    axes = range(len(grid.node.axes), grid.rank)
    if len(factors) == 2:
        pair = [grid.full(grid.value(factor, None)) for factor in factors]
        return contracted(pair, axes, grid.extents[axes.start :], grid.tracked)
    terms = grid.full(grid.value(factors[0], None))
    parts = components(combiner, terms) if grid.tracked else (terms.value,)
    return reduced(combiner, parts, axes, grid.extents[axes.start :])


def _arg(grid: Grid, combiner: str) -> tuple[Bounded, ...]:
    rank = len(grid.node.axes)

    def flat(bounded: Bounded) -> Bounded:
        def spread(array: Array) -> Array:
            shape = grid.extents
            return np.broadcast_to(array, shape).reshape(*shape[:rank], -1)

        return Bounded(spread(bounded.value), ZERO if bounded.exact else spread(bounded.error))

    value, index = (flat(grid.full(grid.value(body, None))) for body in grid.node.body)
    body, dtype = grid.node.body[0], grid.node.dtype
    if grid.tracked and dtype in NARROW and not only_moves(body):  # a kernel compares rounded ones
        more = error_bounds.rounding(value.value, value.error, dtype, moves=False)
        value = Bounded(
            value.value, error_bounds.settle(value.value, value.error + more, dtype), value.stored
        )
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
