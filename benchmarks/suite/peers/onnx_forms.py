"""The forms as ONNX models, for ONNX Runtime and OpenVINO."""

from typing import Any, assert_never

import numpy as np

from benchmarks.suite import forms
from benchmarks.suite.peers.common import Job, Unfit, module

OPSET = 20
IR_VERSION = 9
OUTPUT = "Y"


class Graph:
    """A model under construction."""

    def __init__(self) -> None:
        self.onnx = module("onnx")
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def add(self, kind: str, inputs: list[str], output: str = OUTPUT, **attributes: Any) -> str:
        """Append a node and return the name of its result."""
        self.nodes.append(self.onnx.helper.make_node(kind, inputs, [output], **attributes))
        return output

    def constant(self, name: str, values: Any) -> str:
        """Append a constant and return its name."""
        self.initializers.append(self.onnx.numpy_helper.from_array(np.asarray(values), name))
        return name


def model(job: Job, constant_weights: bool) -> tuple[bytes, list[str]]:
    """Return the model and the names of the inputs that are given at run time.

    Raises:
        Unfit: ONNX cannot express the form.
    """
    graph, form = Graph(), job.form
    _build(graph, form)
    late = []
    for given in form.inputs:
        if given.weight and constant_weights:
            graph.constant(given.name, job.given[given.name])
        else:
            late.append(given.name)
    helper = graph.onnx.helper
    kind = graph.onnx.TensorProto.FLOAT
    shapes = {given.name: given.shape for given in form.inputs}
    inputs = [helper.make_tensor_value_info(name, kind, shapes[name]) for name in late]
    output = helper.make_tensor_value_info(OUTPUT, kind, form.output)
    made = helper.make_graph(graph.nodes, "form", inputs, [output], graph.initializers)
    opset = helper.make_opsetid("", OPSET)
    whole = helper.make_model(made, opset_imports=[opset], ir_version=IR_VERSION)
    return whole.SerializeToString(), late


def _build(graph: Graph, form: forms.Form) -> None:  # noqa: C901 -- one case per form
    match form:
        case forms.Matmul() | forms.BatchMatmul():
            graph.add("MatMul", ["A", "B"])
        case forms.Conv():
            _conv(graph, form)
        case forms.TransposedConv():
            graph.add(
                "ConvTranspose", ["X", "W"], kernel_shape=[form.kernel] * 2,
                strides=[form.stride] * 2, pads=[form.padding] * 4,
            )  # fmt: skip
        case forms.Capsule():
            _capsules(graph, form)
        case forms.Norm():
            graph.add("ReduceL2", ["X", graph.constant("axes", np.array([1, 2]))], keepdims=0)
        case forms.TransposedBatchMatmul():
            query = graph.add("Transpose", ["query"], "q", perm=[0, 2, 1, 3])
            value = graph.add("Transpose", ["value"], "v", perm=[0, 2, 3, 1])
            graph.add("MatMul", [query, value])
        case forms.Softmax():
            graph.add("Softmax", ["X"], axis=1)
        case forms.LayerNorm():
            graph.add("LayerNormalization", ["X", "scale", "shift"], axis=1, epsilon=forms.EPSILON)
        case forms.MatmulGelu():
            product = graph.add("MatMul", ["A", "B"], "product")
            graph.add("Gelu", [graph.add("Add", [product, "bias"], "biased")])
        case forms.Attention():
            _attention(graph, form)
        case forms.Elementwise():
            bent = graph.add("Relu", [graph.add("Add", ["A", "B"], "total")], "bent")
            graph.add("Mul", [bent, "C"])
        case forms.SumOf():
            axes = graph.constant("axes", np.array([form.axis]))
            graph.add("ReduceSum", ["X", axes], keepdims=0)
        case forms.MaxPool():
            graph.add("MaxPool", ["X"], kernel_shape=[2, 2], strides=[2, 2])
        case _:
            assert_never(form)


def _conv(graph: Graph, form: forms.Conv) -> None:
    if form.nhwc:
        raise Unfit("ONNX convolutions are NCHW")
    how: dict[str, Any] = {
        "kernel_shape": [form.kernel] * form.rank, "strides": [form.stride] * form.rank,
        "pads": [form.padding] * 2 * form.rank, "dilations": [form.dilation] * form.rank,
        "group": form.groups,
    }  # fmt: skip
    if not form.layer:
        graph.add("Conv", ["X", "W"], **how)
        return
    product = graph.add("Conv", ["X", "W"], "product", **how)
    mean = graph.constant("mean", np.zeros(form.outputs, np.float32))
    variance = graph.constant("variance", np.ones(form.outputs, np.float32))
    given = [product, "scale", "shift", mean, variance]
    graph.add("Relu", [graph.add("BatchNormalization", given, "normal", epsilon=0.0)])


def _capsules(graph: Graph, form: forms.Capsule) -> None:
    """One conv2d: rows of a capsule are batch, columns and channels are inputs."""
    n, c, k, size, at = form.batch, form.capsule, form.kernel, form.size, form.extent
    inner = c * form.channels

    def shaped(name: str, source: str, *shape: int) -> str:
        return graph.add("Reshape", [source, graph.constant(f"{name}_shape", shape)], name)

    turned = graph.add("Transpose", ["X"], "x_turned", perm=[0, 3, 4, 5, 1, 2])
    data = shaped("x_flat", turned, n * c, inner, size, size)
    turned = graph.add("Transpose", ["W"], "w_turned", perm=[3, 5, 2, 4, 0, 1])
    weights = shaped("w_flat", turned, c * form.outputs, inner, k, k)
    product = graph.add(
        "Conv", [data, weights], "product", kernel_shape=[k, k], strides=[form.stride] * 2,
        pads=[form.padding] * 4,
    )  # fmt: skip
    parts = shaped("parts", product, n, c, c, form.outputs, at, at)
    graph.add("Transpose", [parts], perm=[0, 4, 5, 1, 2, 3])


def _attention(graph: Graph, form: forms.Attention) -> None:
    keys = graph.add("Transpose", ["K"], "keys", perm=[1, 0])
    scores = graph.add("MatMul", ["Q", keys], "scores")
    factor = graph.constant("factor", np.float32(form.width**-0.5))
    scaled = graph.add("Mul", [scores, factor], "scaled")
    graph.add("MatMul", [graph.add("Softmax", [scaled], "shares", axis=1), "V"])
