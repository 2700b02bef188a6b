"""A graph of library operators as an ONNX model whose constant inputs are initialisers."""

import onnx

from ansorpy.graph.graph import Graph
from ansorpy.importers.onnx_write import model_of_graph


def model_bytes(graph: Graph, constant: frozenset[str]) -> bytes:
    """Return the model as a file; the values of constant inputs are given to its session.

    Raises:
        GraphError: an operator has no form in ONNX.
    """
    model = model_of_graph(graph)
    late = [value for value in model.graph.input if value.name not in constant]
    for value in model.graph.input:
        if value.name not in constant:
            continue
        tensor = model.graph.initializer.add(
            name=value.name,
            data_type=value.type.tensor_type.elem_type,
            data_location=onnx.TensorProto.EXTERNAL,
        )
        tensor.dims.extend(one.dim_value for one in value.type.tensor_type.shape.dim)
        tensor.external_data.add(key="location", value=value.name)
    del model.graph.input[:]
    model.graph.input.extend(late)
    found: bytes = model.SerializeToString()
    return found
