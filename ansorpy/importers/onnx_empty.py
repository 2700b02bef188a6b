"""Nodes with tensors without elements, such as the cache at the first step of a decoder.

No tensor expression has such an operand. The result has no elements either, then it is a constant;
or it is the neutral element of a sum over nothing; or the operand does not matter.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import onnx

from ansorpy.expr.dtypes import FLOATS
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Symbol
from ansorpy.importers.onnx_values import CODES, KEPT_VALUES, KINDS, tensor_of
from ansorpy.te.tensor_data import storage

# The element that remains of a reduction over nothing, by the text of the operators.
NEUTRAL: Final[Mapping[str, float]] = {
    "MatMul": 0, "MatMulInteger": 0, "Einsum": 0, "ReduceSum": 0, "ReduceSumSquare": 0,
    "ReduceL1": 0, "ReduceL2": 0, "ReduceProd": 1, "ReduceMax": -np.inf, "ReduceMin": np.inf,
    "ReduceLogSum": -np.inf, "ReduceLogSumExp": -np.inf,
}  # fmt: skip
UNCHANGED: Final = ("ScatterND", "ScatterElements")  # without updates: the data


def empty(shape: Sequence[int], dtype: str) -> tuple[Array, str]:
    """Return an array as constants have it, and its dtype."""
    return np.zeros(shape, storage(dtype)), dtype


def without_elements(
    builder: GraphBuilder,
    node: onnx.NodeProto,
    inputs: Sequence[str],
    outputs: Sequence[str],
    opset: int,
) -> list[str] | None:
    """Return the values of a node of which an operand or all results have no elements.

    None for another node, and for an operator with another meaning.

    Args:
        inputs, outputs: names in the graph; outputs are defined under theirs.
    """
    facts = _inferred(builder, node, inputs, opset)
    if facts is None or len(facts) < len(outputs):
        return None
    if all(0 in shape for shape, _ in facts):
        for name, fact in zip(outputs, facts, strict=False):
            if name:
                builder.constant(name, *empty(*fact))
        return list(outputs)
    if not any(0 in builder.values[name].shape for name in inputs if name):
        return None
    if node.op_type in UNCHANGED:
        return [inputs[0]]
    (shape, dtype), name = facts[0], outputs[0]
    if node.op_type == "Gemm" and len(inputs) > 2:
        beta = next((one.f for one in node.attribute if one.name == "beta"), 1.0)
        sizes = builder.constant(f"{name}.shape", np.array(shape))
        factor = builder.constant(f"{name}.beta", np.array(beta).astype(storage(dtype)))
        wide = builder.add("Expand", [inputs[2], sizes], [f"{name}.wide"])[0]
        return list(builder.add("Mul", [wide, factor], [name]))
    filled = _filled(builder, node.op_type, inputs, dtype)
    if filled is None:
        return None
    return [builder.constant(name, np.full(shape, filled, storage(dtype)), dtype)]


def _filled(
    builder: GraphBuilder, op: str, inputs: Sequence[str], dtype: str
) -> Array | float | None:
    """Return the element that all elements of a result equal; None if there is no such."""
    if op == "Gemm":
        return 0
    if op == "Pad":
        weight = builder.weights.get(inputs[2]) if len(inputs) > 2 and inputs[2] else None
        return 0 if weight is None else weight.array.reshape(-1)[0]
    found = NEUTRAL.get(op)
    if found is None or dtype in FLOATS:
        return found if found is None or np.isfinite(found) or dtype != "bfloat16" else None
    info = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    return float(found) if np.isfinite(found) else info[found > 0]


def _inferred(
    builder: GraphBuilder, node: onnx.NodeProto, inputs: Sequence[str], opset: int
) -> list[tuple[tuple[int, ...], str]] | None:
    """Return the shapes and dtypes of the outputs by the rules of ONNX; None if it has none."""
    types, data = {}, {}
    for formal, name in zip(node.input, inputs, strict=False):
        if not name:
            continue
        value, weight = builder.values[name], builder.weights.get(name)
        if any(isinstance(one, Symbol) for one in value.shape):
            return None
        types[formal] = onnx.helper.make_tensor_type_proto(CODES[value.dtype], value.fixed_shape)
        if weight is not None and weight.load is not None and weight.elements <= KEPT_VALUES:
            data[formal] = tensor_of(formal, weight)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, "")
        results = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=[onnx.helper.make_opsetid("", opset)]
        )
    except (
        onnx.defs.SchemaError, onnx.checker.ValidationError, onnx.shape_inference.InferenceError,
        KeyError, RuntimeError, ValueError,
    ):  # fmt: skip
        return None
    facts = []
    for name in node.output:
        kind = results[name].tensor_type if name in results else None
        if kind is None or not kind.HasField("shape") or kind.elem_type not in KINDS:
            return None
        if not all(one.HasField("dim_value") for one in kind.shape.dim):
            return None
        facts.append((tuple(one.dim_value for one in kind.shape.dim), KINDS[kind.elem_type]))
    return facts
