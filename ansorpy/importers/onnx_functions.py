"""Functions of a model: inlined, or converted call by call to the opset of operators."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import onnx
from onnx import inliner

from ansorpy.errors import GraphError

Key = tuple[str, str, str]  # domain, name and overload
AtOpset = Callable[[onnx.ModelProto], tuple[onnx.ModelProto, list[onnx.TensorProto]]]


@dataclass(frozen=True, slots=True)
class LocalFunctions:
    """The functions of a model that are not inlined, by key.

    Args:
        at_opset: returns a model at the opset of operators without its weights, and the weights.
        opset_of: returns the opset of ONNX's own operators.
    """

    at_opset: AtOpset
    opset_of: Callable[[onnx.ModelProto | onnx.FunctionProto], int]
    bodies: Mapping[Key, onnx.FunctionProto] = field(default_factory=dict)

    def __contains__(self, node: onnx.NodeProto) -> bool:
        return key_of(node) in self.bodies

    def body(
        self, node: onnx.NodeProto, inputs: Sequence[onnx.ValueInfoProto | onnx.TensorProto]
    ) -> tuple[onnx.ModelProto, list[onnx.TensorProto]]:
        """Return the body of the function that a node calls, with its attributes and inputs.

        Args:
            inputs: types of the given inputs, and small constants among them, by formal names:
                the converter needs both.
        """
        function = self.bodies[key_of(node)]
        given = {one.name for one in inputs}
        attrs = {one.name: one for one in (*function.attribute_proto, *node.attribute)}
        graph = onnx.GraphProto(name="function")
        absent = set(function.input) - given
        graph.node.extend(bound(one, attrs, absent) for one in function.node)
        graph.input.extend(one for one in inputs if isinstance(one, onnx.ValueInfoProto))
        graph.initializer.extend(one for one in inputs if isinstance(one, onnx.TensorProto))
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in function.output)
        return self.at_opset(
            onnx.ModelProto(ir_version=10, opset_import=function.opset_import, graph=graph)
        )


def inlined(
    model: onnx.ModelProto, functions: LocalFunctions
) -> tuple[onnx.ModelProto, LocalFunctions]:
    """Return a model without calls of functions of its own opset, and the other functions."""
    made = inliner.inline_local_functions(model)
    opset = functions.opset_of(model)
    if all(functions.opset_of(one) == opset for one in model.functions):
        return made, functions
    bodies = {(one.domain, one.name, one.overload): one for one in model.functions}
    return made, replace(functions, bodies=bodies)


def key_of(node: onnx.NodeProto) -> Key:
    """Return the key of the function that a node would call."""
    return node.domain, node.op_type, node.overload


def check_functions(model: onnx.ModelProto, most_nodes: int, most_depth: int) -> None:
    """Refuse functions that call themselves, or whose bodies multiply."""
    bodies = {(one.domain, one.name): one for one in model.functions}
    sizes: dict[tuple[str, str], int] = {}
    entered: set[tuple[str, str]] = set()

    def size(nodes: Sequence[onnx.NodeProto]) -> int:
        total = len(nodes)
        for node in nodes:
            key = (node.domain, node.op_type)
            if key not in bodies:
                continue
            if key in entered or len(entered) > most_depth:
                raise GraphError(
                    f"cannot import function {node.op_type[:80]!r} because functions call it from"
                    f" its own body or {most_depth} deep; expected no recursion"
                )
            if key not in sizes:
                entered.add(key)
                sizes[key] = size(bodies[key].node)
                entered.remove(key)
            total += sizes[key]
        if total > most_nodes:
            raise GraphError(
                f"cannot import the functions of the model because their bodies are {total} nodes;"
                f" expected at most {most_nodes}"
            )
        return total

    size(model.graph.node)


def bound(
    node: onnx.NodeProto,
    attrs: Mapping[str, onnx.AttributeProto],
    absent: Collection[str] = (),
) -> onnx.NodeProto:
    """Return a node of a function's body with the attributes of the call in place.

    Args:
        absent: inputs of the function that the call leaves out.
    """
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    copy.input[:] = ["" if name in absent else name for name in node.input]
    del copy.attribute[:]
    for attribute in node.attribute:
        if attribute.ref_attr_name and attribute.ref_attr_name not in attrs:
            continue
        place = copy.attribute.add()
        place.CopyFrom(attrs[attribute.ref_attr_name] if attribute.ref_attr_name else attribute)
        place.name = attribute.name
        if attribute.ref_attr_name:
            continue
        for graph in (place.g, *place.graphs) if place.HasField("g") else place.graphs:
            inner = [bound(each, attrs, absent) for each in graph.node]
            del graph.node[:]
            graph.node.extend(inner)
    return copy
