"""Convolutions: spatial axes of extent 1 go."""

from collections.abc import Sequence
from typing import Final

from ansorpy.graph.graph import Attribute, Graph, Node, Weight
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes

PER_AXIS: Final = ("kernel_shape", "strides", "dilations")  # attributes with a number per axis


def unit_axes(graph: Graph) -> Rewritten:
    """Drop the spatial axes of a convolution along which nothing is convolved.

    Condition    Conv with known weights; an axis along which data, kernel and result have extent
                 1, beside another spatial axis
    Rewrite      Conv of n axes -> Conv of the other axes, between two Reshapes, which are views
    Not handled  pools; ConvTranspose
    Source       a convolution in one dimension is written as one in two by exporters; vectors
                 along an axis of extent 1 would hold one element
    """
    return rewrite_nodes(graph, _rule)


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    if node.op != "Conv":
        return None
    data, kernel = at.shape(node.inputs[0]), at.shape(node.inputs[1])
    result = at.before.values[node.outputs[0]].fixed_shape
    rank = len(data) - 2
    kept = [n for n in range(rank) if (data[n + 2], kernel[n + 2], result[n + 2]) != (1, 1, 1)]
    kept = kept or [0]
    array = at.known(node.inputs[1])
    if len(kept) == rank or array is None:
        return None
    weight = Weight.of(array.reshape(*kernel[:2], *(kernel[n + 2] for n in kept)))
    if weight.dtype != at.values[node.inputs[1]].dtype:
        return None  # bfloat16, which is held as other bits
    shape = (*data[:2], *(data[n + 2] for n in kept))
    x = at.new("Reshape", (node.inputs[0], at.ints(shape, node)), node)
    w = at.weight(at.fresh(node.inputs[1]), weight)
    attrs = {name: _without(name, value, kept, rank) for name, value in node.attrs.items()}
    y = at.new("Conv", (x, w, *node.inputs[2:]), node, **attrs)
    return at.add("Reshape", (y, at.ints(result, node)), node.outputs, None, node.name)


def _without(name: str, value: Attribute, kept: Sequence[int], rank: int) -> Attribute:
    """Return an attribute without the numbers of the dropped axes."""
    if name in PER_AXIS and isinstance(value, tuple):
        return tuple(int(value[n]) for n in kept)
    if name == "pads" and isinstance(value, tuple):
        return tuple(int(value[n]) for n in (*kept, *(n + rank for n in kept)))
    return value
