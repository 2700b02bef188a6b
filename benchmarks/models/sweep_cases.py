"""Random models of one operator: operators x opsets x attributes x dtypes x special values."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.models.node_cases import Array

NEWEST: Final = 24  # opset
CODES: Final[Mapping[str, int]] = {
    "float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "float64": TensorProto.DOUBLE,
    "bfloat16": TensorProto.BFLOAT16, "int8": TensorProto.INT8, "uint8": TensorProto.UINT8,
    "int16": TensorProto.INT16, "uint16": TensorProto.UINT16, "int32": TensorProto.INT32,
    "uint32": TensorProto.UINT32, "int64": TensorProto.INT64, "uint64": TensorProto.UINT64,
    "bool": TensorProto.BOOL,
}  # fmt: skip
FLOATS: Final = ("float32", "float32", "float32", "float16", "float64", "bfloat16")
INTS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, np.inf, -np.inf, np.nan)
DRAWS: Final = ("normal", "normal", "normal", "small", "large", "equal", "negative", "special")


@dataclass(frozen=True)
class SweepCase:
    """A model of one operator with inputs; bfloat16 arrays have the dtype of ml_dtypes."""

    operator: str
    opset: int
    since: int  # version of the operator
    tags: tuple[str, ...]
    model: onnx.ModelProto
    inputs: Mapping[str, Array]

    def __str__(self) -> str:
        return f"{self.operator}-{self.since} at opset {self.opset}: {', '.join(self.tags)}"


@dataclass
class Maker:
    """One model in the making: an operator of an opset, its operands and attributes."""

    operator: str
    opset: int
    rng: np.random.Generator
    schema: Any
    draw: str
    attrs: dict[str, Any] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  # the inputs of the node
    inputs: dict[str, Array] = field(default_factory=dict)
    weights: dict[str, Array] = field(default_factory=dict)
    outputs: int = 1

    def one_of(self, *choices: Any) -> Any:
        """Return a random choice."""
        return choices[int(self.rng.integers(len(choices)))]

    def sometimes(self, share: float = 0.5) -> bool:
        """Return True in a share of all cases."""
        return bool(self.rng.random() < share)

    def shape(self, low: int = 1, high: int = 4, most: int = 7) -> tuple[int, ...]:
        """Return a shape of `low` to `high` axes."""
        rank = int(self.rng.integers(low, high + 1))
        return tuple(int(n) for n in self.rng.integers(1, most + 1, rank))

    def dtype(self, *choices: str) -> str:
        """Return a dtype that the first operand may have, of those given or of floats."""
        formal = self.schema.inputs[0]
        known = {t.removeprefix("tensor(").removesuffix(")") for t in formal.types}
        onnx_names = {"float32": "float", "float64": "double"}
        fit = [n for n in choices or FLOATS if onnx_names.get(n, n) in known]
        return str(self.one_of(*fit)) if fit else "float32"

    def values(self, shape: Sequence[int], dtype: str, draw: str = "") -> Array:
        """Return random values of a dtype."""
        shape, kind, rng = tuple(shape), draw or self.draw, self.rng
        if dtype == "bool":
            return rng.integers(0, 2, shape).astype(bool)
        if dtype in INTS:
            info = np.iinfo(dtype)
            low, high = (info.min, info.max) if dtype in ("int8", "uint8") else (-9, 9)
            found = rng.integers(max(low, info.min), min(high, info.max), shape, endpoint=True)
            return np.asarray(found).astype(dtype)
        normal = rng.standard_normal(shape)
        made = {
            "normal": normal,
            "small": normal * 1e-3,
            "large": normal * (200 if dtype == "float16" else 1e4),
            "equal": np.full(shape, 30.0),
            "negative": -np.abs(normal) - 0.5,
            "special": rng.choice(SPECIAL, shape),
        }[kind]
        return np.asarray(made).astype(helper.tensor_dtype_to_np_dtype(CODES[dtype]))

    def input(self, array: Array, constant: bool = False) -> None:
        """Add an operand: an input of the model, or a constant of it."""
        name = f"x{len(self.names)}"
        self.names.append(name)
        (self.weights if constant else self.inputs)[name] = array

    def operand(self, shape: Sequence[int], dtype: str, constant: bool = False) -> None:
        """Add a random operand."""
        self.input(self.values(shape, dtype), constant)

    def attribute(self, name: str, value: Any) -> None:
        """Set an attribute if this version of the operator has it."""
        if name in self.schema.attributes:
            self.attrs[name] = value

    def given(self, name: str, value: Any, dtype: str = "int64") -> None:
        """Give an argument, which is an attribute of some versions and a constant of others."""
        if name in self.schema.attributes:
            self.attrs[name] = value
            return
        positions = [one.name for one in self.schema.inputs]
        if name in positions:
            while len(self.names) < positions.index(name):
                self.names.append("")
            code = helper.tensor_dtype_to_np_dtype(CODES[dtype])
            self.input(np.asarray(value).astype(code), constant=True)

    def case(self) -> SweepCase:
        """Return the model."""
        outputs = [f"y{n}" for n in range(self.outputs)]
        node = helper.make_node(self.operator, self.names, outputs, **self.attrs)
        given = [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape
            )
            for name, one in self.inputs.items()
        ]
        graph = helper.make_graph(
            [node], "g", given, [onnx.ValueInfoProto(name=name) for name in outputs],
            [onnx.numpy_helper.from_array(one, name) for name, one in self.weights.items()],
        )  # fmt: skip
        opsets = [helper.make_opsetid("", self.opset)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        model = onnx.shape_inference.infer_shapes(model)
        tags = [one.dtype.name for one in (*self.inputs.values(), *self.weights.values())][:1]
        tags += [self.draw, *(f"{name}={self.attrs[name]}" for name in sorted(self.attrs))]
        shapes = [str(list(one.shape)) for one in (*self.inputs.values(), *self.weights.values())]
        return SweepCase(
            self.operator, self.opset, self.schema.since_version, (*tags, " ".join(shapes)), model,
            self.inputs,
        )  # fmt: skip


Make = Callable[[Maker], None]


def case_of(operator: str, make: Make, rng: np.random.Generator, only: int = 0) -> SweepCase | None:
    """Return a random case of an operator; None if the opset that is drawn has it not."""
    opset = int(rng.integers(1, NEWEST + 1))
    opset = only or opset
    try:
        schema = onnx.defs.get_schema(operator, opset, "")
    except onnx.defs.SchemaError:
        return None
    if schema.deprecated:
        return None
    made = Maker(operator, opset, rng, schema, str(rng.choice(DRAWS)))
    make(made)
    return made.case()
