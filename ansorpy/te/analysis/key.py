"""The identity of a computation up to names."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.te.dag import Attrs, Compute, ConstantTensor, Dag, Node, Placeholder
from ansorpy.te.dims import Dim, dims_of
from ansorpy.te.size_weights import shares

VERSION: Final = "ansorpy-workload/1"

Json: TypeAlias = "str | int | float | bool | list[Json] | None"
Names: TypeAlias = Mapping[str, str]


def workload_key(dag: Dag) -> str:
    """Return the SHA-256 (hex) of the canonical form of `dag`.

    Nodes and axes are named by position, so renaming changes nothing; shapes, dtypes, constants,
    attributes and the order of inputs and outputs are all part of the identity.
    """
    nodes = _names(dag)
    form: Json = [
        VERSION,
        [_node(node, nodes) for node in dag.nodes],
        [nodes[name] for name in dag.outputs],
    ]
    text = json.dumps(form, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def structure_key(dag: Dag) -> str:
    """Return the SHA-256 (hex) of the canonical form of `dag` without its numbers.

    Computations with one key differ in extents and constants only, such as the convolutions of a
    network.
    """
    nodes = _names(dag)
    form = _without_numbers([_node(node, nodes) for node in dag.nodes])
    return hashlib.sha256(json.dumps(form, separators=(",", ":")).encode()).hexdigest()


def _names(dag: Dag) -> Names:
    """Return the names of nodes and dims by position."""
    nodes = {node.name: f"t{i}" for i, node in enumerate(dag.nodes)}
    return nodes | {one.var.name: f"d{i}" for i, one in enumerate(dims_of(dag))}


def _without_numbers(form: Json) -> Json:
    if isinstance(form, list):
        kept = form[:2] if form[:1] == ["dim"] else form  # not even how many numbers a dim has
        return [_without_numbers(part) for part in kept]
    return form if isinstance(form, str | bool) else None


def _node(node: Node, nodes: Names) -> Json:
    match node:
        case Placeholder(shape=shape, dtype=dtype, constant=constant):
            return ["input", _extents(shape, nodes), dtype, constant]
        case ConstantTensor(shape=shape, dtype=dtype, data=data):
            return ["constant", _extents(shape, nodes), dtype, hashlib.sha256(data).hexdigest()]
        case Compute():
            return _compute(node, nodes)


def _compute(node: Compute, nodes: Names) -> Json:
    axes = _axis_names(node)
    return [
        "compute",
        _extents(node.shape, nodes),
        _extents([axis.extent for axis in node.reduce_axes], nodes),
        node.combiner,
        list(node.dtypes),
        [_expr(body, nodes, axes) for body in node.body],
        None if node.start is None else _expr(node.start, nodes, axes),
        _attrs(node.attrs, nodes, axes),
    ]


def _axis_names(node: Compute) -> dict[str, str]:
    spatial = {axis.name: f"s{i}" for i, axis in enumerate(node.axes)}
    return spatial | {axis.name: f"r{i}" for i, axis in enumerate(node.reduce_axes)}


def _extents(extents: Sequence[int], nodes: Names) -> Json:
    return [
        ["dim", nodes[extent.var.name], extent.low, extent.high, *_known(extent)]
        if isinstance(extent, Dim)
        else extent
        for extent in extents
    ]


def _known(extent: Dim) -> list[Json]:
    """Return step and weights, if there are any: costs of other weights are other costs."""
    parts: list[Json] = [[low, high, share] for low, high, share in shares(extent.weights)]
    return [extent.step, *parts] if extent.step > 1 or parts else []


def _attrs(attrs: Attrs, nodes: Names, axes: Names) -> Json:
    # An unknown name has no effect, but its key must differ from the key of a known name.
    return [
        [axes.get(name, f"?{name}") for name in attrs.unroll],
        [axes.get(name, f"?{name}") for name in attrs.no_split_inner],
        [axes.get(name, f"?{name}") for name in attrs.const_axes],
        [nodes.get(name, f"?{name}") for name in attrs.layout_free],
        attrs.flop,
    ]


def _expr(expr: Expr, nodes: Names, axes: Names) -> Json:
    match expr:
        case Const(value=value, dtype=dtype):
            return ["const", value, dtype]
        case Var(name=name):
            return axes[name]
        case Read(tensor=tensor, indices=indices, dtype=dtype, output=output):
            parts = [_expr(index, nodes, axes) for index in indices]
            return ["read", nodes[tensor], output, dtype, parts]
        case Binary(op=op, a=a, b=b):
            return [op, _expr(a, nodes, axes), _expr(b, nodes, axes)]
        case Call(fn=fn, a=a):
            return [fn, _expr(a, nodes, axes)]
        case Cast(dtype=dtype, a=a):
            return ["cast", dtype, _expr(a, nodes, axes)]
        case Select(cond=cond, then=then, other=other):
            parts = [_expr(part, nodes, axes) for part in (cond, then, other)]
            return ["select", *parts]
