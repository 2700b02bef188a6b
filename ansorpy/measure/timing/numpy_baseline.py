"""NumPy's evaluation of a Dag, if it has a plain one: the code of a user without ansorpy.

Sums of products go to `matmul` (BLAS), other reductions and element-wise nodes to ufuncs, all in
the dtypes of the Dag, on the slices that they read (`slices`). A node with a read that is no slice
(convolution, padding), or with a function that NumPy lacks (erf), has none.
"""

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var, walk
from ansorpy.expr.functions import FUNCTIONS
from ansorpy.measure.timing.contraction import contraction_of
from ansorpy.measure.timing.slices import slice_of
from ansorpy.measure.verify.inputs import Array, Inputs, constants
from ansorpy.oracle.numeric import BINARY
from ansorpy.te.dag import Compute, Dag
from ansorpy.te.dims import widest

MAX_POINTS: Final = 1 << 24  # points of a reduction whose whole body is in memory

Values = dict[tuple[str, int], Array]
_Step = Callable[[Values], Any]
_Shapes = Mapping[str, tuple[int, ...]]  # shapes of tensors, by name


def _sigmoid(x: Any) -> Any:
    one = x.dtype.type(1)
    return one / (one + np.exp(-x))


# Calls that a user would write: NumPy has no erf, and the oracle's sigmoid avoids overflows.
_CALL: Final[Mapping[str, Callable[..., Any]]] = {
    **{name: function.meaning for name, function in FUNCTIONS.items() if name != "erf"},
    "sigmoid": _sigmoid,
}
_REDUCE: Final[Mapping[str, Callable[..., Any]]] = {
    "sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min,
}  # fmt: skip


def numpy_call(dag: Dag) -> Callable[[Inputs], tuple[Array, ...]] | None:
    """Return a function of the inputs (by name; constants are known), None if NumPy has none.

    With dims, it takes the largest sizes.
    """
    dag = widest(dag)
    steps: list[tuple[Compute, _Step]] = []
    shapes = {node.name: node.shape for node in dag.nodes}
    for node in dag.computes:
        step = None if "bfloat16" in node.dtypes else _step(node, shapes)
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


def _step(node: Compute, shapes: _Shapes) -> _Step | None:
    if node.combiner is None:
        return _elementwise(node, shapes)
    if node.start is not None:
        return None
    if node.combiner == "sum":
        product = _contraction(node, shapes)
        if product is not None:
            return product
    if node.combiner in ("argmax", "argmin"):
        return _extreme(node, shapes)
    return _reduction(node, shapes)


def _elementwise(node: Compute, shapes: _Shapes) -> _Step | None:
    value = _compiled(node, shapes)
    if value is None:
        return None

    def step(values: Values) -> tuple[Array]:
        return (np.broadcast_to(value(values), node.shape).astype(node.dtype, copy=False),)

    return step


def _reduction(node: Compute, shapes: _Shapes) -> _Step | None:
    value = _compiled(node, shapes)
    combine = _REDUCE.get(node.combiner or "")
    if value is None or combine is None or node.points > MAX_POINTS:
        return None
    over = tuple(range(len(node.axes), len(_extents(node))))

    def step(values: Values) -> tuple[Array]:
        whole = np.broadcast_to(value(values), tuple(_extents(node).values()))
        return (np.asarray(combine(whole, axis=over)).astype(node.dtype, copy=False),)

    return step


def _extreme(node: Compute, shapes: _Shapes) -> _Step | None:
    """Argmax or argmin along one axis, whose variable is the index."""
    if len(node.reduce_axes) != 1 or node.points > MAX_POINTS:
        return None
    index = node.body[1].a if isinstance(node.body[1], Cast) else node.body[1]
    value = _compiled(node, shapes)
    if value is None or index != Var(node.reduce_axes[0].name):
        return None
    find = np.argmax if node.combiner == "argmax" else np.argmin

    def step(values: Values) -> tuple[Array, Array]:
        whole = np.broadcast_to(value(values), tuple(_extents(node).values()))
        at = find(whole, axis=-1)
        best = np.take_along_axis(whole, at[..., None], axis=-1)[..., 0]
        return best, at.astype(node.dtypes[1])

    return step


def _contraction(node: Compute, shapes: _Shapes) -> _Step | None:
    """Sum over k of A[..] * B[..], both read by distinct axes: one batched matmul."""
    extent = _extents(node)
    pair = contraction_of(node, extent, shapes)
    if pair is None or np.dtype(node.dtype).kind != "f":
        return None
    if pair.a.dtype != node.dtype or pair.b.dtype != node.dtype:
        return None
    a, b, one, two = pair.a, pair.b, pair.left, pair.right
    batch, rows, columns, over = pair.batch, pair.rows, pair.columns, pair.over
    left, right = one.axes, two.axes

    def size(names: Sequence[str]) -> int:
        return prod(extent[name] for name in names)

    order_a = [left.index(name) for name in (*batch, *rows, *over)]
    order_b = [right.index(name) for name in (*batch, *over, *columns)]
    lead = [extent[name] for name in batch]
    made = [*batch, *rows, *columns]
    back = [made.index(axis.name) for axis in node.axes]

    def step(values: Values) -> tuple[Array]:
        x = values[a.tensor, a.output][one.at].transpose(order_a)
        y = values[b.tensor, b.output][two.at].transpose(order_b)
        x = x.reshape(*lead, size(rows), size(over))
        y = y.reshape(*lead, size(over), size(columns))
        product = np.matmul(x, y).reshape([extent[name] for name in made])
        return (product.transpose(back),)

    return step


def _extents(node: Compute) -> dict[str, int]:
    """Return the extents of the iteration space by axis, in order."""
    return {axis.name: axis.extent for axis in (*node.axes, *node.reduce_axes)}


def _compiled(node: Compute, shapes: _Shapes) -> _Step | None:
    """Return the first body over the whole iteration space, None if NumPy has no call for it."""
    extents = _extents(node)
    for part in walk(node.body[0]):
        if isinstance(part, Read) and slice_of(part, extents, shapes[part.tensor]) is None:
            return None
        if isinstance(part, Call) and part.fn not in _CALL:
            return None
    return _closure(node.body[0], extents, shapes)


def _closure(expr: Expr, extents: Mapping[str, int], shapes: _Shapes) -> _Step:
    match expr:
        case Const(value=value, dtype=dtype):
            literal = np.dtype(dtype).type(value)
            return lambda values: literal
        case Var(name=name):
            grid = np.arange(extents[name]).reshape([-1 if n == name else 1 for n in extents])
            return lambda values: grid
        case Read(tensor=tensor, output=output):
            view = _view(expr, extents, shapes[tensor])
            return lambda values: view(values[tensor, output])
        case Cast(dtype=dtype, a=a):
            inner = _closure(a, extents, shapes)
            return lambda values: np.asarray(inner(values)).astype(dtype)
        case Call(fn=fn, a=a):
            inner = _closure(a, extents, shapes)
            return lambda values: _CALL[fn](inner(values))
        case Binary(op=op, a=a, b=b):
            one, two = _closure(a, extents, shapes), _closure(b, extents, shapes)
            return lambda values: BINARY[op](one(values), two(values))
        case Select(cond=cond, then=then, other=other):
            test = _closure(cond, extents, shapes)
            one, two = _closure(then, extents, shapes), _closure(other, extents, shapes)
            return lambda values: np.where(test(values), one(values), two(values))


def _view(read: Read, extents: Mapping[str, int], shape: Sequence[int]) -> Callable[[Array], Array]:
    """Return a function that spreads the slice of a read over the iteration space."""
    cut = slice_of(read, extents, shape)
    assert cut is not None, "_compiled has looked at every read"
    places = [list(extents).index(axis) for axis in cut.axes]
    order = sorted(range(len(places)), key=places.__getitem__)
    missing = tuple(i for i in range(len(extents)) if i not in places)

    def view(array: Array) -> Array:
        part: Array = array[cut.at].transpose(order)
        return np.expand_dims(part, missing)

    return view
