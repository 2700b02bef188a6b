"""NumPy's evaluation of a Dag, where it has a plain one: what a user would otherwise run.

Sums of products go to `matmul` (BLAS), other reductions and element-wise nodes to ufuncs, all in
the dtypes of the Dag. A node whose reads are shifted (convolution, padding), or a function that
NumPy lacks (erf), has none.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ansorpy.measure.inputs import Array, Inputs, constants
from ansorpy.te.dag import Compute, Dag
from ansorpy.te.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var, walk

MAX_POINTS: Final = 1 << 24  # of a reduction that needs its whole body in memory

Values = dict[tuple[str, int], Array]
_Step = Callable[[Values], Any]

_BINARY: Final[Mapping[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "floordiv": np.floor_divide, "mod": np.mod, "min": np.minimum, "max": np.maximum,
    "pow": np.power, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


def _sigmoid(x: Any) -> Any:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


def _rsqrt(x: Any) -> Any:
    return x.dtype.type(1) / np.sqrt(x)


_CALL: Final[Mapping[str, Callable[..., Any]]] = {
    "neg": np.negative, "not": np.logical_not, "abs": np.abs, "floor": np.floor, "ceil": np.ceil,
    "exp": np.exp, "log": np.log, "tanh": np.tanh, "sqrt": np.sqrt, "rsqrt": _rsqrt,
    "sigmoid": _sigmoid,
}  # fmt: skip
_REDUCE: Final[Mapping[str, Callable[..., Any]]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min,
}  # fmt: skip


def numpy_call(dag: Dag) -> Callable[[Inputs], tuple[Array, ...]] | None:
    """Return a function of the inputs (by name; constants are known), None if NumPy has none."""
    steps: list[tuple[Compute, _Step]] = []
    for node in dag.computes:
        step = None if "bfloat16" in node.dtypes else _step(node)
        if step is None:
            return None
        steps.append((node, step))
    if any(node.dtype == "bfloat16" for node in dag.placeholders):
        return None
    known = {(name, 0): array for name, array in constants(dag).items()}

    def call(inputs: Inputs) -> tuple[Array, ...]:
        values: Values = {**known, **{(name, 0): array for name, array in inputs.items()}}
        with np.errstate(all="ignore"):
            for node, step in steps:
                for i, array in enumerate(step(values)):
                    values[node.name, i] = array
        return tuple(
            np.asarray(values[node.name, i], order="C")
            for node in map(dag.node, dag.outputs)
            if isinstance(node, Compute)
            for i in range(len(node.dtypes))
        )

    return call


def _step(node: Compute) -> _Step | None:
    if node.combiner is None:
        return _elementwise(node)
    if node.start is not None:
        return None
    if node.combiner == "sum":
        product = _contraction(node)
        if product is not None:
            return product
    if node.combiner in ("argmax", "argmin"):
        return _extreme(node)
    return _reduction(node)


def _axes(node: Compute) -> tuple[str, ...]:
    return tuple(axis.name for axis in (*node.axes, *node.reduce_axes))


def _elementwise(node: Compute) -> _Step | None:
    value = _compiled(node.body[0], _axes(node), _extents(node))
    if value is None:
        return None

    def step(values: Values) -> tuple[Array]:
        return (np.broadcast_to(value(values), node.shape).astype(node.dtype, copy=False),)

    return step


def _reduction(node: Compute) -> _Step | None:
    names, rank = _axes(node), len(node.axes)
    value = _compiled(node.body[0], names, _extents(node))
    combine = _REDUCE.get(node.combiner or "")
    if value is None or combine is None or node.points > MAX_POINTS:
        return None
    over = tuple(range(rank, len(names)))

    def step(values: Values) -> tuple[Array]:
        whole = np.broadcast_to(value(values), _extents(node))
        return (np.asarray(combine(whole, axis=over)).astype(node.dtype, copy=False),)

    return step


def _extreme(node: Compute) -> _Step | None:
    """Argmax or argmin along one axis, whose variable is the index."""
    if len(node.reduce_axes) != 1 or node.points > MAX_POINTS:
        return None
    index = node.body[1].a if isinstance(node.body[1], Cast) else node.body[1]
    value = _compiled(node.body[0], _axes(node), _extents(node))
    if value is None or index != Var(node.reduce_axes[0].name):
        return None
    find = np.argmax if node.combiner == "argmax" else np.argmin

    def step(values: Values) -> tuple[Array, Array]:
        whole = np.broadcast_to(value(values), _extents(node))
        at = find(whole, axis=-1)
        best = np.take_along_axis(whole, at[..., None], axis=-1)[..., 0]
        return best, at.astype(node.dtypes[1])

    return step


def _contraction(node: Compute) -> _Step | None:
    """Sum over k of A[..] * B[..], both read by distinct axes: one batched matmul."""
    match node.body[0]:
        case Binary(op="mul", a=Read() as a, b=Read() as b):
            pass
        case _:
            return None
    if np.dtype(node.dtype).kind != "f" or a.dtype != node.dtype or b.dtype != node.dtype:
        return None
    left, right = _letters(a), _letters(b)
    if left is None or right is None:
        return None
    extent = {axis.name: axis.extent for axis in (*node.axes, *node.reduce_axes)}
    out = [axis.name for axis in node.axes]
    over = [axis.name for axis in node.reduce_axes]
    batch = [name for name in out if name in left and name in right]
    rows = [name for name in out if name in left and name not in right]
    columns = [name for name in out if name in right and name not in left]
    if set(over) - set(left) or set(over) - set(right) or set(out) - set(left) - set(right):
        return None

    def size(names: Sequence[str]) -> int:
        return prod(extent[name] for name in names)

    order_a = [left.index(name) for name in (*batch, *rows, *over)]
    order_b = [right.index(name) for name in (*batch, *over, *columns)]
    lead = [extent[name] for name in batch]
    made = [*batch, *rows, *columns]
    back = [made.index(name) for name in out]

    def step(values: Values) -> tuple[Array]:
        x = values[a.tensor, a.output].transpose(order_a).reshape(*lead, size(rows), size(over))
        y = values[b.tensor, b.output].transpose(order_b).reshape(*lead, size(over), size(columns))
        product = np.matmul(x, y).reshape([extent[name] for name in made])
        return (product.transpose(back),)

    return step


def _letters(read: Read) -> list[str] | None:
    names = [index.name for index in read.indices if isinstance(index, Var)]
    plain = len(names) == len(read.indices) and len(set(names)) == len(names)
    return names if plain else None


def _extents(node: Compute) -> tuple[int, ...]:
    return tuple(axis.extent for axis in (*node.axes, *node.reduce_axes))


def _compiled(expr: Expr, axes: Sequence[str], extents: Sequence[int]) -> _Step | None:
    """Return the expression over the whole iteration space, None where NumPy has no call."""
    for part in walk(expr):
        if isinstance(part, Read) and _view(part, axes) is None:
            return None
        if isinstance(part, Call) and part.fn not in _CALL:
            return None
    return _closure(expr, axes, extents)


def _closure(expr: Expr, axes: Sequence[str], extents: Sequence[int]) -> _Step:
    match expr:
        case Const(value=value, dtype=dtype):
            literal = np.dtype(dtype).type(value)
            return lambda values: literal
        case Var(name=name):
            shape = [1] * len(axes)
            shape[axes.index(name)] = -1
            grid = np.arange(extents[axes.index(name)]).reshape(shape)
            return lambda values: grid
        case Read(tensor=tensor, output=output):
            view = _view(expr, axes)
            assert view is not None
            return lambda values: view(values[tensor, output])
        case Cast(dtype=dtype, a=a):
            inner = _closure(a, axes, extents)
            return lambda values: np.asarray(inner(values)).astype(dtype)
        case Call(fn=fn, a=a):
            inner = _closure(a, axes, extents)
            return lambda values: _CALL[fn](inner(values))
        case Binary(op=op, a=a, b=b):
            one, two = _closure(a, axes, extents), _closure(b, axes, extents)
            return lambda values: _BINARY[op](one(values), two(values))
        case Select(cond=cond, then=then, other=other):
            test = _closure(cond, axes, extents)
            one, two = _closure(then, axes, extents), _closure(other, axes, extents)
            return lambda values: np.where(test(values), one(values), two(values))


def _view(read: Read, axes: Sequence[str]) -> Callable[[Array], Array] | None:
    """Return how an array read by distinct axes and constants spreads over the iteration space."""
    at: list[int | slice] = []
    dims: list[int] = []
    for index in read.indices:
        match index:
            case Const(value=value):
                at.append(int(value))
            case Var(name=name) if axes.index(name) not in dims:
                at.append(slice(None))
                dims.append(axes.index(name))
            case _:
                return None
    order = sorted(range(len(dims)), key=dims.__getitem__)
    missing = tuple(i for i in range(len(axes)) if i not in dims)

    def view(array: Array) -> Array:
        cut: Array = array[tuple(at)].transpose(order)
        return np.expand_dims(cut, missing)

    return view
