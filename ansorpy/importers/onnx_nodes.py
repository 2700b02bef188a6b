"""Nodes of ONNX become nodes of a graph, in order; constants, aliases and branches go.

A node whose operator is not in the table is replaced by the body that ONNX gives for it, if there
is one. Names are data: they never reach generated source.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx

from ansorpy.errors import GraphError, SpecError
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import RESERVED, Attribute, Symbol, Weight
from ansorpy.graph.operator import OPERATORS
from ansorpy.graph.remedies import bind_option
from ansorpy.importers.onnx_empty import empty, without_elements
from ansorpy.importers.onnx_functions import LocalFunctions, bound, key_of
from ansorpy.importers.onnx_loops import Scope, loop, scan
from ansorpy.importers.onnx_old import BEFORE_11
from ansorpy.importers.onnx_values import (
    CODES,
    KEPT_VALUES,
    attributes_of,
    dense,
    tensor_of,
    weight_of,
)

DOMAINS: Final = ("", "ai.onnx")
MOST_DEPTH: Final = 16  # functions and branches inside one another
MOST_NODES: Final = 100_000  # nodes after functions are replaced by their bodies


class NodeImporter:
    """The nodes of a model, added to a builder.

    Args:
        folder: the folder of the model, which alone may hold external data.
        functions: functions of the model that are not inlined.
    """

    def __init__(
        self, builder: GraphBuilder, opset: int, folder: Path | None, functions: LocalFunctions
    ) -> None:
        self.builder, self.opset, self.folder = builder, opset, folder
        self.functions = functions
        self._count = 0
        self._special: Mapping[str, Callable[[onnx.NodeProto, Scope, str, int], None]] = {
            "Loop": partial(loop, self), "Scan": partial(scan, self),
            "Constant": self._constant, "Identity": self._identity, "Dropout": self._dropout,
            "If": self._if, "CastLike": self._cast_like, "Split": self._split,
            "Resize": self._resize, "OptionalHasElement": self._has_element,
            "OptionalGetElement": self._identity,
        }  # fmt: skip

    def fresh(self, name: str) -> str:
        """Return a name that no value has, as near to `name` as can be."""
        found, number = name or "value", 1
        while found in self.builder.values or found == RESERVED:
            found, number = f"{name}:{number}", number + 1
        return found

    def weights(self, tensors: Iterable[onnx.TensorProto], scope: Scope) -> None:
        """Add initializers.

        Raises:
            GraphError: one is damaged or has a dtype that ansorpy has not.
        """
        for tensor in tensors:
            weight = weight_of(tensor, self.folder, f"initializer {tensor.name[:80]!r}")
            self.define(tensor.name, weight, scope)

    def initializers(self, graph: onnx.GraphProto, scope: Scope) -> None:
        """Add the initializers of a body, sparse ones too; errors as `weights`."""
        sparse = (dense(one, self.folder) for one in graph.sparse_initializer)
        self.weights([*graph.initializer, *sparse], scope)

    def nodes(
        self, nodes: Sequence[onnx.NodeProto], scope: Scope, within: str = "", depth: int = 0
    ) -> None:
        """Add nodes in order.

        Args:
            scope: the values that are defined; outputs of the nodes are added.
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
            if node in self.functions:
                self._call(node, scope, label, depth)
                continue
            if node.domain not in DOMAINS:
                raise GraphError(
                    f"cannot import {place} because its domain is {node.domain[:80]!r};"
                    " expected an operator of ONNX itself"
                )
            self._node(node, scope, label, place, depth)

    def _node(self, node: onnx.NodeProto, scope: Scope, label: str, place: str, depth: int) -> None:
        special = self._special.get(node.op_type)
        if node.op_type == "Concat" and len(node.input) == 1:
            special = self._identity  # exporters fold the empty tensor out of Concat(empty, past)
        if special is not None:
            special(node, scope, place, depth)
        elif node.op_type in OPERATORS or not self._by_body(node, scope, label, place, depth):
            outputs = [self.fresh(name) if name else "" for name in node.output]
            attrs = attributes_of(node, place)
            inputs = [scope[name] if name else "" for name in node.input]
            while inputs and not inputs[-1]:
                inputs.pop()
            try:
                self.builder.add(node.op_type, inputs, outputs, attrs, label)
            except SpecError:
                made = without_elements(self.builder, node, inputs, outputs, self.opset)
                if made is None:
                    raise
                outputs = made
            scope |= {
                name: self.given(made)
                for name, made in zip(node.output, outputs, strict=True) if name
            }  # fmt: skip

    def given(self, name: str) -> str:
        """Return the name of a value, or of the constant that it is: it may have no elements."""
        value = self.builder.values[name]
        known = all(isinstance(extent, int) for extent in value.shape)
        if name in self.builder.weights or 0 not in value.shape or not known:
            return name
        return self.builder.constant(self.fresh(name), *empty(value.fixed_shape, value.dtype))

    def _call(self, node: onnx.NodeProto, scope: Scope, label: str, depth: int) -> None:
        """Add the nodes of a function, at its own opset."""
        formals = self.functions.bodies[key_of(node)]
        given = {
            formal: scope[name]
            for formal, name in zip(formals.input, node.input, strict=False) if name
        }  # fmt: skip
        model, tensors = self.functions.body(node, [self._known(*one) for one in given.items()])
        local: Scope = dict(given)
        self.weights((one for one in tensors if one.name not in given), local)
        before, self.opset = self.opset, self.functions.opset_of(model)
        self.nodes(model.graph.node, local, label or node.op_type, depth + 1)
        self.opset = before
        self.returned(formals.output, local, node, scope)

    def _known(self, formal: str, name: str) -> onnx.ValueInfoProto | onnx.TensorProto:
        """Return the type of a value under another name, or a small constant."""
        value, weight = self.builder.values[name], self.builder.weights.get(name)
        if weight is not None and weight.load is not None and weight.elements <= KEPT_VALUES:
            return tensor_of(formal, weight)
        shape = [one.name if isinstance(one, Symbol) else one for one in value.shape]
        return onnx.helper.make_tensor_value_info(formal, CODES[value.dtype], shape)

    def returned(
        self, results: Sequence[str], local: Scope, node: onnx.NodeProto, scope: Scope
    ) -> None:
        """Let the outputs of a node be values of a body.

        Raises:
            GraphError: the body does not define one.
        """
        for result, name in zip(results, node.output, strict=False):
            if name:
                if result not in local:
                    raise GraphError(
                        f"cannot import {_place(node, node.name)} because output {result[:80]!r} of"
                        " its body is not defined; expected a value of the body"
                    )
                scope[name] = local[result]

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
        inner = [bound(one, attrs) for one in body.node]
        local: Scope = dict(given)
        self.nodes(inner, local, label or node.op_type, depth + 1)
        self.returned(body.output, local, node, scope)
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

    def define(self, name: str, weight: Weight, scope: Scope) -> None:
        """Add a constant, under a name that no value has."""
        scope[name] = self.builder.weight(self.fresh(name), weight)

    def _constant(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        for attr in node.attribute:
            match attr.name:
                case "value" | "sparse_value":
                    tensor = dense(attr.sparse_tensor, self.folder) if "sp" in attr.name else attr.t
                    self.define(node.output[0], weight_of(tensor, self.folder, place), scope)
                case "value_float" | "value_floats":
                    values = attr.f if attr.name == "value_float" else list(attr.floats)
                    self.define(node.output[0], Weight.of(np.array(values, np.float32)), scope)
                case "value_int" | "value_ints":
                    numbers = attr.i if attr.name == "value_int" else list(attr.ints)
                    self.define(node.output[0], Weight.of(np.array(numbers, np.int64)), scope)
                case _:
                    raise GraphError(
                        f"cannot import {place} because attribute {attr.name[:80]!r} is not"
                        " supported; expected value, sparse_value, value_float(s) or value_int(s)"
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
            self.define(node.output[1], Weight.of(np.ones(shape, np.bool_)), scope)

    def _cast_like(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        dtype = self.builder.values[scope[node.input[1]]].dtype
        read, name = [scope[node.input[0]]], node.output[0]
        scope[name] = self._add("Cast", read, name, {"to": dtype}, node.name)

    def _has_element(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        there = bool(node.input) and bool(node.input[0])
        self.define(node.output[0], Weight.of(np.array(there)), scope)

    def _split(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        """Add a split; parts without elements are constants."""
        attrs = attributes_of(node, place)
        inputs = [scope[name] for name in node.input if name]
        outputs = [self.fresh(name) for name in node.output]
        scope |= dict(zip(node.output, outputs, strict=True))
        value, axis = self.builder.values[inputs[0]], attrs.get("axis", 0)
        shape = list(value.fixed_shape)
        weight = self.builder.weights.get(inputs[1]) if len(inputs) > 1 else None
        sizes: list[int] = []
        if weight is not None and weight.load is not None:
            sizes = weight.array.reshape(-1).tolist()
        elif isinstance(axis, int) and -len(shape) <= axis < len(shape) and len(inputs) == 1:
            count = len(outputs)
            part = -(-shape[axis] // count)  # the last parts may be smaller, or empty
            if attrs.get("num_outputs", count) == count and "split" not in attrs:
                sizes = [max(0, min(part, shape[axis] - part * n)) for n in range(count)]
        if isinstance(axis, int) and sizes and (0 in sizes or 0 in shape):
            parts = list(zip(outputs, sizes, strict=False))
            for name, part in parts:
                facts = (*shape[:axis], part, *shape[axis % len(shape) + 1 :])
                if 0 in facts:
                    self.builder.constant(name, *empty(facts, value.dtype))
            parts = [(name, part) for name, part in parts if name not in self.builder.values]
            outputs = [name for name, _ in parts]
            lengths = np.array([part for _, part in parts], np.int64)
            inputs[1:] = [self.builder.constant(self.fresh(f"{node.output[0]}.sizes"), lengths)]
        if outputs:
            self.builder.add("Split", inputs, outputs, attrs, node.name)

    def _resize(self, node: onnx.NodeProto, scope: Scope, place: str, depth: int) -> None:
        """Add a Resize; one of opset 10 takes the floor on axes that grow, the ceil on others."""
        attrs = attributes_of(node, place)
        inputs = [scope[name] if name else "" for name in node.input]
        if attrs.get("nearest_mode") == BEFORE_11:
            if len(inputs) == 2:  # a model that the version converter refuses
                inputs.insert(1, "")
            weight = self.builder.weights.get(inputs[2])
            known = weight is not None and weight.load is not None
            scales = weight.array if weight is not None and known else np.ones(1, np.float32)
            attrs["nearest_mode"] = "floor" if scales.min(initial=1) >= 1 else "ceil"
            if scales.min(initial=1) < 1 < scales.max(initial=1):
                grow, shrink = (
                    self.builder.constant(self.fresh(inputs[2]), limit(scales, np.float32(1)))
                    for limit in (np.maximum, np.minimum)
                )
                inputs[0] = self._add("Resize", [inputs[0], "", shrink], inputs[0], attrs)
                inputs[2], attrs = grow, {**attrs, "nearest_mode": "floor"}
        scope[node.output[0]] = self.fresh(node.output[0])
        self.builder.add("Resize", inputs, [scope[node.output[0]]], attrs, node.name)

    def _add(
        self, op: str, inputs: list[str], name: str, attrs: Mapping[str, Attribute], label: str = ""
    ) -> str:
        return self.builder.add(op, inputs, [self.fresh(name)], attrs, label)[0]

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
        self.initializers(branch, local)
        self.nodes(branch.node, local, node.name, depth + 1)
        self.returned([one.name for one in branch.output], local, node, scope)


def _place(node: onnx.NodeProto, label: str) -> str:
    shown = label or next(iter(node.output), "")
    return f"node {shown[:80]!r} ({node.op_type[:80]})"
