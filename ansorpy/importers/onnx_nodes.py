"""Nodes of ONNX become nodes of a graph, in order; constants, aliases and branches go.

A node whose operator is not in the table is replaced by the body that ONNX gives for it, if there
is one. Names are data: they never reach generated source.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from ansorpy.errors import GraphError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Attribute, Weight
from ansorpy.graph.operator import OPERATORS
from ansorpy.graph.remedies import bind_option
from ansorpy.importers.onnx_values import CODES, attributes_of, weight_of

DOMAINS: Final = ("", "ai.onnx")
MOST_DEPTH: Final = 16  # functions and branches inside one another
MOST_STEPS: Final = 64  # steps of a loop that is written out
MOST_NODES: Final = 100_000  # nodes after functions are replaced by their bodies

Scope = dict[str, str]  # the name of a value in ONNX -> its name in the graph


class NodeImporter:
    """The nodes of a model, added to a builder.

    Args:
        folder: the folder of the model, which alone may hold external data.
    """

    def __init__(self, builder: GraphBuilder, opset: int, folder: Path | None) -> None:
        self.builder, self.opset, self.folder = builder, opset, folder
        self._count = 0
        self._special: Mapping[str, Callable[[onnx.NodeProto, Scope, str, int], None]] = {
            "Constant": self._constant, "Identity": self._identity, "Dropout": self._dropout,
            "If": self._if, "CastLike": self._cast_like, "Split": self._split,
            "Scan": self._scan, "OptionalHasElement": self._has_element,
            "OptionalGetElement": self._identity,
        }  # fmt: skip

    def fresh(self, name: str) -> str:
        """Return a name that no value has, as near to `name` as can be."""
        found, number = name or "value", 1
        while found in self.builder.values:
            found, number = f"{name}:{number}", number + 1
        return found

    def weights(self, tensors: Iterable[onnx.TensorProto], scope: Scope) -> None:
        """Add initializers.

        Raises:
            GraphError: one is damaged or has a dtype that ansorpy has not.
        """
        for tensor in tensors:
            weight = weight_of(tensor, self.folder, f"initializer {tensor.name[:80]!r}")
            self._define(tensor.name, weight, scope)

    def nodes(
        self, nodes: Sequence[onnx.NodeProto], scope: Scope, within: str = "", depth: int = 0
    ) -> None:
        """Add nodes in order.

        Args:
            scope: the values that are defined; those of the nodes are added.
            within: the name of the node whose body this is.

        Raises:
            GraphError: a node cannot be compiled.
        """
        for node in nodes:
            label = f"{within}/{node.name or node.op_type}" if within else node.name
            place = _place(node, label)
            self._count += 1
            if self._count > MOST_NODES or depth > MOST_DEPTH:
                raise GraphError(
                    f"cannot import {place} because the model has more than {MOST_NODES} nodes or"
                    f" {MOST_DEPTH} bodies inside one another; expected fewer"
                )
            for name in filter(None, node.input):
                if name not in scope:
                    raise GraphError(
                        f"cannot import {place} because value {name[:80]!r} is not defined before"
                        " it; expected nodes in topological order"
                    )
            twice = [name for name in filter(None, node.output) if name in scope]
            if twice:
                raise GraphError(
                    f"cannot import {place} because value {twice[0][:80]!r} is defined twice;"
                    " expected a name for each value"
                )
            if node.domain not in DOMAINS:
                raise GraphError(
                    f"cannot import {place} because its domain is {node.domain[:80]!r};"
                    " expected an operator of ONNX itself"
                )
            self._node(node, scope, label, place, depth)

    def _node(self, node: onnx.NodeProto, scope: Scope, label: str, place: str, depth: int) -> None:
        special = self._special.get(node.op_type)
        if special is not None:
            special(node, scope, place, depth)
        elif node.op_type in OPERATORS or not self._by_body(node, scope, label, place, depth):
            outputs = [self.fresh(name) if name else "" for name in node.output]
            attrs = attributes_of(node, place)
            inputs = [scope[name] if name else "" for name in node.input]
            while inputs and not inputs[-1]:
                inputs.pop()
            self.builder.add(node.op_type, inputs, outputs, attrs, label)
            scope |= {name: made for name, made in zip(node.output, outputs, strict=True) if name}

    def _by_body(
        self, node: onnx.NodeProto, scope: Scope, label: str, place: str, depth: int
    ) -> bool:
        """Add the nodes of the body that ONNX gives for an operator; False if it has none."""
        body = self._body(node, scope)
        if body is None:
            return False
        given = {name: scope[actual] for name, actual in zip(body.input, node.input, strict=False)
                 if actual}  # fmt: skip
        schema: Any = onnx.defs.get_schema(node.op_type, self.opset, "")
        attrs = {
            **{name: one.default_value for name, one in schema.attributes.items()
               if one.default_value.name},
            **{one.name: one for one in body.attribute_proto},
            **{one.name: one for one in node.attribute},
        }  # fmt: skip
        inner = [_bound(one, attrs) for one in body.node]
        local: Scope = dict(given)
        self.nodes(inner, local, label or node.op_type, depth + 1)
        for formal, name in zip(body.output, node.output, strict=False):
            if name:
                scope[name] = local[formal]
        return True

    def _body(self, node: onnx.NodeProto, scope: Scope) -> onnx.FunctionProto | None:
        try:
            schema: Any = onnx.defs.get_schema(node.op_type, self.opset, "")
        except onnx.defs.SchemaError:
            return None
        if schema.has_function:
            body = onnx.FunctionProto()
            body.ParseFromString(schema.get_function_with_opset_version(schema.since_version))
            return body
        if not schema.has_context_dependent_function:
            return None
        types = []
        for name in node.input:
            made = onnx.TypeProto()
            if name:
                value = self.builder.values[scope[name]]
                made = onnx.helper.make_tensor_type_proto(CODES[value.dtype], value.fixed_shape)
            types.append(made.SerializeToString())
        text = schema.get_context_dependent_function(node.SerializeToString(), types)
        body = onnx.FunctionProto()
        body.ParseFromString(text)
        return body if body.node else None

    def _define(self, name: str, weight: Weight, scope: Scope) -> None:
        scope[name] = self.builder.weight(self.fresh(name), weight)

    def _constant(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        for one in node.attribute:
            match one.name:
                case "value":
                    self._define(node.output[0], weight_of(one.t, self.folder, place), scope)
                case "value_float" | "value_floats":
                    values = one.f if one.name == "value_float" else list(one.floats)
                    self._define(node.output[0], Weight.of(np.array(values, np.float32)), scope)
                case "value_int" | "value_ints":
                    numbers = one.i if one.name == "value_int" else list(one.ints)
                    self._define(node.output[0], Weight.of(np.array(numbers, np.int64)), scope)
                case _:
                    raise GraphError(
                        f"cannot import {place} because attribute {one.name[:80]!r} is not"
                        " supported; expected value, value_float(s) or value_int(s)"
                    )

    def _identity(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        scope[node.output[0]] = scope[node.input[0]]

    def _dropout(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        """Pass the data on; all of the mask is True."""
        if len(node.input) > 2 and node.input[2]:
            weight = self.builder.weights.get(scope[node.input[2]])
            if weight is None or weight.load is None or bool(weight.array.any()):
                raise GraphError(
                    f"cannot import {place} because training_mode is not known to be False;"
                    " expected a model for inference"
                )
        scope[node.output[0]] = scope[node.input[0]]
        if len(node.output) > 1 and node.output[1]:
            shape = self.builder.values[scope[node.input[0]]].fixed_shape
            self._define(node.output[1], Weight.of(np.ones(shape, np.bool_)), scope)

    def _cast_like(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        dtype = self.builder.values[scope[node.input[1]]].dtype
        name = self.fresh(node.output[0])
        self.builder.add("Cast", [scope[node.input[0]]], [name], {"to": dtype}, node.name)
        scope[node.output[0]] = name

    def _has_element(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        there = bool(node.input) and bool(node.input[0])
        self._define(node.output[0], Weight.of(np.array(there)), scope)

    def _split(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        """Add a split; parts without elements are constants."""
        attrs = attributes_of(node, place)
        inputs = [scope[name] for name in node.input if name]
        outputs = [self.fresh(name) for name in node.output]
        scope |= dict(zip(node.output, outputs, strict=True))
        weight = self.builder.weights.get(inputs[1]) if len(inputs) > 1 else None
        if weight is not None and weight.load is not None and not weight.array.all():
            value, axis = self.builder.values[inputs[0]], attrs.get("axis", 0)
            shape = list(value.fixed_shape)
            for name, part in zip(outputs, weight.array, strict=False):
                if not part and isinstance(axis, int):
                    shape[axis] = 0
                    self.builder.constant(name, np.empty(shape, value.dtype), value.dtype)
            outputs = [name for name, part in zip(outputs, weight.array, strict=False) if part]
            sizes = self.fresh(f"{node.output[0]}.sizes")
            inputs[1] = self.builder.constant(sizes, weight.array[weight.array != 0])
        self.builder.add("Split", inputs, outputs, attrs, node.name)

    def _scan(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        """Add the body of a loop over sequences once per step."""
        attrs = {one.name: one for one in node.attribute}
        body, count = attrs["body"].g, int(attrs["num_scan_inputs"].i)
        states = len(node.input) - count
        unusual = [
            name for name, one in attrs.items()
            if name not in ("body", "num_scan_inputs") and any(one.ints)
        ]  # fmt: skip
        sequences = [scope[name] for name in node.input[states:]]
        steps = self.builder.values[sequences[0]].fixed_shape[0] if sequences else 0
        if unusual or not 0 < steps <= MOST_STEPS or states < 0:
            raise GraphError(
                f"cannot import {place} because it has {steps} steps, and attributes {unusual};"
                f" expected 1 to {MOST_STEPS} steps along the first axes"
            )
        state = [scope[name] for name in node.input[:states]]
        made: list[list[str]] = [[] for _ in body.output[states:]]
        for step in range(steps):
            at = self.builder.constant(self.fresh(f"{node.name}.{step}"), np.array(step))
            rows = [self._add("Gather", [name, at], name, {"axis": 0}) for name in sequences]
            local = {**scope, **{one.name: name for one, name in zip(
                body.input, [*state, *rows], strict=True)}}  # fmt: skip
            self.weights(body.initializer, local)
            self.nodes(body.node, local, f"{node.name}.{step}", depth + 1)
            ends = [local[one.name] for one in body.output]
            state = ends[:states]
            for found, name in zip(made, ends[states:], strict=True):
                axis = self.builder.constant(self.fresh(f"{name}.axis"), np.array([0]))
                found.append(self._add("Unsqueeze", [name, axis], name, {}))
        rows = [self._add("Concat", found, "rows", {"axis": 0}) for found in made]
        for name, value in zip(node.output, [*state, *rows], strict=False):
            if name:
                scope[name] = value

    def _add(self, op: str, inputs: list[str], name: str, attrs: Mapping[str, Attribute]) -> str:
        return self.builder.add(op, inputs, [self.fresh(name)], attrs)[0]

    def _if(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        """Add the branch that a known condition takes."""
        weight = self.builder.weights.get(scope[node.input[0]])
        if weight is None or weight.load is None or weight.elements != 1:
            scalars = self.builder.scalars(scope[node.input[0]])
            told = " ".join(map(bind_option, scalars[:4]))
            raise GraphError(
                f"cannot import {place} because its condition {node.input[0][:80]!r} is computed"
                " at run time; expected a constant"
                + (f", as by {told}" if told else ": it depends on no scalar input to bind")
            )
        taken = "then_branch" if bool(weight.array.reshape(-1)[0]) else "else_branch"
        branch = next((one.g for one in node.attribute if one.name == taken), None)
        if branch is None:
            raise GraphError(f"cannot import {place} because {taken} is absent; expected a graph")
        local = dict(scope)
        self.weights(branch.initializer, local)
        self.nodes(branch.node, local, node.name, depth + 1)
        for output, name in zip(branch.output, node.output, strict=False):
            if name:
                if output.name not in local:
                    raise GraphError(
                        f"cannot import {place} because output {output.name[:80]!r} of {taken} is"
                        " not defined; expected a value of the branch"
                    )
                scope[name] = local[output.name]


def _place(node: onnx.NodeProto, label: str) -> str:
    shown = label or next(iter(node.output), "")
    return f"node {shown[:80]!r} ({node.op_type[:80]})"


def _bound(node: onnx.NodeProto, attrs: Mapping[str, onnx.AttributeProto]) -> onnx.NodeProto:
    """Return a node of a function's body with the attributes of the call in place."""
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    for one in node.attribute:
        if not one.ref_attr_name:
            made.attribute.add().CopyFrom(one)
        elif one.ref_attr_name in attrs:
            bound = made.attribute.add()
            bound.CopyFrom(attrs[one.ref_attr_name])
            bound.name = one.name
    return made
