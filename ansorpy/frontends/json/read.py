"""Read the wire form: every value is looked at before it is used, and its place is known."""

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final, NoReturn, TypeVar

from ansorpy.errors import ShapeError, SpecError, quoted
from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Dag, Node, Placeholder
from ansorpy.te.dims import Dim
from ansorpy.te.limits import LIMITS
from ansorpy.te.size_weights import parts_of

T = TypeVar("T")

NON_FINITE: Final[Mapping[str, float]] = {
    "inf": float("inf"),
    "-inf": float("-inf"),
    "nan": float("nan"),
}
ITEM_LIMIT: Final = 2**11  # items of one list
INT_LIMIT: Final = 2**63
KEY_CHARS: Final = 64  # characters of an unknown key that are compared with the known keys


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A value and the way to it, such as `spec.nodes[2].body[0].a`."""

    path: str
    value: object

    def refuse(self, wanted: str) -> NoReturn:
        """Raise the error that names the place, the value and the expected kind."""
        message = f"{self.path} is {_kind(self.value)}, not {wanted}"
        raise ShapeError(message, self.path, "value", wanted)

    def _too_long(self, count: int, unit: str, limit: int) -> NoReturn:
        message = f"{self.path} has {count} {unit}, limit {limit}"
        raise ShapeError(message, self.path, "too_long", f"at most {limit} {unit}")

    def keys(
        self, needed: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> dict[str, "JsonValue"]:
        """Return the values of an object that has these keys and no others."""
        if not isinstance(self.value, dict):
            self.refuse("an object")
        for key in self.value:
            if key not in needed and key not in optional:
                known = (*needed, *optional)
                near = get_close_matches(str(key)[:KEY_CHARS], known, 1)
                there = ", ".join(known) + (f"; the nearest is {near[0]}" if near else "")
                message = f"{self.path}: key {quoted(key)} is not known; there are {there}"
                raise ShapeError(message, f"{self.path}.?", "extra_forbidden", there)
        for key in needed:
            if key not in self.value:
                message, place = f"{self.path}: key {key!r} is missing", f"{self.path}.{key}"
                raise ShapeError(message, place, "missing", "a value")
        return {key: JsonValue(f"{self.path}.{key}", value) for key, value in self.value.items()}

    def has(self, key: str) -> bool:
        """Return whether this is an object with that key."""
        return isinstance(self.value, dict) and key in self.value

    def items(self, read: Callable[["JsonValue"], T], limit: int = ITEM_LIMIT) -> tuple[T, ...]:
        """Return the items of a list, each read by `read`."""
        if not isinstance(self.value, list):
            self.refuse("a list")
        if len(self.value) > limit:
            self._too_long(len(self.value), "items", limit)
        return tuple(
            read(JsonValue(f"{self.path}[{i}]", item)) for i, item in enumerate(self.value)
        )

    def text(self, limit: int = 63) -> str:
        """Return a string of at most `limit` characters."""
        if not isinstance(self.value, str):
            self.refuse("a string")
        if len(self.value) > limit:
            self._too_long(len(self.value), "characters", limit)
        return self.value

    def whole(self) -> int:
        """Return an integer that fits int64."""
        if type(self.value) is not int:
            self.refuse("an integer")
        if not -INT_LIMIT <= self.value < INT_LIMIT:
            self.refuse("an int64")
        return self.value

    def numbers(self) -> dict[int | str, float]:
        """Return the numbers of an object by its keys."""
        found: dict[int | str, float] = {}
        for key, value in _dict(self).items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                JsonValue(f"{self.path}.?", value).refuse("a number")
            found[key] = value
        return found or self.refuse("an object of numbers")

    def flag(self) -> bool:
        """Return a bool."""
        if not isinstance(self.value, bool):
            self.refuse("true or false")
        return self.value


def _kind(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case None:
            return "null"
        case _:
            return quoted(value)


def dag_from(place: JsonValue, version: int) -> Dag:
    """Return the Dag of a document; it is not checked yet.

    Raises:
        SpecError: something is not as docs/wire.md says.
    """
    # The version comes first: the keys of another version may differ.
    if place.has("ansorpy"):
        found = JsonValue(f"{place.path}.ansorpy", dict(_dict(place))["ansorpy"])
        if found.whole() != version:
            found.refuse(f"{version}, the only version that is known")
    keys = place.keys(("ansorpy", "name", "nodes", "outputs"))
    dtypes: dict[str, tuple[str, ...]] = {}
    nodes = keys["nodes"].items(lambda node: _node(node, dtypes), LIMITS.nodes)
    outputs = keys["outputs"].items(JsonValue.text, LIMITS.nodes)
    return Dag(nodes, outputs, keys["name"].text())


def _dict(place: JsonValue) -> dict[str, object]:
    return place.value if isinstance(place.value, dict) else {}


def _node(place: JsonValue, dtypes: dict[str, tuple[str, ...]]) -> Node:
    """Read one node; its reads take their dtypes from `dtypes`, by name of an earlier node."""
    if not place.has("kind"):
        place.keys(("kind",))
    kind = JsonValue(f"{place.path}.kind", _dict(place)["kind"])
    match kind.value:
        case "placeholder":
            node: Node = _placeholder(place)
        case "constant":
            node = _constant(place)
        case "compute":
            node = _compute(place, dtypes)
        case _:
            kind.refuse("placeholder, constant or compute")
    dtypes[node.name] = node.dtypes if isinstance(node, Compute) else (node.dtype,)
    return node


def _placeholder(place: JsonValue) -> Placeholder:
    keys = place.keys(("kind", "name", "shape", "dtype"), ("constant",))
    constant = keys["constant"].flag() if "constant" in keys else False
    shape = keys["shape"].items(read_extent, LIMITS.rank)
    return Placeholder(keys["name"].text(), shape, keys["dtype"].text(), constant)


def _constant(place: JsonValue) -> ConstantTensor:
    keys = place.keys(("kind", "name", "shape", "dtype", "data"))
    encoded = keys["data"].text(2 * LIMITS.constant_bytes)
    try:
        data = base64.b64decode(encoded.encode("ascii"), validate=True)
    except (ValueError, binascii.Error):
        path = f"{place.path}.data"
        raise ShapeError(f"{path} is not base64", path, "value", "base64") from None
    shape = keys["shape"].items(read_extent, LIMITS.rank)
    return ConstantTensor(keys["name"].text(), shape, keys["dtype"].text(), data)


def _compute(place: JsonValue, dtypes: Mapping[str, tuple[str, ...]]) -> Compute:
    keys = place.keys(
        ("kind", "name", "axes", "dtypes", "body"), ("combiner", "reduce_axes", "start", "attrs")
    )
    reader = _Exprs(dtypes)
    reduce_axes = keys["reduce_axes"].items(_axis, LIMITS.rank) if "reduce_axes" in keys else ()
    return Compute(
        name=keys["name"].text(),
        axes=keys["axes"].items(_axis, LIMITS.rank),
        body=keys["body"].items(reader.read, 2),
        dtypes=keys["dtypes"].items(JsonValue.text, 2),
        reduce_axes=reduce_axes,
        combiner=keys["combiner"].text() if "combiner" in keys else None,
        start=reader.read(keys["start"]) if "start" in keys else None,
        attrs=_attrs(keys["attrs"]) if "attrs" in keys else Attrs(),
    )


def read_extent(place: JsonValue) -> int:
    """Return an integer, or a dim: {"dim": name, "low": least, "high": largest}, and two optional
    keys, "step" and "weights", an object of numbers by size or range.
    """
    if not place.has("dim"):
        return place.whole()
    keys = place.keys(("dim", "low", "high"), ("step", "weights"))
    step = keys["step"].whole() if "step" in keys else 1
    weights = keys["weights"].numbers() if "weights" in keys else {}
    try:
        parts = parts_of(weights)
        return Dim(keys["dim"].text(), keys["low"].whole(), keys["high"].whole(), step, parts)
    except ShapeError:
        raise
    except SpecError as error:
        message = f"{place.path}: {error}"
        raise ShapeError(message, place.path, "value", "a name and a range of integers") from None


def _axis(place: JsonValue) -> Axis:
    parts = place.items(lambda part: part, 2)
    if len(parts) != 2:
        place.refuse("a name and an extent")
    return Axis(parts[0].text(), read_extent(parts[1]))


def _attrs(place: JsonValue) -> Attrs:
    lists = ("unroll", "no_split_inner", "const_axes", "layout_free")
    keys = place.keys((), (*lists, "flop"))
    names = {key: keys[key].items(JsonValue.text) for key in lists if key in keys}
    return Attrs(**names, flop=keys["flop"].whole() if "flop" in keys else None)


class _Exprs:
    """Reads the expressions of one node; counts their parts and their nesting."""

    def __init__(self, dtypes: Mapping[str, tuple[str, ...]]) -> None:
        self.dtypes = dtypes
        self.parts = 0

    def read(self, place: JsonValue, depth: int = 1) -> Expr:
        self.parts += 1
        if self.parts > LIMITS.terms:
            raise SpecError(f"{place.path[:120]}: more than {LIMITS.terms} parts in one node")
        if depth > LIMITS.depth:
            raise SpecError(f"{place.path[:120]}...: nested deeper than {LIMITS.depth}")
        for key, read in self._readers.items():
            if place.has(key):
                return read(self, place, depth + 1)
        place.refuse(f"an expression: an object with one of {', '.join(self._readers)}")

    def _const(self, place: JsonValue, _: int) -> Expr:
        keys = place.keys(("const", "dtype"))
        dtype, value = keys["dtype"].text(), keys["const"].value
        if isinstance(value, str) and value in NON_FINITE and dtype in FLOATS:
            return Const(NON_FINITE[value], dtype)
        if isinstance(value, float) and not math.isfinite(value):
            keys["const"].refuse("finite; write it as a string")
        if isinstance(value, bool | float):
            return Const(value, dtype)
        number = keys["const"].whole()
        return Const(float(number) if dtype in FLOATS else number, dtype)

    def _var(self, place: JsonValue, _: int) -> Expr:
        return Var(place.keys(("var",))["var"].text())

    def _read(self, place: JsonValue, depth: int) -> Expr:
        keys = place.keys(("read", "at"), ("output",))
        tensor = keys["read"].text()
        output = keys["output"].whole() if "output" in keys else 0
        indices = keys["at"].items(lambda index: self.read(index, depth), LIMITS.rank)
        # A tensor that is not there, or has no such output, is refused by the check of the Dag.
        known = self.dtypes.get(tensor, ())
        dtype = known[output] if 0 <= output < len(known) else "float32"
        return Read(tensor, indices, dtype, output)

    def _binary(self, place: JsonValue, depth: int) -> Expr:
        keys = place.keys(("op", "a", "b"))
        return Binary(keys["op"].text(), self.read(keys["a"], depth), self.read(keys["b"], depth))

    def _call(self, place: JsonValue, depth: int) -> Expr:
        keys = place.keys(("call", "a"))
        return Call(keys["call"].text(), self.read(keys["a"], depth))

    def _cast(self, place: JsonValue, depth: int) -> Expr:
        keys = place.keys(("cast", "a"))
        return Cast(keys["cast"].text(), self.read(keys["a"], depth))

    def _select(self, place: JsonValue, depth: int) -> Expr:
        keys = place.keys(("select", "then", "other"))
        parts = (self.read(keys[key], depth) for key in ("select", "then", "other"))
        return Select(*parts)

    _readers: Final[Mapping[str, Callable[["_Exprs", JsonValue, int], Expr]]] = {
        "const": _const,
        "var": _var,
        "read": _read,
        "op": _binary,
        "call": _call,
        "cast": _cast,
        "select": _select,
    }
