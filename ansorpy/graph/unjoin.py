"""Axes that join a dim with other extents are axes of their own.

An exporter makes one axis of batch and length, or of batch and heads, for a product of matrices,
and two of it again. Memory is laid out for the largest sizes, where such an axis would have gaps.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from math import prod
from typing import Final, NoReturn

from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.operator import no_dim, operator_of
from ansorpy.graph.passes.rewriter import Rewriter
from ansorpy.graph.passes.transposes import SEVERAL, UNARY
from ansorpy.graph.passes.views import permutation
from ansorpy.te.dims import Dim, dims_in

LAST_AXES: Final = ("LayerNormalization", "RMSNormalization")
ONE_AXIS: Final = ("Softmax", "LogSoftmax")


@dataclass(frozen=True, slots=True)
class JoinedExtent:
    """The product of dims and of a number, in an order that the sizes do not tell."""

    dims: tuple[Dim, ...]
    factor: int

    def __str__(self) -> str:
        factor = [str(self.factor)] if self.factor > 1 else []
        return " * ".join([*factor, *(one.name for one in self.dims)])


Shape = tuple[int | JoinedExtent, ...]
Axis = tuple[int, ...]  # the extents that an axis joins, outermost first


def unjoined(graph: Graph, joined: Mapping[str, Shape]) -> Graph:
    """Return a graph without joined axes.

    Rewrite      a value with an axis of B * 12 has axes of B and 12; a Reshape that joins or
                 divides them is none, or one of numbers alone; transposes, element-by-element
                 nodes, products of matrices, softmax and layer norm take the axes apart
    Not handled  other operators; a dim twice in one axis; an axis that a product sums over

    Args:
        joined: the shapes of values with joined axes, by name.

    Raises:
        GraphError: another operator reads such a value, or it is a result of the model.
    """
    return _Unjoin(graph, joined, Rewriter(graph)).run()


@dataclass
class _Unjoin:
    """The new graph so far, and the axes of the values with joined axes, by their old names."""

    graph: Graph
    joined: Mapping[str, Shape]
    at: Rewriter
    parts: dict[str, tuple[Axis, ...]] = field(default_factory=dict)

    def run(self) -> Graph:
        """Return the new graph."""
        at = self.at
        for old in self.graph.nodes:
            node = replace(old, inputs=tuple(map(at.now, old.inputs)))
            axes = [self._axes(name) for name in old.inputs]
            if not self.joined.keys() & {*old.inputs, *old.outputs}:
                at.keep(node)
                continue
            if len(old.outputs) > 1:
                self._refuse(old, axes)
            made, apart = self._apart(node, axes)
            at.stand(old.outputs[0], made)
            if any(len(axis) > 1 for axis in apart):
                self.parts[old.outputs[0]] = apart
        for output in self.graph.outputs:
            if output.value in self.parts:
                raise no_dim(
                    self.graph.producers[output.value],
                    _joined_dims(self.parts[output.value]),
                    f"the model returns its result of {self._shown(output.value)}",
                )
            at.output(output.name, at.now(output.value))
        return at.graph()

    def _axes(self, name: str) -> tuple[Axis, ...]:
        if not name:
            return ()
        if name in self.parts:
            return self.parts[name]
        return tuple((extent,) for extent in self.graph.values[name].fixed_shape)

    def _apart(self, node: Node, axes: Sequence[tuple[Axis, ...]]) -> tuple[str, tuple[Axis, ...]]:
        """Add a node with its axes apart; return its result and its axes."""
        if operator_of(node).view:
            return self._view(node, axes)
        by_op: Callable[[Node, Sequence[tuple[Axis, ...]]], tuple[str, tuple[Axis, ...]]]
        if node.op in UNARY or node.op in SEVERAL:
            by_op = self._elementwise
        elif node.op in ONE_AXIS or node.op in LAST_AXES:
            by_op = self._along
        else:
            known = {"Transpose": self._transpose, "MatMul": self._matmul, "Gemm": self._gemm}
            by_op = known.get(node.op, self._refuse)
        return by_op(node, axes)

    def _view(self, node: Node, axes: Sequence[tuple[Axis, ...]]) -> tuple[str, tuple[Axis, ...]]:
        name = node.outputs[0]
        wanted = self.joined.get(name) or self.graph.values[name].fixed_shape
        apart = regrouped([*chain.from_iterable(axes[0])], wanted)
        if apart is None:
            self._refuse(node, axes)
        return self._shaped(node.inputs[0], apart, node, node.outputs), apart

    def _transpose(
        self, node: Node, axes: Sequence[tuple[Axis, ...]]
    ) -> tuple[str, tuple[Axis, ...]]:
        order = permutation(node, len(axes[0]))
        begins = [0, *accumulate(map(len, axes[0]))]
        perm = tuple(n for axis in order for n in range(begins[axis], begins[axis + 1]))
        made = self.at.add("Transpose", node.inputs, node.outputs, {"perm": perm}, node.name)
        return made[0], tuple(axes[0][axis] for axis in order)

    def _elementwise(
        self, node: Node, axes: Sequence[tuple[Axis, ...]]
    ) -> tuple[str, tuple[Axis, ...]]:
        apart, inputs = self._aligned(node, axes, node.inputs, 0)
        return self.at.add(node.op, inputs, node.outputs, node.attrs, node.name)[0], apart

    def _along(self, node: Node, axes: Sequence[tuple[Axis, ...]]) -> tuple[str, tuple[Axis, ...]]:
        """Add a node that works along one axis, or along the last ones."""
        first = node.attrs.get("axis", -1)
        assert isinstance(first, int)
        rank = len(axes[0])
        own = axes[0][first % rank :] if node.op in LAST_AXES else [axes[0][first % rank]]
        if any(len(axis) > 1 for axis in own):
            self._refuse(node, axes)
        attrs = {**node.attrs, "axis": sum(map(len, axes[0][: first % rank]))}
        return self.at.add(node.op, node.inputs, node.outputs, attrs, node.name)[0], axes[0]

    def _matmul(self, node: Node, axes: Sequence[tuple[Axis, ...]]) -> tuple[str, tuple[Axis, ...]]:
        a, b = axes
        if min(len(a), len(b)) < 2 or max(len(a[-1]), len(b[-2]), len(b[-1])) > 1:
            self._refuse(node, axes)
        if len(b) == 2:
            made = self.at.add("MatMul", node.inputs, node.outputs, None, node.name)
            return made[0], (*a[:-1], b[-1])
        if len(a[-2]) > 1:
            self._refuse(node, axes)
        apart, inputs = self._aligned(node, axes, node.inputs, 2)
        made = self.at.add("MatMul", inputs, node.outputs, None, node.name)
        return made[0], (*apart, a[-2], b[-1])

    def _gemm(self, node: Node, axes: Sequence[tuple[Axis, ...]]) -> tuple[str, tuple[Axis, ...]]:
        """Add a product of rows that are several axes, and its bias, which has one row."""
        attrs, (a, b, *c) = node.attrs, axes
        scaled = attrs.get("alpha", 1) != 1 or attrs.get("beta", 1) != 1 or attrs.get("transA", 0)
        if scaled or len(a[1]) > 1 or any(len(one) == 2 and one[0] != (1,) for one in c):
            self._refuse(node, axes)
        if any(len(axis) > 1 for one in (b, *c) for axis in one):
            self._refuse(node, axes)
        weights, columns = node.inputs[1], b[1]
        if attrs.get("transB", 0):
            weights, columns = self.at.new("Transpose", (weights,), node, perm=(1, 0)), b[0]
        if not c or not c[0]:
            made = self.at.add("MatMul", (node.inputs[0], weights), node.outputs, None, node.name)
        else:
            product = self.at.new("MatMul", (node.inputs[0], weights), node)
            made = self.at.add("Add", (product, node.inputs[2]), node.outputs, None, node.name)
        return made[0], (a[0], columns)

    def _aligned(
        self, node: Node, axes: Sequence[tuple[Axis, ...]], inputs: Sequence[str], last: int
    ) -> tuple[tuple[Axis, ...], list[str]]:
        """Return the broadcast axes of operands, but for `last` ones, and the operands with them.

        An operand has an axis of extent 1 for each part of an axis along which it is repeated.
        """
        given = [one[: len(one) - last] for one in axes]
        rank = max(map(len, given))
        apart: list[Axis] = []
        for back in range(rank, 0, -1):
            there = {one[-back] for one in given if len(one) >= back and one[-back] != (1,)}
            if len(there) > 1:
                self._refuse(node, axes)
            apart.append(there.pop() if there else (1,))
        names = []
        for name, own, kept in zip(inputs, axes, given, strict=True):
            wide = [
                (1,) * len(whole) if axis == (1,) else axis
                for axis, whole in zip(kept, apart[rank - len(kept) :], strict=True)
            ]
            shaped = (*wide, *own[len(kept) :])
            names.append(self._shaped(name, shaped, node) if name else name)
        return tuple(apart), names

    def _shaped(
        self, name: str, axes: Sequence[Axis], node: Node, outputs: Sequence[str] = ()
    ) -> str:
        """Return a value with these axes, apart: itself, or a Reshape."""
        shape = tuple(chain.from_iterable(axes))
        if self.at.values[name].shape == shape:
            return name
        inputs = name, self.at.ints(shape, node)
        return self.at.add("Reshape", inputs, outputs, None, node.name)[0] if outputs else (
            self.at.new("Reshape", inputs, node)
        )  # fmt: skip

    def _refuse(self, node: Node, axes: Sequence[tuple[Axis, ...]]) -> NoReturn:
        """Raise the error of a node whose axes cannot be apart."""
        dims = _joined_dims(chain.from_iterable(axes))
        if dims:
            raise no_dim(node, dims, "an axis of its operands joins it with other extents")
        shape = self.joined[node.outputs[0]]
        dims = tuple(d for one in shape if isinstance(one, JoinedExtent) for d in one.dims)
        raise no_dim(node, dims, f"its result has {self._shown(node.outputs[0])}")

    def _shown(self, name: str) -> str:
        texts = (str(one.name if isinstance(one, Dim) else one) for one in self.joined[name])
        return f"extents [{', '.join(texts)}]"


def _joined_dims(axes: Iterable[Axis]) -> tuple[Dim, ...]:
    return dims_in(one for axis in axes if len(axis) > 1 for one in axis)


def regrouped(extents: Sequence[int], wanted: Shape) -> tuple[Axis, ...] | None:
    """Return the parts of each extent of a shape, given the extents before a reshape.

    None if an extent would be cut unevenly, or a dim is cut.
    """
    left = [extent for extent in reversed(extents) if extent != 1]
    axes: list[Axis] = []
    for extent in wanted:
        dims = list(extent.dims) if isinstance(extent, JoinedExtent) else [*dims_in((extent,))]
        number = extent.factor if isinstance(extent, JoinedExtent) else 1 if dims else extent
        parts: list[int] = []
        while dims or number > 1:
            part = left.pop() if left else 0
            if isinstance(part, Dim) and part in dims:
                dims.remove(part)
                parts.append(part)
            elif isinstance(part, Dim) or not part or (number % part and part % number):
                return None
            elif number % part == 0:
                parts.append(part)
                number //= part
            elif number > 1:
                parts.append(number)
                left.append(part // number)
                number = 1
            else:
                return None
        axes.append(_numbers_joined(parts) or (1,))
    return None if left else tuple(axes)


def _numbers_joined(parts: Sequence[int]) -> Axis:
    """Return parts with neighbours that are numbers as one."""
    joined: list[int] = []
    for part in parts:
        if joined and not dims_in((part, joined[-1])):
            joined[-1] = prod((joined[-1], part))
        else:
            joined.append(part)
    return tuple(joined)
