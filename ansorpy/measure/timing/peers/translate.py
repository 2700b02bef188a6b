"""A Dag as a graph of library operators, with the names and attributes of ONNX.

Each node becomes one operator or a few: a convolution, a pool, a product of matrices, a reduction,
or operators on elements; `chains` joins them. Values of the graph are t0, t1, ...: inputs first.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ansorpy.expr.expr import Cast, Read, Var, variables
from ansorpy.graph.graph import Attribute, Graph
from ansorpy.measure.timing.peers.arithmetic import applied
from ansorpy.measure.timing.peers.convolution import convolution
from ansorpy.measure.timing.peers.expression import NodeSpace, Values
from ansorpy.measure.timing.peers.matrix import product
from ansorpy.measure.timing.peers.numbered import numbered
from ansorpy.measure.timing.peers.padding import padding
from ansorpy.measure.timing.peers.shaping import SPREAD, reshaped, transposed, view
from ansorpy.measure.timing.peers.term import Term, Terms, ordered
from ansorpy.measure.timing.peers.window import pool
from ansorpy.measure.timing.slices import slice_of
from ansorpy.te.dag import Compute, ConstantTensor, Dag, Placeholder
from ansorpy.te.tensor_data import constant_array

MAX_POINTS: Final = 1 << 24  # points of a reduction whose whole body is in memory

_REDUCE: Final[Mapping[str, str]] = {
    "sum": "ReduceSum", "max": "ReduceMax", "min": "ReduceMin", "prod": "ReduceProd",
    "argmax": "ReduceMax", "argmin": "ReduceMin",
}  # fmt: skip
_COMBINE: Final[Mapping[str, str]] = {"sum": "Add", "max": "Max", "min": "Min", "prod": "Mul"}
_EXTREME: Final[Mapping[str, str]] = {"argmax": "ArgMax", "argmin": "ArgMin"}


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A Dag that libraries have no operators for, and the reason."""

    reason: str


def translated(dag: Dag) -> Graph | Unmapped:
    """Return the graph of library operators that computes a Dag; a node without one is named."""
    terms, values = Terms(), dict[tuple[str, int], Term]()
    half = [node.name for node in dag.nodes if node.dtype == "bfloat16"]
    if half:
        return Unmapped(f"NumPy has no arrays of bfloat16, the dtype of {half[0]!r}")
    for place, one in enumerate(dag.placeholders):
        values[one.name, 0] = terms.input(place, one.shape, one.dtype)
    for node in dag.nodes:
        match node:
            case ConstantTensor():
                array = constant_array(node).astype(node.dtype)
                values[node.name, 0] = terms.constant(array, node.dtype)
            case Compute():
                made = _node(terms, node, values)
                if made is None:
                    return Unmapped(f"no operator for node {node.name!r}")
                values |= {(node.name, output): term for output, term in enumerate(made)}
            case Placeholder():
                pass
    found = [values[name, i] for name in dag.outputs for i in range(_outputs(dag, name))]
    if any(term.op == SPREAD for term in ordered(found)):
        (name, *_) = (name for (name, _), term in values.items() if term.op == SPREAD)
        return Unmapped(f"no operator for node {name!r}")
    return numbered(found, dag.placeholders)


def _outputs(dag: Dag, name: str) -> int:
    node = dag.node(name)
    return len(node.dtypes) if isinstance(node, Compute) else 1


def _node(terms: Terms, node: Compute, values: Values) -> tuple[Term, ...] | None:
    """Return the outputs of a node; None if no operator computes it."""
    extents = {axis.name: axis.extent for axis in (*node.axes, *node.reduce_axes)}
    term: Term | None
    if node.combiner is None:
        term = padding(terms, node, values) or _elementwise(terms, node, values, extents)
        return None if term is None else (term,)
    if node.combiner in _EXTREME:
        return _extreme(terms, node, values, extents)
    recognised = (convolution, product, pool) if node.start is None else ()
    for one in recognised:
        term = one(terms, node, values, extents)
        if term is not None:
            return (term,)
    term = _reduction(terms, node, values, extents)
    if term is None or node.start is None:
        return None if term is None else (term,)
    start = NodeSpace(terms, values, extents, [axis.name for axis in node.axes]).term(node.start)
    if start is None:
        return None
    return (applied(terms, _COMBINE[node.combiner], start, term, dtype=node.dtype),)


def _elementwise(
    terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]
) -> Term | None:
    body = node.body[0]
    names = [axis.name for axis in node.axes]
    if isinstance(body, Read):
        term = view(terms, body, values[body.tensor, body.output], extents)
    else:
        # Elements are computed in the order of the first operand, and moved last.
        names = _order(node, values, extents)
        term = NodeSpace(terms, values, extents, names).term(body)
    if term is None:
        return None
    return _placed(terms, term, names, node, extents)


def _placed(
    terms: Terms, term: Term, names: Sequence[str], node: Compute, extents: Mapping[str, int]
) -> Term:
    """Return a term over `names` as the result of a node, of its whole shape."""
    whole = [extents[name] for name in names]
    if list(term.shape) != whole:
        number = terms.constant(np.array(whole), "int64")
        term = terms.make("Expand", [term, number], whole, term.dtype)
    return _arranged(terms, term, names, node)


def _arranged(terms: Terms, x: Term, names: Sequence[str], node: Compute) -> Term:
    """Return `x` over `names` in the order of the axes of a node; missing ones have extent 1."""
    order = [list(names).index(axis.name) for axis in node.axes if axis.name in names]
    return reshaped(terms, transposed(terms, x, order), node.shape)


def _order(node: Compute, values: Values, extents: Mapping[str, int]) -> list[str]:
    """Return the axes of a node in the order of the dimensions of its largest operand.

    Axes of extent 1 that its body does not mention are left out.
    """
    used = frozenset[str]().union(*map(variables, node.body))
    out = [name for name, extent in extents.items() if extent > 1 or name in used]
    taken = [(values[read.tensor, read.output], read) for read in node.reads]
    if not taken:
        return out
    x, read = max(taken, key=lambda pair: pair[0].size)
    cut = slice_of(read, extents, x.shape)
    if cut is None:
        return out
    return [*(name for name in out if name not in cut.axes), *cut.axes]


def _reduction(
    terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]
) -> Term | None:
    """Return a reduction of an expression over its whole iteration space."""
    assert node.combiner is not None
    if node.points > MAX_POINTS and not isinstance(node.body[0], Read):
        return None
    names = _order(node, values, extents)
    body = NodeSpace(terms, values, extents, names).term(node.body[0])
    if body is None:
        return None
    return _reduced(terms, _REDUCE[node.combiner], body, names, node, extents)


def _reduced(
    terms: Terms, op: str, body: Term, names: Sequence[str], node: Compute,
    extents: Mapping[str, int], **attrs: Attribute,
) -> Term:  # fmt: skip
    """Return an operator over the reduce axes of a node, applied to its body over `names`."""
    whole = [extents[name] for name in names]
    if list(body.shape) != whole:
        number = terms.constant(np.array(whole), "int64")
        body = terms.make("Expand", [body, number], whole, body.dtype)
    over = {axis.name for axis in node.reduce_axes}
    axes = tuple(at for at, name in enumerate(names) if name in over)
    kept = [1 if name in over else extents[name] for name in names]
    if op in _EXTREME.values():
        term = terms.make(op, [body], kept, "int64", axis=axes[0], keepdims=1)
    elif not axes:  # each has extent 1
        term = body
    else:
        term = terms.make(op, [body], kept, body.dtype, axes=axes, keepdims=1)
    left = [name for name in names if name not in over]
    flat = reshaped(terms, term, [extents[name] for name in left])
    return _arranged(terms, flat, left, node)


def _extreme(
    terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]
) -> tuple[Term, ...] | None:
    """Argmax or argmin along one axis, whose variable is the index."""
    assert node.combiner is not None
    index = node.body[1].a if isinstance(node.body[1], Cast) else node.body[1]
    if len(node.reduce_axes) != 1 or index != Var(node.reduce_axes[0].name):
        return None
    names = [*extents]
    body = NodeSpace(terms, values, extents, names).term(node.body[0])
    if body is None or node.start is not None or node.points > MAX_POINTS:
        return None
    best = _reduced(terms, _REDUCE[node.combiner], body, names, node, extents)
    at = _reduced(terms, _EXTREME[node.combiner], body, names, node, extents)
    if node.dtypes[1] != "int64":
        at = applied(terms, "Cast", at, dtype=node.dtypes[1], to=node.dtypes[1])
    return best, at
