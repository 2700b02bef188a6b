"""A graph becomes a model of ONNX, opset 23.

A dim becomes a symbol, and a constant that depends on it the result of nodes on the shape of an
input.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from ansorpy.errors import GraphError
from ansorpy.graph import Graph, Node, Weight
from ansorpy.graph.graph import Attribute, Symbol, ValueInfo
from ansorpy.importers.onnx_file import OPSET
from ansorpy.importers.onnx_values import CODES, DTYPE_ATTRIBUTES, tensor_of
from ansorpy.te.dims import Dim

IR_VERSION: Final = 10  # the version of the file format that opset 23 came with is 11; 10 suffices
LARGEST_FILE: Final = (1 << 31) - (1 << 20)  # bytes; protobuf has messages below 2 GiB

# Attributes of older opsets that are inputs in opset 23, in the order of the inputs.
_AS_INPUTS: Final[Mapping[str, tuple[str, ...]]] = {
    "Squeeze": ("axes",), "Unsqueeze": ("axes",), "Clip": ("min", "max"), "Split": ("split",),
    "Slice": ("starts", "ends", "axes"), "Pad": ("pads", "value"),
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
         "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"), ("axes",),
    ),
}  # fmt: skip
_DROPPED: Final = frozenset({"spatial", "consumed_inputs"})  # attributes that opset 23 has not


def write_model(graph: Graph, path: Path) -> None:
    """Write a graph as an ONNX model with its weights inside.

    Raises:
        GraphError: an operator or attribute has no form in opset 23, or the file is too large.
        OSError: the file cannot be written.
    """
    path.write_bytes(model_of_graph(graph).SerializeToString())


def model_of_graph(graph: Graph) -> onnx.ModelProto:
    """Return a graph as a model in memory.

    Raises:
        GraphError: an operator or attribute has no form in opset 23, or the file is too large.
    """
    size = sum(graph.values[name].size_bytes for name in graph.weights)
    if size > LARGEST_FILE:
        raise GraphError(
            f"cannot write {graph.name!r} because its weights have {size} bytes;"
            f" expected at most {LARGEST_FILE} in one file"
        )
    return _Writer(graph).model()


def operator_counts(path: Path) -> Counter[str]:
    """Return the numbers of nodes of a model file by operator, bodies of branches left out."""
    model = onnx.load_model(path, load_external_data=False)
    return Counter(node.op_type for node in model.graph.node)


class _Writer:
    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.proto = onnx.GraphProto(name=graph.name)
        self.names = {name: name for name in graph.values}
        self._taken = {*graph.values, *(output.name for output in graph.outputs)}
        self._copies: list[tuple[str, str]] = []
        self._labels: Counter[str] = Counter()
        self._sizes: dict[str, str] = {}  # value of the size of each dim, by its name

    def model(self) -> onnx.ModelProto:
        """Return the model; `_named` first, because nodes write the names of outputs."""
        self._named()
        for name, weight in self.graph.weights.items():
            if weight.dims:
                self._sized(self.names[name], weight)
            else:
                self.proto.initializer.append(tensor_of(self.names[name], weight))
        for node in self.graph.nodes:
            self._node(node)
        for value, output in self._copies:
            self.proto.node.append(onnx.helper.make_node("Identity", [value], [output]))
        for name in self.graph.inputs:
            self.proto.input.append(_info(self.names[name], self.graph.values[name]))
        for one in self.graph.outputs:
            self.proto.output.append(_info(one.name, self.graph.values[one.value]))
        model = onnx.helper.make_model(
            self.proto, opset_imports=[onnx.helper.make_opsetid("", OPSET)], ir_version=IR_VERSION,
            producer_name="ansorpy",
        )  # fmt: skip
        try:
            onnx.checker.check_model(model)
        except onnx.checker.ValidationError as error:
            raise GraphError(
                f"cannot write {self.graph.name!r} because {error}; expected a valid model"
            ) from error
        return model

    def _sized(self, name: str, weight: Weight) -> None:
        """Add a constant that depends on sizes of a call, which nodes read from the inputs."""
        if not weight.sizes:
            table = self._fresh(name)
            whole = Weight.of(weight.array, weight.dtype)
            self.proto.initializer.append(tensor_of(table, whole))
            axes = [axis for axis, one in enumerate(weight.shape) if isinstance(one, Dim)]
            begins, which = (self._integers(one, name) for one in ([0] * len(axes), axes))
            ends = self._extents([weight.shape[axis] for axis in axes], name)
            self._emit("Slice", (table, begins, ends, which), name)
            return
        if weight.dtype == "int64" and len(weight.shape) == 1:
            self._extents(weight.sizes, name, name)
            return
        flat, shaped = self._extents(weight.sizes, name), self._fresh(name)
        self._emit("Reshape", (flat, self._integers(weight.shape, name)), shaped)
        self._emit("Cast", (shaped,), name, to=weight.dtype)

    def _extents(self, extents: Sequence[int], like: str, output: str = "") -> str:
        """Return the name of a vector of extents, some of which are dims."""
        parts = [
            self._size(one) if isinstance(one, Dim) else self._integers([one], like)
            for one in extents
        ]
        made = output or self._fresh(like)
        self._emit("Concat", parts, made, axis=0)
        return made

    def _size(self, dim: Dim) -> str:
        """Return the name of the size of a dim, a vector of one element."""
        if dim.name not in self._sizes:
            places = (
                (name, axis)
                for name in self.graph.inputs
                for axis, one in enumerate(self.graph.values[name].shape)
                if one == dim
            )
            name, axis = next(places, ("", 0))
            made = self._sizes[dim.name] = self._fresh(dim.name)
            if name:
                self.extent(name, axis, made)
            else:  # no input has the sum
                self._sum(dim, made)
        return self._sizes[dim.name]

    def _sum(self, dim: Dim, output: str) -> None:
        """Add the sum of the sizes of dims, and of a number."""
        known = {one.name: one for one in self.graph.dims}
        made, *parts = (
            self._size(known[term]) if isinstance(term, str) else self._integers([term], output)
            for term in known[dim.name].terms
        )
        for number, part in enumerate(parts):
            total = output if number == len(parts) - 1 else self._fresh(output)
            self._emit("Add", (made, part), total)
            made = total

    def extent(self, name: str, axis: int, output: str) -> str:
        """Add the extent of a value as a vector of one element, and return its name."""
        self._emit("Shape", (self.names[name],), output, start=axis, end=axis + 1)
        return output

    def _integers(self, values: Sequence[int], like: str) -> str:
        made = self._fresh(like)
        numbers = Weight.of(np.array(values, np.int64))
        self.proto.initializer.append(tensor_of(made, numbers))
        return made

    def _emit(self, op: str, inputs: Sequence[str], output: str, **attrs: Attribute) -> None:
        self.emit(op, inputs, (output,), attrs, "", onnx.defs.get_schema(op, OPSET, ""))

    def _named(self) -> None:
        """Give outputs their public names: of a node's value, or of a copy behind it."""
        public = {output.name for output in self.graph.outputs}
        for name in self.graph.values:
            if name in public and name not in self.graph.inputs:
                self.names[name] = self._fresh(name)
        named: set[str] = set()
        for output in self.graph.outputs:
            if output.value in self.graph.producers and output.value not in named:
                self.names[output.value] = output.name
                named.add(output.value)
            else:
                self._copies.append((self.names[output.value], output.name))

    def _label(self, label: str) -> str:
        """Return a name that no node has; several nodes may come from one node of the user."""
        self._labels[label] += label != ""
        found = label if self._labels[label] < 2 else f"{label}:{self._labels[label]}"
        if found != label:
            return self._label(found)
        return found

    def _fresh(self, stem: str) -> str:
        number = 1
        while (name := f"{stem}:{number}") in self._taken:
            number += 1
        self._taken.add(name)
        return name

    def _node(self, node: Node) -> None:
        inputs = [self.names[name] if name else "" for name in node.inputs]
        outputs = [self.names[name] if name else "" for name in node.outputs]
        expand = _EXPANDED.get(node.op)
        if expand is not None:
            expand(self, node, inputs, outputs)
            return
        try:
            schema: Any = onnx.defs.get_schema(node.op, OPSET, "")
        except onnx.defs.SchemaError as error:
            raise GraphError(
                f"cannot write {node} because opset {OPSET} has no such operator;"
                " expected an operator of ONNX"
            ) from error
        optional = onnx.defs.OpSchema.FormalParameterOption.Optional
        for position, name in enumerate(outputs):
            formal = schema.outputs[min(position, len(schema.outputs) - 1)]
            if not name and formal.option != optional:
                outputs[position] = self._fresh(next(filter(None, outputs)))
        attrs = {name: value for name, value in node.attrs.items() if name not in _DROPPED}
        for position, name in enumerate(_AS_INPUTS.get(node.op, ()), 1):
            if name in attrs and name not in schema.attributes:
                inputs += [""] * (position + 1 - len(inputs))
                inputs[position] = self._constant(attrs.pop(name), name, node)
        self.emit(node.op, inputs, outputs, attrs, node.name, schema)

    def emit(
        self, op: str, inputs: Sequence[str], outputs: Sequence[str],
        attrs: Mapping[str, Attribute], label: str, schema: Any = None,
    ) -> None:  # fmt: skip
        """Add a node of ONNX."""
        node = self.proto.node.add(op_type=op, name=self._label(label))
        node.input.extend(inputs)
        node.output.extend(outputs)
        for name, value in attrs.items():
            if schema is None or name not in schema.attributes:
                raise GraphError(
                    f"cannot write node {label[:80]!r} ({op}) because opset {OPSET} has no"
                    f" attribute {name!r}; expected {', '.join(schema.attributes) or 'none'}"
                )
            node.attribute.append(_attribute(name, value, schema.attributes[name]))

    def scalar(self, value: float, like: str, dtype: str) -> str:
        """Add a constant of one number and return its name."""
        name = self._fresh(like)
        array = np.array(value, "float32" if dtype == "bfloat16" else dtype)
        self.proto.initializer.append(tensor_of(name, Weight.of(array)))
        return name

    def _constant(self, value: Attribute, name: str, node: Node) -> str:
        """Add an attribute of an older opset as a constant."""
        dtype = self.graph.values[node.inputs[0]].dtype if name in ("min", "max", "value") else (
            "int64"
        )  # fmt: skip
        made = self._fresh(node.outputs[0])
        self.proto.initializer.append(tensor_of(made, Weight.of(np.array(value, dtype))))
        return made


def _swish(on: _Writer, node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Write x * Sigmoid(alpha * x); Swish came with opset 24."""
    (x,), (y,) = inputs, outputs
    alpha = node.attrs.get("alpha", 1.0)
    assert isinstance(alpha, float | int)
    inner = x
    if alpha != 1:
        inner = on._fresh(y)
        constant = on.scalar(alpha, y, on.graph.values[node.inputs[0]].dtype)
        on.emit("Mul", (x, constant), (inner,), {}, node.name)
    gate = on._fresh(y)
    on.emit("Sigmoid", (inner,), (gate,), {}, node.name)
    on.emit("Mul", (x, gate), (y,), {}, node.name)


def _append(on: _Writer, node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Write rows behind others as a Concat."""
    on._emit("Concat", inputs, outputs[0], axis=node.attrs["axis"])


def _window(on: _Writer, node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Write rows from an extent on as a Slice."""
    attrs: dict[str, Any] = dict(node.attrs)
    begin = on.extent(node.inputs[1], attrs["start_axis"], on._fresh(outputs[0]))
    if "rows_axis" in attrs:
        rows = on.extent(node.inputs[2], attrs["rows_axis"], on._fresh(outputs[0]))
    else:
        rows = on._integers([attrs["rows"]], outputs[0])
    end = on._fresh(outputs[0])
    on._emit("Add", (begin, rows), end)
    axes = on._integers([attrs["axis"]], outputs[0])
    on._emit("Slice", (inputs[0], begin, end, axes), outputs[0])


_EXPANDED: Final[
    Mapping[str, Callable[[_Writer, Node, Sequence[str], Sequence[str]], None]]
] = {"Swish": _swish, "AppendRows": _append, "WindowRows": _window}  # fmt: skip


def _attribute(name: str, value: Attribute, schema: Any) -> onnx.AttributeProto:
    if name in DTYPE_ATTRIBUTES and isinstance(value, str):
        value = CODES[value]
    kind = schema.type
    if kind == onnx.defs.OpSchema.AttrType.FLOAT and isinstance(value, int | float):
        value = float(value)
    if kind == onnx.defs.OpSchema.AttrType.FLOATS and isinstance(value, tuple):
        value = tuple(map(float, value))
    return onnx.helper.make_attribute(
        name, value, attr_type=onnx.AttributeProto.AttributeType.Value(kind.name)
    )


def _info(name: str, value: ValueInfo) -> onnx.ValueInfoProto:
    shape = [_symbol(one) if isinstance(one, Symbol | Dim) else one for one in value.shape]
    return onnx.helper.make_tensor_value_info(name, CODES[value.dtype], shape)


def _symbol(extent: Symbol | Dim) -> str:
    """Return the name of an extent: a sum is named as the importer reads it."""
    terms = extent.terms if isinstance(extent, Dim) else ()
    return " + ".join(map(str, terms)) or extent.name
