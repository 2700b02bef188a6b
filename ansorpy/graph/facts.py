"""Facts about one node for the partition, from its tensor expressions.

No table of operators: a fact follows from the expressions by the predicates of `te.analysis`,
the same that the rules of the derivation use.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod

from ansorpy.expr.affine import linear
from ansorpy.expr.expr import Call, Const, Read, Select, variables, walk
from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.lower import NodeTensors, lowered
from ansorpy.te.analysis import (
    Answer,
    access,
    common_outer,
    needs_tiling,
    no,
    permutes,
    strictly_inlineable,
    yes,
)
from ansorpy.te.analysis.flops import OPERATORS
from ansorpy.te.dag import Compute, Dag, Placeholder

KEY_ELEMENTS = 256  # elements; the values of larger weights decide no expression


@dataclass(frozen=True)
class NodeFacts:
    """One node as a Dag.

    Args:
        dag: of all outputs of the node.
        operands: the placeholder of each input of the node, "" if no expression reads it.
    """

    dag: Dag
    operands: tuple[str, ...]

    @cached_property
    def tiled(self) -> Answer:
        """True if a compute node reduces and needs tiling."""
        for node in self.dag.computes:
            if node.reduce_axes and (answer := needs_tiling(node)):
                return answer
        return no("no reduction reuses an operand")

    @cached_property
    def reductions(self) -> int:
        """The number of compute nodes that reduce."""
        return sum(bool(node.reduce_axes) for node in self.dag.computes)

    @cached_property
    def inlineable(self) -> Answer:
        """True if recomputing the node at each read adds no cost and moves no data."""
        for node in self.dag.computes:
            if node.reduce_axes:
                return no("it reduces")
            if not (answer := strictly_inlineable(node)):
                return answer
        return yes("it costs nothing to recompute")

    @cached_property
    def calls(self) -> bool:
        """True if a function is evaluated, which takes longer than an operator."""
        return any(
            isinstance(expr, Call) and expr.fn not in OPERATORS
            for node in self.dag.computes
            for body in node.body
            for expr in walk(body)
        )

    @cached_property
    def transpose(self) -> Answer:
        """True if the node is one transpose."""
        if len(self.dag.computes) != 1:
            return no("it is not a transpose")
        return permutes(self.dag.computes[0])

    @cached_property
    def padding(self) -> Answer:
        """True if the node copies a tensor into a larger one filled with a number."""
        (node, *others) = self.dag.computes
        body = node.body[0]
        if others or not isinstance(body, Select) or not isinstance(body.other, Const):
            return no("it does not pad")
        if isinstance(body.then, Read) and access(node, body.then).one_to_one:
            return yes("it pads")
        return no("it does not pad")

    @cached_property
    def runs(self) -> tuple[tuple[int, int], ...] | None:
        """The operand of each output, and the element of it from which on the output is its copy.

        None unless every output is a run of consecutive elements of an operand.
        """
        runs = []
        nodes = {node.name: node for node in self.dag.computes}
        if nodes.keys() != set(self.dag.outputs):
            return None
        for name in self.dag.outputs:
            (body, *others) = nodes[name].body
            if others or nodes[name].reduce_axes or not isinstance(body, Read):
                return None
            begin = self._begin(nodes[name], body)
            if begin is None or body.tensor not in self.operands:
                return None
            runs.append((self.operands.index(body.tensor), begin))
        return tuple(runs)

    def _begin(self, node: Compute, read: Read) -> int | None:
        """Return the first element that a copy reads; None if it does not read a run."""
        taken: dict[str, int] = {}
        begin = 0
        for index, stride in zip(
            read.indices, _strides(self.dag.node(read.tensor).shape), strict=True
        ):
            form = linear(index)
            if form is None:
                return None
            begin += stride * form[0]
            for name, coef in form[1].items():
                taken[name] = taken.get(name, 0) + stride * coef
        for axis, stride in zip(node.axes, _strides(node.shape), strict=True):
            if axis.extent > 1 and taken.get(axis.name, 0) != stride:
                return None
        return begin

    def reads(self, position: int) -> Iterator[tuple[Compute, Read]]:
        """Yield the reads of an input, each with the compute node that it stands in."""
        for node in self.dag.computes:
            for read in node.reads:
                if read.tensor == self.operands[position]:
                    yield node, read

    def one_to_one(self, position: int) -> Answer:
        """Return if each element of every result takes the same element of an input only."""
        if self.reductions:
            return no("it reduces")
        todo, seen = [self.operands[position]], set[str]()
        while todo:
            producer = todo.pop()
            shape = self.dag.node(producer).shape
            for name in self.dag.consumers[producer]:
                node = self.dag.node(name)
                assert isinstance(node, Compute)  # only compute nodes read
                if node.shape != shape:
                    return no(f"it has shape {list(node.shape)}, not {list(shape)}")
                for read in node.reads:
                    fits = access(node, read).one_to_one
                    if read.tensor == producer and not fits:
                        return no("it takes elements in another order")
                if name not in seen:
                    seen.add(name)
                    todo.append(name)
        return yes("it takes elements one to one")

    def takes_once(self, position: int) -> bool:
        """Return True if no element of an input is read at two points, or behind a reduction."""
        elements = prod(self.dag.node(self.operands[position]).shape)
        found: dict[str, set[Read]] = {}
        for node, read in self.reads(position):
            found.setdefault(node.name, set()).add(read)
            if node.points > elements:
                return False
        return not self.reductions and all(len(reads) == 1 for reads in found.values())

    def plain(self, position: int) -> Answer:
        """Return if every read of an input is at axes ± constants, in order: no windows."""
        for node, read in self.reads(position):
            order = [axis.name for axis in (*node.axes, *node.reduce_axes)]
            taken = []
            for index in read.indices:
                form = linear(index)
                if form is None or list(form[1].values()) not in ([], [1]):
                    return no("it reads windows, or computed places")
                taken += [name for name in form[1] if name in order]
            kept = [name for name in taken if name not in {a.name for a in node.reduce_axes}]
            if len(set(taken)) < len(taken) or kept != sorted(kept, key=order.index):
                return no("it reads in another order")
        return yes("it reads at its axes")

    def shares(self, position: int) -> bool:
        """Return True if the results have leading axes of an input, or the input is one element."""
        shape = self.dag.node(self.operands[position]).shape
        if prod(shape) == 1:
            return True
        return all(
            common_outer(self.dag, self.operands[position], name).count for name in self.dag.outputs
        )

    def repeats(self, position: int) -> bool:
        """Return True if an element of an input is read again after others were.

        It is not if the axes without an index in the read come last: then one element serves a
        whole inner loop.
        """
        for node, read in self.reads(position):
            used = frozenset[str]().union(*map(variables, read.indices))
            wide = [axis.name in used for axis in node.axes if axis.extent > 1]
            if any(not here and later for here, later in pairwise(wide)):
                return True
        return False


def _strides(shape: Sequence[int]) -> list[int]:
    """Return the elements between neighbours along each axis, in row-major order."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


class NodeFactsOf:
    """Facts of the nodes of a graph; nodes of equal expressions share them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[object, NodeFacts | None] = {}

    def __call__(self, node: Node) -> NodeFacts | None:
        """Return the facts of a node; None if it changes nothing.

        Raises:
            GraphError: the operator does not take its operands.
        """
        key = self._key(node)
        if key not in self._known:
            self._known[key] = self._facts(node)
        return self._known[key]

    def _facts(self, node: Node) -> NodeFacts | None:
        built = NodeTensors(self._graph)
        built.add(node)
        outputs = [
            name
            for name in node.outputs
            if name in built.tensors and not isinstance(built.tensors[name].draft.node, Placeholder)
        ]
        if not outputs:
            return None
        made = lowered(built, outputs)
        names = {
            value: one.name for value, one in zip(made.reads, made.dag.placeholders, strict=True)
        }
        return NodeFacts(made.dag, tuple(names.get(value, "") for value in node.inputs))

    def _key(self, node: Node) -> object:
        operands = []
        for name in node.inputs:
            weight = self._graph.weights.get(name)
            small = weight is not None and weight.elements <= KEY_ELEMENTS
            info = self._graph.values.get(name)
            operands.append(
                (
                    node.inputs.index(name),
                    None if info is None else (info.shape, info.dtype),
                    weight is not None,
                    weight.digest if small and weight is not None else "",
                )
            )
        return (
            node.op,
            repr(sorted(node.attrs.items())),
            tuple(operands),
            tuple(map(bool, node.outputs)),
        )
