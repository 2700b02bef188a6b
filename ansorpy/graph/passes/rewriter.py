"""The rewriter of graphs: a walk in topological order that keeps or replaces each node."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ansorpy.graph.builder import GraphBuilder, is_known
from ansorpy.graph.graph import Array, Graph, Node, Weight
from ansorpy.te.dims import dims_in

SCALAR_ELEMENTS: Final = 1 << 16  # elements of a constant that is searched for one common value


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A graph after a pass, and the number of sites at which the pass changed it."""

    graph: Graph
    sites: int


class Rewriter(GraphBuilder):
    """A graph that is built anew: a rule sees the nodes so far and adds to them.

    A rule gets a node with the names of its inputs in the new graph. It returns None if it keeps
    the node; otherwise the values of the new graph that stand for the outputs of the node. An
    output that the rule defines under its old name stands for itself.
    """

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph.name)
        self.before = graph
        self.values = {name: graph.values[name] for name in (*graph.inputs, *graph.weights)}
        self.weights = dict(graph.weights)
        self.bound = dict(graph.bound)
        self._inputs = list(graph.inputs)
        self._stands: dict[str, str] = {}
        self._names: dict[str, list[str]] = {}
        self._digests = {one.digest: name for name, one in graph.weights.items()}
        self._fresh = 0

    def keep(self, node: Node) -> None:
        """Add a node of the old graph as it is."""
        self.values |= {name: self.before.values[name] for name in node.outputs if name}
        self._append(node)

    def stand(self, old: str, new: str) -> None:
        """Let every later reader of `old` read `new`."""
        if old and old != new:
            self._stands[old] = new
            self._names.setdefault(new, []).extend((old, *self._names.get(old, ())))

    def now(self, name: str) -> str:
        """Return the value of the new graph that stands for a value of the old one."""
        return self._stands.get(name, name)

    def fresh(self, stem: str) -> str:
        """Return a name that no value of the old or the new graph has."""
        while True:
            self._fresh += 1
            name = f"{stem.partition('~')[0]}~{self._fresh}"
            if name not in self.values and name not in self.before.values:
                return name

    def new(self, op: str, inputs: Sequence[str], like: Node, **attrs: object) -> str:
        """Add a node with one output of a fresh name, for a rewrite of node `like`."""
        name = self.fresh(like.outputs[0])
        return self.add(op, inputs, (name,), attrs, like.name)[0]  # type: ignore[arg-type]

    def number(self, array: Array, like: Node, dtype: str | None = None) -> str:
        """Add a constant of a fresh name, or return an equal one."""
        return self._constant(Weight.of(array, dtype), like)

    def ints(self, values: Sequence[int], like: Node) -> str:
        """Add a vector of int64, such as a shape, or return an equal constant; dims stay dims."""
        vector = Weight.of(np.array(values, np.int64).reshape(-1))
        if dims_in(values):
            vector = vector.with_dims(vector.shape, values)
        return self._constant(vector, like)

    def maker(self, name: str, *ops: str) -> Node | None:
        """Return the node that computes a value, if it is one of these operators."""
        node = self.producers.get(name)
        return node if node is not None and (not ops or node.op in ops) else None

    def sole(self, name: str) -> bool:
        """Return True if one node reads the value, and no output of the graph is this value.

        A node that a rule has replaced counts as a reader until the pass `dead` removes it.
        """
        every = (name, *self._names.get(name, ()))
        if any(one in self.before.wanted for one in every):
            return False
        return sum(len(self.before.readers.get(one, ())) for one in every) == 1

    def known(self, name: str) -> Array | None:
        """Return the values of a constant, None if they are not at hand, or depend on dims."""
        weight = self.weights.get(name)
        return None if weight is None or not is_known(weight) else weight.array

    def extents(self, name: str) -> tuple[int, ...] | None:
        """Return the integers of a constant, dims as they are; None if it is not at hand."""
        if name in self.weights and self.weights[name].sizes:
            return self.weights[name].sizes
        array = self.known(name)
        return None if array is None else tuple(array.reshape(-1).tolist())

    def scalar(self, name: str) -> float | None:
        """Return the number that all elements of a constant equal; None if there is no such.

        Constants of more than SCALAR_ELEMENTS elements and of bfloat16 are not searched.
        """
        weight = self.weights.get(name)
        if weight is None or weight.dims or weight.dtype in ("bfloat16", "bool"):
            return None
        if not 0 < weight.elements <= SCALAR_ELEMENTS or weight.load is None:
            return None
        array = weight.array
        first = array.reshape(-1)[0]
        return first.item() if bool(np.all(array == first)) else None

    def shape(self, name: str) -> tuple[int, ...]:
        """Return the shape of a value in numbers."""
        return self.values[name].fixed_shape

    def _constant(self, weight: Weight, like: Node) -> str:
        name = self._digests.get(weight.digest)
        if name is None:
            name = self.weight(self.fresh(like.outputs[0]), weight)
            self._digests[weight.digest] = name
        return name


Rule = Callable[[Node, Rewriter], Sequence[str] | None]


def rewrite_nodes(graph: Graph, rule: Rule) -> Rewritten:
    """Return the graph with a rule tried at every node whose first output is read, in order."""
    rewriter = Rewriter(graph)
    sites = 0
    for old in graph.nodes:
        inputs = tuple(map(rewriter.now, old.inputs))
        node = old if inputs == old.inputs else replace(old, inputs=inputs)
        found = rule(node, rewriter) if node.outputs[0] else None
        if found is None:
            rewriter.keep(node)
            continue
        sites += 1
        for name, new in zip(node.outputs, found, strict=True):
            rewriter.stand(name, new)
    if not sites:
        return Rewritten(graph, 0)
    for output in graph.outputs:
        rewriter.output(output.name, rewriter.now(output.value))
    return Rewritten(rewriter.graph(), sites)
