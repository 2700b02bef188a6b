"""Graphs of one model at several sizes become one graph with dims.

A model computes shapes from shapes, by operators that an importer evaluates at numbers. So it is
imported at its largest sizes, and again with each dim at its least size and at one between. A
number that equals the size of a dim in all of these graphs is the dim; a constant that is the first
elements of the constant at the largest sizes has extents that are dims. Anything else that differs
is refused.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import prod
from typing import Final, NoReturn

import numpy as np

from ansorpy.errors import GraphError, SpecError
from ansorpy.graph.facts import NodeFactsOf
from ansorpy.graph.graph import Extent, Graph, Node, Symbol, ValueInfo, Weight
from ansorpy.graph.growth import Growth
from ansorpy.graph.lower import NodeTensors
from ansorpy.graph.operator import no_dim, operator_of
from ansorpy.graph.passes.dead import dead
from ansorpy.graph.passes.gathers import gathers, ordered
from ansorpy.graph.sizes import weight_at
from ansorpy.graph.unjoin import JoinedExtent, unjoined
from ansorpy.te.dims import MOST_DIMS, Dim, dims_in, with_sums

MOST_SIZES: Final = 64  # elements of a constant that may be sizes one by one
SHAPED: Final = ("Reshape", "Expand")  # operators whose input 1 is the shape of the result

Sizes = Mapping[str, int]


def sampled(dims: Sequence[Dim]) -> tuple[dict[str, int], ...]:
    """Return the sizes at which a model with dims is imported; the largest ones are first.

    All but one dim are at their largest size, and the one is at its least size or at an odd size
    between: a product of dims, a bounded or a rounded size are told from a dim.

    Raises:
        GraphError: there are more dims than a Dag may have.
    """
    if len(dims) > MOST_DIMS:
        raise GraphError(f"cannot take {len(dims)} dims of a model; expected at most {MOST_DIMS}")
    most = {one.name: one.high for one in dims}
    found = [most]
    for one in (one for one in dims if not one.terms):
        between = (sum(one.counts) // 2 | 1) * one.step
        found += [
            {**most, one.name: size}
            for size in dict.fromkeys((max(one.low, one.step), between))
            if one.low <= size < one.high
        ]
    return tuple(with_sums(dims, sizes) for sizes in found)


def merged(
    graphs: Sequence[Graph],
    sizes: Sequence[Sizes],
    dims: Sequence[Dim],
    graph_at: Callable[[Sizes], Graph],
) -> Graph:
    """Return the graph with dims of graphs of one model at the sizes of `sampled`.

    Args:
        graph_at: returns the graph at other sizes.

    Raises:
        GraphError: a node needs the number of a dim; its message names node, dim and remedy.
    """
    live = [dead(one).graph for one in graphs]
    views = set.intersection(*map(ordered, live))  # elsewhere, one of one element is no proof
    live = [_shaped(gathers(one, views).graph) for one in live]
    grown = Growth(live, list(sizes), tuple(dims), graph_at).run()
    live = [dead(one).graph for one in grown.graphs]
    return _Merge(live[0], live[1:], tuple(grown.sizes), grown.dims).run()


def at_a_size(error: GraphError, sizes: Sizes, dims: Sequence[Dim]) -> GraphError:
    """Return the error of a model that can be imported at the largest sizes, and not at others."""
    (one,) = (one for one in dims if sizes[one.name] != one.high and not one.terms)
    return GraphError(
        f"cannot keep {one.name} as a dim because of the model at {one.name} ="
        f" {sizes[one.name]}: {error}; expected a number, as in --bind {one.name}=1, or a range"
        " whose sizes the model takes"
    )


@dataclass(frozen=True)
class _Merge:
    """The graph at the largest sizes, the other graphs, and the sizes of all of them."""

    first: Graph
    others: Sequence[Graph]
    sizes: tuple[Sizes, ...]
    dims: tuple[Dim, ...]

    def run(self) -> Graph:
        """Return the graph with dims, after every node of it was built."""
        for number, other in enumerate(self.others, 1):
            self._same_nodes(other, number)
        shapes = {name: self._shape(name) for name in self.first.values}
        joined = {
            name: tuple(one for one in shape if not isinstance(one, Symbol))
            for name, shape in shapes.items()
            if any(isinstance(one, JoinedExtent) for one in shape)
        }
        values = {
            name: info if name in joined else replace(info, shape=_without_joined(shapes[name]))
            for name, info in self.first.values.items()
        }
        shaped = {
            node.inputs[1]: values[node.outputs[0]].fixed_shape
            for node in self.first.nodes
            if node.op in SHAPED
        }
        weights = {
            name: self._weight(name, values[name], shaped.get(name)) for name in self.first.weights
        }
        made = replace(self.first, values=values, weights=weights)
        if joined:
            made = dead(unjoined(made, joined)).graph
        made.check()
        check_dims(made)
        return made

    def _same_nodes(self, other: Graph, number: int) -> None:
        """Refuse a graph of other nodes."""
        for node, found in zip(self.first.nodes, other.nodes, strict=False):
            if (node.op, node.inputs, node.outputs) != (found.op, found.inputs, found.outputs):
                self._refuse(node, number, f"the model has {found} there", "")
            for name in node.attrs.keys() | found.attrs.keys():
                if node.attrs.get(name) != found.attrs.get(name):
                    self._refuse(node, number, f"its attribute {name!r} is another one", "")
        if len(self.first.nodes) != len(other.nodes) or self.first.outputs != other.outputs:
            longest = max(self.first, other, key=lambda one: len(one.nodes))
            node = longest.nodes[min(len(self.first.nodes), len(other.nodes)) - 1]
            self._refuse(node, number, "the model has other nodes behind it", "")

    def _shape(self, name: str) -> tuple[Extent | JoinedExtent, ...]:
        """Return the shape of a value, whose extents may be dims, or products of them."""
        shapes = [one.values[name].shape for one in (self.first, *self.others)]
        extents: list[Extent | JoinedExtent] = []
        for number, shape in enumerate(shapes):
            if len(shape) != len(shapes[0]):
                self._refuse(self._node(name), number, f"{name[:80]!r} has rank {len(shape)}", "")
        for axis, same in enumerate(zip(*shapes, strict=True)):
            known = self._extent(same)
            extent = self._joined(same) if known is None else known
            if extent is None or (isinstance(extent, JoinedExtent) and name in self.first.weights):
                number = next(n for n, one in enumerate(same) if one != same[0])
                self._refuse(
                    self._node(name), number, f"axis {axis} of its result is {same[number]}",
                    f" for {same[0]} at the largest size: no dim alone is an extent",
                )  # fmt: skip
            extents.append(extent)
        return tuple(extents)

    def _extent(self, same: Sequence[Extent]) -> Extent | None:
        """Return the extent that has these sizes in the graphs; None if it is no dim."""
        if all(one == same[0] for one in same):
            return same[0]
        if any(isinstance(one, Symbol) for one in same):
            return None
        for dim in self.dims:
            if list(same) == [sizes[dim.name] for sizes in self.sizes]:
                return dim
        return None

    def _joined(self, same: Sequence[Extent]) -> JoinedExtent | None:
        """Return the product of dims and a number that has these sizes; None if there is none."""
        numbers = [one for one in same if isinstance(one, int)]
        for count in range(1, len(self.dims) + 1):
            for dims in combinations(self.dims, count):
                sizes = [prod(at[one.name] for one in dims) for at in self.sizes]
                factor = numbers[0] // sizes[0] if len(numbers) == len(same) else 0
                if factor and [factor * one for one in sizes] == numbers:
                    return JoinedExtent(dims, factor)
        return None

    def _weight(self, name: str, value: ValueInfo, shape: Sequence[int] | None) -> Weight:
        """Return a constant, whose extents or elements may be dims."""
        every = [one.weights[name] for one in (self.first, *self.others)]
        weight = every[0]
        if shape is not None:
            return weight.with_dims(weight.shape, shape) if dims_in(shape) else weight
        if all(one.digest == weight.digest for one in every):
            return weight
        if dims_in(value.shape):
            made = weight.with_dims(value.fixed_shape)
            for number, (one, sizes) in enumerate(zip(every, self.sizes, strict=True)):
                if weight_at(made, sizes).digest != one.digest:
                    self._refuse(
                        self._reader(name), number, f"constant {name[:80]!r} has other elements",
                        " than the first ones of the largest size",
                    )  # fmt: skip
            return made
        columns = list(zip(*(one.array.reshape(-1).tolist() for one in every), strict=True))
        integers = weight.dtype in ("int32", "int64") and prod(weight.shape) <= MOST_SIZES
        elements = [self._extent(column) if integers else None for column in columns]
        for column, element in zip(columns, elements, strict=True):
            if element is None and any(one != column[0] for one in column):
                number = next(n for n, one in enumerate(column) if one != column[0])
                self._refuse(
                    self._reader(name), number, f"its constant {name[:80]!r} has {column[number]}",
                    f" for {column[0]} at the largest size",
                )  # fmt: skip
        return weight.with_dims(weight.shape, [one for one in elements if isinstance(one, int)])

    def _node(self, value: str) -> Node:
        """Return the node that computes a value, else the first reader."""
        return self.first.producers.get(value) or self._reader(value)

    def _reader(self, value: str) -> Node:
        return self.first.readers.get(value, (Node("Output", (), (value,)),))[0]

    def _refuse(self, node: Node, number: int, because: str, more: str) -> NoReturn:
        """Raise the error about the only dim that differs between the first and another graph."""
        sizes = self.sizes[number]
        changed = [one for one in self.dims if sizes[one.name] != one.high and not one.terms]
        at = ", ".join(f"{one.name} = {self.sizes[number][one.name]}" for one in changed)
        raise no_dim(node, changed or self.dims, f"{because} at {at}{more}")


def _without_joined(shape: Sequence[Extent | JoinedExtent]) -> tuple[Extent, ...]:
    return tuple(one for one in shape if not isinstance(one, JoinedExtent))


def _shaped(graph: Graph) -> Graph:
    """Return a graph in which each shape that a node gets is the shape of its result, in numbers.

    It may be given as -1 or 0, or in numbers that no dim alone is.
    """
    values, weights, nodes = dict(graph.values), dict(graph.weights), []
    for node in graph.nodes:
        made = node
        shape = graph.values[node.outputs[0]].shape if node.op in SHAPED else ()
        if node.op in SHAPED and all(isinstance(one, int) for one in shape) and 0 not in shape:
            name = f"{node.outputs[0]}~shape"
            weights[name] = Weight.of(np.array(shape, np.int64))
            values[name] = ValueInfo(name, weights[name].shape, "int64")
            made = replace(node, inputs=(node.inputs[0], name), attrs={})
        nodes.append(made)
    return dead(replace(graph, nodes=tuple(nodes), values=values, weights=weights)).graph


def check_dims(graph: Graph) -> None:
    """Raise GraphError for a node whose tensor expressions do not keep the dims of its operands."""
    facts_of = NodeFactsOf(graph)
    for node in graph.nodes if graph.dims else ():
        _check(graph, node, facts_of)


def _check(graph: Graph, node: Node, facts_of: NodeFactsOf) -> None:
    """Refuse a node whose tensor expressions do not keep the dims of its operands.

    Raises:
        GraphError: names the node, the dim and the remedy.
    """
    names = [name for name in (*node.inputs, *node.outputs) if name]
    dims = dims_in(extent for name in names for extent in graph.values[name].shape)
    if not dims or operator_of(node).hosted is not None:
        return
    built = NodeTensors(graph)
    built.add(node)
    for name in filter(None, node.outputs):
        made, wanted = built.tensors[name].draft.node.shape, graph.values[name].fixed_shape
        if made != wanted:
            raise no_dim(node, dims, f"its result is {list(made)}, not {list(wanted)}")
    try:
        facts_of(node)
    except GraphError:
        raise
    except SpecError as error:
        text = str(error)
        raise no_dim(node, dims, text.rpartition("; expected")[0] or text) from error
