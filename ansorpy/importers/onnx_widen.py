"""Models of float16 and bfloat16 as models of float32, for programs that lack narrow dtypes."""

from typing import Final

import numpy as np
import onnx
from onnx import TensorProto

from ansorpy.expr.dtypes import NARROW
from ansorpy.importers.onnx_bodies import graphs_of, nodes_of
from ansorpy.importers.onnx_values import CODES

NARROW_CODES: Final = frozenset(CODES[dtype] for dtype in NARROW)
_CODES: Final = ("to", "dtype", "output_dtype", "stash_type", "softmax_precision")


def narrow_codes(model: onnx.ModelProto) -> set[int]:
    """Return the codes of float16 and bfloat16 that a model stores or computes in."""
    codes: set[int] = set()
    for graph in graphs_of(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            codes.add(value.type.tensor_type.elem_type)
        codes |= {tensor.data_type for tensor in graph.initializer}
    for node in nodes_of(model):
        for one in node.attribute:
            codes |= {one.i} if one.name in _CODES else set()
            codes |= {one.t.data_type} if one.type == onnx.AttributeProto.TENSOR else set()
    return codes & NARROW_CODES


def widen(model: onnx.ModelProto) -> None:
    """Replace float16 and bfloat16 by float32 everywhere in a model; values stay as they are.

    Results are not rounded to the narrow dtypes between nodes any more.
    """
    for graph in graphs_of(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            _widen_type(value)
        for tensor in graph.initializer:
            _widen_tensor(tensor)
    for function in model.functions:
        for value in function.value_info:
            _widen_type(value)
    for node in nodes_of(model):
        for one in node.attribute:
            if one.name in _CODES and one.i in NARROW_CODES:
                one.i = TensorProto.FLOAT
            if one.type == onnx.AttributeProto.TENSOR:
                _widen_tensor(one.t)


def _widen_type(value: onnx.ValueInfoProto) -> None:
    if value.type.tensor_type.elem_type in NARROW_CODES:
        value.type.tensor_type.elem_type = TensorProto.FLOAT


def _widen_tensor(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in NARROW_CODES:
        wide = onnx.numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(onnx.numpy_helper.from_array(wide, tensor.name))
