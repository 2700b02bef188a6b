"""Joined axes: neighbours that every node of a Dag walks together become one axis.

Y[n, o, h, w] = sum over c of X[n, c, h, w] * W[o, c], 14 rows of 14   ->
Y[n, o, h] = sum over c of X[n, c, h] * W[o, c], h below 196

Tiles and vectors then run over a whole image: rows of 14 waste two of sixteen lanes, 196 none.
Arrays keep their elements in order; arguments have other shapes.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

from ansorpy.expr.expr import Expr, Read, Var, const, substitute, transform, walk
from ansorpy.expr.simplify import simplify
from ansorpy.te.dag import Axis, Compute, Dag, Node
from ansorpy.te.dims import Dim

Place: TypeAlias = tuple[str, int]  # a tensor and its dimension that joins the one before
Pair: TypeAlias = tuple[str, str, str]  # a node, and an axis that joins the one before it


def joined(dag: Dag) -> Dag:
    """Return the Dag with all axes joined that every node walks together.

    Condition    neighbouring axes, or reduce axes, of a node; wherever its terms have one of them,
                 they index neighbouring dimensions of a tensor by both, in order and over the whole
                 extents; each node that reads or computes this tensor does so
    Rewrite      two extents a, b  ->  one extent a * b, of the tensor and of the axes. A reduce
                 axis of extent 1 goes first, if another one is left, as the window of a 1x1
                 convolution does
    Not handled  dims, whose layouts need the extents of their own; axes that a hint names
    """
    nodes = (_without_units(node) if isinstance(node, Compute) else node for node in dag.nodes)
    dag = replace(dag, nodes=tuple(nodes))
    places = {
        (node.name, d)
        for node in dag.nodes
        for d, extents in enumerate(pairwise(node.shape), start=1)
        if not any(isinstance(extent, Dim) for extent in extents)
    }
    pairs = {pair: place for node in dag.computes for pair, place in _pairs(node)}
    while True:
        walks = [_Walks.of(node, dag, places, pairs) for node in dag.computes]
        dead = {pair for walk in walks for pair in walk.broken}
        fewer = {
            pair: place
            for pair, place in pairs.items()
            if pair not in dead and (place is None or place in places)
        }
        kept = places - {place for walk in walks for place in walk.left}
        kept -= {place for pair, place in pairs.items() if place is not None and pair not in fewer}
        if len(fewer) == len(pairs) and kept == places:
            return replace(dag, nodes=tuple(_rebuilt(node, places, pairs) for node in dag.nodes))
        places, pairs = kept, fewer


def _hinted(node: Compute) -> set[str]:
    """Return the axes that hints of the user name, which stay."""
    return {*node.attrs.unroll, *node.attrs.no_split_inner, *node.attrs.const_axes}


def _without_units(node: Compute) -> Compute:
    """Return a node without reduce axes of extent 1; one axis is kept."""
    hinted = _hinted(node)
    units = [
        axis
        for axis in node.reduce_axes
        if axis.extent == 1 and not isinstance(axis.extent, Dim) and axis.name not in hinted
    ]
    if len(units) == len(node.reduce_axes):
        units = units[1:]
    if not units:
        return node
    zeros = {axis.name: const(0) for axis in units}
    # From an extent of 2 on: other axes of extent 1 stay variables.
    ranges = {axis.name: (0, max(axis.extent, 2) - 1) for axis in (*node.axes, *node.reduce_axes)}

    def change(expr: Expr) -> Expr | None:
        if not isinstance(expr, Read):
            return None
        return replace(expr, indices=tuple(simplify(one, ranges) for one in expr.indices))

    body = tuple(transform(substitute(part, zeros), change) for part in node.body)
    kept = tuple(axis for axis in node.reduce_axes if axis not in units)
    return replace(node, body=body, reduce_axes=kept)


def _pairs(node: Compute) -> Iterator[tuple[Pair, Place | None]]:
    """Yield the pairs of a node; of those that are no reduce axes, with the place in its tensor."""
    hinted = _hinted(node)
    for axes, reduced in ((node.axes, False), (node.reduce_axes, True)):
        for d, (a, b) in enumerate(pairwise(axes), start=1):
            dims = isinstance(a.extent, Dim) or isinstance(b.extent, Dim)
            if not dims and not hinted & {a.name, b.name}:
                yield (node.name, a.name, b.name), None if reduced else (node.name, d)


@dataclass(frozen=True, slots=True)
class _Walks:
    """The pairs of a node that stand elsewhere, too, and the places that it indexes otherwise."""

    broken: frozenset[Pair]
    left: frozenset[Place]

    @staticmethod
    def of(
        node: Compute, dag: Dag, places: set[Place], pairs: dict[Pair, Place | None]
    ) -> "_Walks":
        """Look at the terms of a node, given the pairs and places that may still be joined."""
        extents = {axis.name: axis.extent for axis in (*node.axes, *node.reduce_axes)}
        terms = (*node.body, *(() if node.start is None else (node.start,)))
        parts = [part for term in terms for part in walk(term)]
        uses = Counter(part.name for part in parts if isinstance(part, Var))
        together: Counter[Pair] = Counter()
        left: set[Place] = set()
        for read in (part for part in parts if isinstance(part, Read)):
            shape = dag.node(read.tensor).shape
            for d, (a, b) in enumerate(pairwise(read.indices), start=1):
                names = [one.name for one in (a, b) if isinstance(one, Var)]
                whole = [extents.get(name) for name in names] == list(shape[d - 1 : d + 1])
                pair = (node.name, *names)
                if whole and pair in pairs and (read.tensor, d) in places:
                    together[pair] += 1
                elif shape[d] != 1 or b != const(0):
                    left.add((read.tensor, d))
        own = [pair for pair in pairs if pair[0] == node.name]
        broken = {pair for pair in own if any(uses[name] != together[pair] for name in pair[1:])}
        return _Walks(frozenset(broken), frozenset(left))


def _rebuilt(node: Node, places: set[Place], pairs: dict[Pair, Place | None]) -> Node:
    """Return a node with the extents of its tensor, its axes and its reads joined."""
    if not isinstance(node, Compute):
        return replace(node, shape=_joined_shape(node.name, node.shape, places))

    def change(expr: Expr) -> Expr | None:
        if not isinstance(expr, Read):
            return None
        ends = [d for d in range(len(expr.indices)) if (expr.tensor, d) not in places]
        return replace(expr, indices=tuple(expr.indices[d] for d in ends))

    return replace(
        node,
        axes=_joined_axes(node.name, node.axes, pairs),
        reduce_axes=_joined_axes(node.name, node.reduce_axes, pairs),
        body=tuple(transform(part, change) for part in node.body),
        start=None if node.start is None else transform(node.start, change),
    )


def _joined_shape(name: str, shape: tuple[int, ...], places: set[Place]) -> tuple[int, ...]:
    answer: list[int] = []
    for d, extent in enumerate(shape):
        if (name, d) in places:
            answer[-1] *= extent
        else:
            answer.append(extent)
    return tuple(answer)


def _joined_axes(
    name: str, axes: tuple[Axis, ...], pairs: dict[Pair, Place | None]
) -> tuple[Axis, ...]:
    answer: list[Axis] = []
    before = ""
    for axis in axes:
        if (name, before, axis.name) in pairs:
            answer[-1] = replace(answer[-1], extent=answer[-1].extent * axis.extent)
        else:
            answer.append(axis)
        before = axis.name
    return tuple(answer)
