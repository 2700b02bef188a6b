"""Small models of ONNX, built here."""

from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper, save


def small(path: Path, node: str = "Relu", seed: int = 0) -> Path:
    """Write a convolution, a node and a product, over a symbolic batch; return the path."""
    rng = np.random.default_rng(seed)
    weights = {
        "w": rng.uniform(-0.2, 0.2, (8, 3, 3, 3)).astype(np.float32),
        "head": rng.uniform(-1, 1, (8, 5)).astype(np.float32),
    }
    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["c"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node(node, ["c"], ["r"], "act"),
            helper.make_node("GlobalAveragePool", ["r"], ["p"]),
            helper.make_node("Flatten", ["p"], ["f"]),
            helper.make_node("MatMul", ["f", "head"], ["y"]),
        ],
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 5])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model: ModelProto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    save(model, path)
    return path
