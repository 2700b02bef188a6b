"""The JSON wire form of a Dag, version 1; documented in docs/wire.md.

Everything that comes in is data to be distrusted: unknown keys, wrong types, values beyond a
limit and documents nested too deep are refused with a SpecError that names the place.
"""

import base64
import json
import math
from typing import Any, Final

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.frontends.json.read import JsonValue, dag_from
from ansorpy.frontends.json.strict import parse_json
from ansorpy.te.check import check
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Dag, Node, Placeholder
from ansorpy.te.dims import extents_as_json
from ansorpy.te.limits import LIMITS

VERSION: Final = 1

Json = dict[str, Any]


def to_json(dag: Dag) -> Json:
    """Return the wire form: dicts, lists, strings, finite numbers and bools only.

    Raises:
        SpecError: the Dag is not valid (see `ansorpy.te.check`).
    """
    check(dag)
    return {
        "ansorpy": VERSION,
        "name": dag.name,
        "nodes": [_node(node) for node in dag.nodes],
        "outputs": list(dag.outputs),
    }


def from_json(obj: object, place: str = "spec") -> Dag:
    """Return the Dag of a parsed wire form; the inverse of `to_json`.

    Args:
        place: the name of the document in messages.

    Raises:
        SpecError: names the place in the document, the value and the expected kind.
    """
    dag = dag_from(JsonValue(place, obj), VERSION)
    check(dag)
    return dag


def dumps(dag: Dag) -> str:
    """Return the wire form as one line of JSON."""
    return json.dumps(to_json(dag), allow_nan=False, separators=(",", ":"))


def loads(text: str | bytes) -> Dag:
    """Return the Dag of a JSON document; a key that is there twice is refused.

    Raises:
        SpecError: the document is too long, not JSON, or not a valid Dag.
    """
    if len(text) > LIMITS.text_bytes + 2 * LIMITS.constant_bytes:
        raise SpecError(f"spec: {len(text)} bytes of JSON are too many")
    try:
        obj = parse_json(text)
    except ValueError as error:
        raise SpecError(f"spec: not JSON that can be read: {str(error)[:200]}") from None
    return from_json(obj)


def _node(node: Node) -> Json:
    match node:
        case Placeholder(name=name, shape=shape, dtype=dtype, constant=constant):
            entry: Json = {"kind": "placeholder", "name": name, "shape": extents_as_json(shape)}
            entry["dtype"] = dtype
            return entry | ({"constant": True} if constant else {})
        case ConstantTensor(name=name, shape=shape, dtype=dtype, data=data):
            encoded = base64.b64encode(data).decode("ascii")
            entry = {"kind": "constant", "name": name, "shape": list(shape), "dtype": dtype}
            return entry | {"data": encoded}
        case Compute():
            return _compute(node)


def _compute(node: Compute) -> Json:
    entry: Json = {
        "kind": "compute",
        "name": node.name,
        "axes": _axes(node.axes),
        "dtypes": list(node.dtypes),
        "body": [_expr(body) for body in node.body],
    }
    if node.combiner is not None:
        entry |= {"combiner": node.combiner, "reduce_axes": _axes(node.reduce_axes)}
    if node.start is not None:
        entry["start"] = _expr(node.start)
    attrs = _attrs(node.attrs)
    return entry | ({"attrs": attrs} if attrs else {})


def _axes(axes: tuple[Axis, ...]) -> list[list[Any]]:
    extents = extents_as_json([axis.extent for axis in axes])
    return [[axis.name, extent] for axis, extent in zip(axes, extents, strict=True)]


def _attrs(attrs: Attrs) -> Json:
    lists = {
        "unroll": attrs.unroll,
        "no_split_inner": attrs.no_split_inner,
        "const_axes": attrs.const_axes,
        "layout_free": attrs.layout_free,
    }
    found: Json = {key: list(names) for key, names in lists.items() if names}
    return found | ({} if attrs.flop is None else {"flop": attrs.flop})


def _expr(expr: Expr) -> Json:
    match expr:
        case Const(value=value, dtype=dtype):
            return {"const": _number(value, dtype), "dtype": dtype}
        case Var(name=name):
            return {"var": name}
        case Read(tensor=tensor, indices=indices, output=output):
            found: Json = {"read": tensor, "at": [_expr(index) for index in indices]}
            return found | ({"output": output} if output else {})
        case Binary(op=op, a=a, b=b):
            return {"op": op, "a": _expr(a), "b": _expr(b)}
        case Call(fn=fn, a=a):
            return {"call": fn, "a": _expr(a)}
        case Cast(dtype=dtype, a=a):
            return {"cast": dtype, "a": _expr(a)}
        case Select(cond=cond, then=then, other=other):
            return {"select": _expr(cond), "then": _expr(then), "other": _expr(other)}


def _number(value: int | float | bool, dtype: str) -> int | float | bool | str:
    if dtype not in FLOATS:
        return value
    number = float(value)
    return number if math.isfinite(number) else str(number)
