"""Small models to try, built with seeded weights."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

SEED: Final = 0
IR_VERSION: Final = 10  # version of the file format, which runtimes of 2024 read
OPSET: Final = 18  # operator set that exporters of PyTorch write

# Sizes of all-MiniLM-L6-v2.
LAYERS: Final = 6
HEADS: Final = 12
HIDDEN: Final = 384
INNER: Final = 1536  # columns of the middle of a feed-forward block
TOKENS: Final = 128

# Output channels of SqueezeNet 1.1: squeeze, and each of both expansions.
FIRES: Final = (
    (16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256),
)  # fmt: skip
POOLED: Final = (2, 4)  # number of fire modules in front of a pooling
CLASSES: Final = 1000


@dataclass(frozen=True, slots=True)
class Example:
    """A model to try.

    Args:
        about: the network and its sizes.
        make: returns the model.
    """

    about: str
    make: "Callable[[], onnx.ModelProto]"


class ModelWriter:
    """The nodes and seeded weights of a model, in order."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(SEED)
        self._nodes: list[onnx.NodeProto] = []
        self._weights: list[onnx.TensorProto] = []

    def node(self, op: str, *inputs: str, **attributes: Any) -> str:
        """Append a node; return the name of its output."""
        from onnx import helper

        name = f"{op.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def weight(self, value: npt.ArrayLike, dtype: type = np.float32) -> str:
        """Return the name of a constant."""
        from onnx import numpy_helper

        name = f"weight_{len(self._weights)}"
        self._weights.append(numpy_helper.from_array(np.asarray(value, dtype), name))
        return name

    def random(self, *shape: int, scale: float, mean: float = 0.0) -> str:
        """Return the name of a constant of normal numbers."""
        return self.weight(mean + scale * self._rng.standard_normal(shape))

    def model(self, name: str, shape: Sequence[int], output: str) -> "onnx.ModelProto":
        """Return the model with the float32 input `x` and one output."""
        from onnx import TensorProto, helper, shape_inference

        given = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
        made = helper.make_tensor_value_info(output, TensorProto.FLOAT, None)
        graph = helper.make_graph(self._nodes, name, [given], [made], self._weights)
        opset = helper.make_opsetid("", OPSET)
        model = helper.make_model(graph, opset_imports=[opset], ir_version=IR_VERSION)
        return shape_inference.infer_shapes(model, strict_mode=True)


def encoder() -> "onnx.ModelProto":
    """Return a transformer encoder in the operators that exporters of PyTorch write."""
    build = ModelWriter()
    x = "x"
    for _ in range(LAYERS):
        x = _normal(build, build.node("Add", _attention(build, x), x))
        inner = _gelu(build, _linear(build, x, HIDDEN, INNER))
        x = _normal(build, build.node("Add", _linear(build, inner, INNER, HIDDEN), x))
    return build.model("encoder", (1, TOKENS, HIDDEN), x)


def _linear(build: ModelWriter, x: str, inputs: int, outputs: int) -> str:
    product = build.node("MatMul", x, build.random(inputs, outputs, scale=inputs**-0.5))
    return build.node("Add", product, build.random(outputs, scale=0.02))


def _attention(build: ModelWriter, x: str) -> str:
    def heads(perm: Sequence[int]) -> str:
        parts = build.node("Reshape", _linear(build, x, HIDDEN, HIDDEN), split)
        return build.node("Transpose", parts, perm=perm)

    split = build.weight([1, TOKENS, HEADS, HIDDEN // HEADS], np.int64)
    query, key, value = heads((0, 2, 1, 3)), heads((0, 2, 3, 1)), heads((0, 2, 1, 3))
    scale = build.weight((HIDDEN // HEADS) ** -0.5)
    scores = build.node("Mul", build.node("MatMul", query, key), scale)
    mixed = build.node("MatMul", build.node("Softmax", scores, axis=-1), value)
    joined = build.node("Transpose", mixed, perm=(0, 2, 1, 3))
    rows = build.node("Reshape", joined, build.weight([1, TOKENS, HIDDEN], np.int64))
    return _linear(build, rows, HIDDEN, HIDDEN)


def _normal(build: ModelWriter, x: str) -> str:
    gain, bias = build.random(HIDDEN, scale=0.1, mean=1.0), build.random(HIDDEN, scale=0.1)
    return build.node("LayerNormalization", x, gain, bias, axis=-1, epsilon=1e-12)


def _gelu(build: ModelWriter, x: str) -> str:
    erf = build.node("Erf", build.node("Div", x, build.weight(2**0.5)))
    product = build.node("Mul", x, build.node("Add", erf, build.weight(1.0)))
    return build.node("Mul", product, build.weight(0.5))


def squeezenet() -> "onnx.ModelProto":
    """Return SqueezeNet 1.1 for images of 224 x 224."""
    build = ModelWriter()
    x, channels = _conv(build, "x", 3, 64, 3, strides=(2, 2)), 64
    x = _pool(build, x)
    for number, (squeezed, expanded) in enumerate(FIRES):
        if number in POOLED:
            x = _pool(build, x)
        x = _conv(build, x, channels, squeezed, 1)
        both = [_conv(build, x, squeezed, expanded, size, pads=(size // 2,) * 4) for size in (1, 3)]
        x, channels = build.node("Concat", *both, axis=1), 2 * expanded
    x = build.node("GlobalAveragePool", _conv(build, x, channels, CLASSES, 1))
    x = build.node("Softmax", build.node("Flatten", x, axis=1), axis=-1)
    return build.model("squeezenet", (1, 3, 224, 224), x)


def _conv(
    build: ModelWriter, x: str, inputs: int, outputs: int, size: int, **attributes: Any
) -> str:
    scale = (2 / (inputs * size * size)) ** 0.5  # keeps the variance through a ReLU
    weight = build.random(outputs, inputs, size, size, scale=scale)
    bias = build.random(outputs, scale=0.02)
    made = build.node("Conv", x, weight, bias, kernel_shape=(size, size), **attributes)
    return build.node("Relu", made)


def _pool(build: ModelWriter, x: str) -> str:
    return build.node("MaxPool", x, kernel_shape=(3, 3), strides=(2, 2), ceil_mode=1)


EXAMPLES: Final[Mapping[str, Example]] = {
    "encoder": Example(
        "transformer encoder of MiniLM's size: 6 layers, 12 heads, 128 tokens of 384",
        encoder,
    ),
    "squeezenet": Example(
        "SqueezeNet 1.1, an image of 224 x 224, 1000 classes",
        squeezenet,
    ),
}
