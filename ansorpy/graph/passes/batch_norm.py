"""Batch norm, and other scales and shifts of channels: into the weights of the product before."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ansorpy.graph.graph import Array, Graph, Node
from ansorpy.graph.passes.rewriter import Rewriter, Rewritten, rewrite_nodes

_PRODUCTS = ("Conv", "ConvTranspose", "Gemm")
_ARITHMETIC = ("Add", "Sub", "Mul", "Div")


def batch_norm(graph: Graph) -> Rewritten:
    """Move a constant scale and shift of channels into the weights and bias before it.

    Condition    y = x * scale + shift with constants per channel (axis 1) of float32 or float64:
                 BatchNormalization in inference; Add, Sub, Mul, Div by a constant
    Rewrite      x is computed by Conv, ConvTranspose or Gemm with constant weights, and is read
                 by y alone: the weights are multiplied by the scale, the bias becomes
                 bias * scale + shift. Otherwise BatchNormalization -> Mul, Add
    Not handled  statistics of the batch itself; float16 and bfloat16, whose new weights would be
                 less exact; weights that become infinite; a normalisation before the product
    Rounding     new weights are rounded once: the result moves by some 2^-24 of the sum of
                 |weight * x| * |scale|, as a sum in another order does
    Source       Jacob et al., Quantization and training of neural networks, CVPR 2018, section 3.2
    """
    return rewrite_nodes(graph, _rule)


@dataclass(frozen=True, slots=True)
class _Affine:
    """The map x -> x * scale + shift per channel, in float64."""

    source: str
    scale: Array
    shift: Array


def _rule(node: Node, at: Rewriter) -> Sequence[str] | None:
    result = at.before.values[node.outputs[0]]
    if result.dtype not in ("float32", "float64") or any(node.outputs[1:]):
        return None
    found = _affine(node, at, result.fixed_shape)
    if found is None:
        return None
    with np.errstate(all="ignore"):
        return _into_product(node, at, found) or _spelt_out(node, at, found)


def _affine(node: Node, at: Rewriter, shape: tuple[int, ...]) -> _Affine | None:
    """Return the map that a node applies per channel of axis 1."""
    if node.op == "BatchNormalization":
        vectors = [at.known(name) for name in node.inputs[1:5]]
        if node.attrs.get("training_mode") or len(shape) < 2:
            return None
        wide = [one.astype(np.float64) for one in vectors if one is not None]
        if len(wide) < 4:
            return None
        gamma, beta, mean, variance = wide
        epsilon = node.attrs.get("epsilon", 1e-5)
        assert isinstance(epsilon, float | int)
        with np.errstate(all="ignore"):
            scale = gamma / np.sqrt(variance + epsilon)
            return _Affine(node.inputs[0], scale, beta - mean * scale)
    if node.op not in _ARITHMETIC or not at.maker(node.inputs[0], *_PRODUCTS):
        if node.op not in ("Add", "Mul") or not at.maker(node.inputs[1], *_PRODUCTS):
            return None
        node_inputs = node.inputs[::-1]
    else:
        node_inputs = node.inputs
    constant = _per_channel(node_inputs[1], at, shape)
    if constant is None or at.shape(node_inputs[0]) != shape:
        return None
    one, zero = np.ones_like(constant), np.zeros_like(constant)
    with np.errstate(all="ignore"):
        scale, shift = {
            "Add": (one, constant), "Sub": (one, -constant), "Mul": (constant, zero),
            "Div": (1 / constant, zero),
        }[node.op]  # fmt: skip
    return _Affine(node_inputs[0], scale, shift)


def _per_channel(name: str, at: Rewriter, shape: tuple[int, ...]) -> Array | None:
    """Return a constant as a vector over axis 1 in float64, if it varies along no other axis."""
    array = at.known(name)
    if array is None or array.ndim > len(shape) or len(shape) < 2:
        return None
    aligned = array.reshape((1,) * (len(shape) - array.ndim) + array.shape)
    if any(extent != 1 for axis, extent in enumerate(aligned.shape) if axis != 1):
        return None
    return np.broadcast_to(aligned.reshape(-1).astype(np.float64), (shape[1],))


def _into_product(node: Node, at: Rewriter, by: _Affine) -> Sequence[str] | None:
    product = at.maker(by.source, *_PRODUCTS)
    if product is None or not at.sole(by.source):
        return None
    weight = at.known(product.inputs[1])
    biased = len(product.inputs) > 2 and product.inputs[2] != ""
    bias = at.known(product.inputs[2]) if biased else np.zeros(1)
    if weight is None or bias is None:
        return None
    attrs = dict(product.attrs)
    old = bias.astype(np.float64)
    if product.op == "Gemm":
        beta = attrs.pop("beta", 1.0)
        assert isinstance(beta, float | int)
        old = old * beta
        scale = by.scale[:, None] if attrs.get("transB", 0) else by.scale
    elif product.op == "Conv":
        scale = by.scale.reshape(-1, *[1] * (weight.ndim - 1))
    else:
        scale = _of_transposed(weight, by.scale, attrs.get("group", 1))
    dtype = at.values[by.source].dtype
    made = (weight * scale).astype(dtype)
    shift = (old * by.scale + by.shift).astype(dtype)
    if not (np.all(np.isfinite(made)) and np.all(np.isfinite(shift))):
        return None
    inputs = product.inputs[0], at.number(made, node), at.number(shift, node)
    return at.add(product.op, inputs, node.outputs, attrs, product.name)


def _of_transposed(weight: Array, scale: Array, groups: object) -> Array:
    """Return a scale of output channels for a weight [inputs, outputs / groups, ...]."""
    assert isinstance(groups, int)
    per_group = scale.reshape(groups, 1, -1)
    wide = np.broadcast_to(per_group, (groups, weight.shape[0] // groups, per_group.shape[2]))
    return wide.reshape(*weight.shape[:2], *[1] * (weight.ndim - 2))


def _spelt_out(node: Node, at: Rewriter, by: _Affine) -> Sequence[str] | None:
    if node.op != "BatchNormalization":
        return None
    value = at.before.values[node.outputs[0]]
    rest = [1] * (len(value.shape) - 2)
    scale, shift = (
        one.astype(value.dtype).reshape(-1, *rest) for one in (by.scale, by.shift)
    )  # fmt: skip
    if not (np.all(np.isfinite(scale)) and np.all(np.isfinite(shift))):
        return None
    scaled = at.new("Mul", (by.source, at.number(scale, node)), node)
    return at.add("Add", (scaled, at.number(shift, node)), node.outputs, None, node.name)
