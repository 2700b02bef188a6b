"""From parsed JSON to a document: a value is looked at before it is used, and its place is known.

Nothing is allocated beyond the values in the JSON: sizes of absent weights are numbers.
"""

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Final

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import DTYPES, SIZE_BYTES
from ansorpy.frontends.json.read import NON_FINITE, JsonValue, read_extent
from ansorpy.frontends.json.strict import parse_json
from ansorpy.graph.builder import LARGEST_VALUE
from ansorpy.graph.graph import Attribute
from ansorpy.graph.wire.document import KEY, VERSION, Document, SentNode, SentTensor, dim_name
from ansorpy.te.dims import MOST_DIMS, dims_in, has_dims

WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}", re.ASCII)  # operators, attributes
PLACE: Final = "graph"


@dataclass(frozen=True, slots=True)
class DocumentLimits:
    """Upper limits, all inclusive; the largest model of the benchmarks has 2,000 nodes.

    `absent_bytes`: of the weights that are not sent, for which the reader draws numbers.
    """

    text_bytes: int = 8 << 20
    nodes: int = 1 << 14
    tensors: int = 1 << 14  # inputs, and weights
    rank: int = 16
    arity: int = 1 << 10  # inputs, or outputs, of one node
    attributes: int = 32
    items: int = 1 << 12  # items of an attribute
    characters: int = 1000  # characters of a string
    sent_bytes: int = 4 << 20  # bytes of all values that are sent
    absent_bytes: int = 1 << 32  # bytes; a bundle has no more


LIMITS: Final = DocumentLimits()


def loads(text: str | bytes, limits: DocumentLimits = LIMITS) -> Document:
    """Return the document of a text; errors as `from_json`."""
    if len(text) > limits.text_bytes:
        raise SpecError(
            f"cannot read the graph because it has {len(text)} bytes; expected at most"
            f" {limits.text_bytes}"
        )
    try:
        value = parse_json(text)
    except ValueError as error:
        raise SpecError(
            f"cannot read the graph because it is no JSON that can be read: {str(error)[:200]};"
            " expected a document of docs/graph.md"
        ) from None
    return from_json(value, limits)


def from_json(value: object, limits: DocumentLimits = LIMITS) -> Document:
    """Return the document of parsed JSON.

    Raises:
        SpecError: names the place, the value and the expected kind, or the limit.
    """
    place = JsonValue(PLACE, value)
    if isinstance(value, dict) and KEY in value:  # first: keys of another version may differ
        version = JsonValue(f"{PLACE}.{KEY}", value[KEY])
        if version.whole() != VERSION:
            version.refuse(f"{VERSION}, the only version that is known")
    keys = place.keys((KEY, "inputs", "weights", "nodes", "outputs"))
    inputs = keys["inputs"].items(partial(_tensor, limits=limits), limits.tensors)
    weights = keys["weights"].items(partial(_weight, limits=limits), limits.tensors)
    for which, sizes, most in (
        ("sent", (len(one.data) for one in weights if one.data is not None), limits.sent_bytes),
        ("absent", (one.size_bytes for one in weights if one.data is None), limits.absent_bytes),
    ):
        total = sum(sizes)
        if total > most:
            raise SpecError(f"{PLACE}.weights: {which} weights have {total} bytes, limit {most}")
    _check_dims(inputs, weights)
    known = len(inputs) + len(weights)
    if len(_list(keys["nodes"])) > limits.nodes:
        raise SpecError(
            f"{PLACE}.nodes has {len(_list(keys['nodes']))} items, limit {limits.nodes}"
        )
    nodes = []
    for number, item in enumerate(_list(keys["nodes"])):
        node = _node(JsonValue(f"{PLACE}.nodes[{number}]", item), known, limits)
        known += sum(one is not None for one in node.outputs)
        nodes.append(node)
    outputs = keys["outputs"].items(partial(_number, below=known), limits.tensors)
    if not outputs:
        keys["outputs"].refuse("a list of at least one value")
    return Document(inputs, weights, tuple(nodes), outputs)


def _tensor(place: JsonValue, limits: DocumentLimits, data: bool = False) -> SentTensor:
    keys = place.keys(("dtype", "shape"), ("data", "sizes") if data else ())
    dtype = keys["dtype"].text()
    if dtype not in DTYPES:
        keys["dtype"].refuse(f"one of {', '.join(DTYPES)}")
    shape = keys["shape"].items(_extent, limits.rank)
    size_bytes = prod(shape) * SIZE_BYTES[dtype]
    if size_bytes > LARGEST_VALUE:
        raise SpecError(f"{place.path} has {size_bytes} bytes, limit {LARGEST_VALUE}")
    sizes = keys["sizes"].items(read_extent, prod(shape)) if "sizes" in keys else ()
    if sizes and (len(sizes) != prod(shape) or "data" not in keys or has_dims(shape)):
        keys["sizes"].refuse("an extent for each element of the data")
    if "data" not in keys:
        return SentTensor(dtype, shape)
    if size_bytes > limits.sent_bytes:
        raise SpecError(f"{place.path} has {size_bytes} bytes, limit {limits.sent_bytes} if sent")
    return SentTensor(dtype, shape, _data(keys["data"], dtype, size_bytes), sizes)


def _weight(place: JsonValue, limits: DocumentLimits) -> SentTensor:
    return _tensor(place, limits, data=True)


def _data(place: JsonValue, dtype: str, size_bytes: int) -> bytes:
    """Return the bytes of base64, whose length is looked at first."""
    text = place.text(4 * -(-size_bytes // 3))
    try:
        data = base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error):
        place.refuse("base64")
    if len(data) != size_bytes:
        raise SpecError(f"{place.path} has {len(data)} bytes, not {size_bytes}")
    if dtype == "bool" and max(data, default=0) > 1:
        raise SpecError(f"{place.path} has a bool that is neither 0 nor 1")
    return data


def _node(place: JsonValue, known: int, limits: DocumentLimits) -> SentNode:
    keys = place.keys(("op", "inputs", "outputs", "attrs"))
    inputs = keys["inputs"].items(partial(_optional, below=known), limits.arity)
    outputs = keys["outputs"].items(partial(_optional, below=known + limits.arity), limits.arity)
    made = [one for one in outputs if one is not None]
    if made != list(range(known, known + len(made))) or not made:
        keys["outputs"].refuse(f"the next numbers, from {known} on")
    return SentNode(_word(keys["op"]), inputs, outputs, _attributes(keys["attrs"], limits))


def _attributes(place: JsonValue, limits: DocumentLimits) -> dict[str, Attribute]:
    if not isinstance(place.value, dict):
        place.refuse("an object")
    if len(place.value) > limits.attributes:
        raise SpecError(f"{place.path} has {len(place.value)} keys, limit {limits.attributes}")
    attributes: dict[str, Attribute] = {}
    for number, (name, value) in enumerate(place.value.items()):
        word = _word(JsonValue(f"{place.path}: key {number}", name))
        entry = JsonValue(f"{place.path}.{word}", value)
        if isinstance(value, list):
            items = entry.items(partial(_scalar, limits=limits), limits.items)
            if len({type(item) for item in items}) > 1:
                entry.refuse("a list of items of one kind")
            attributes[word] = items  # type: ignore[assignment]  # items of one kind
        else:
            attributes[word] = _scalar(entry, limits)
    return attributes


def _scalar(place: JsonValue, limits: DocumentLimits) -> int | float | str:
    match place.value:
        case bool():
            place.refuse("a number, a string or a list")
        case int():
            return place.whole()
        case float():
            return place.value
        case str():
            return place.text(limits.characters)
        case dict():
            inner = place.keys(("float",))["float"]
            name = inner.text()
            if name not in NON_FINITE:
                inner.refuse(f"one of {', '.join(NON_FINITE)}")
            return NON_FINITE[name]
        case _:
            place.refuse("a number, a string or a list")


def _word(place: JsonValue) -> str:
    text = place.text(64)
    if not WORD.fullmatch(text):
        place.refuse("a name of letters, digits and _")
    return text


def _check_dims(inputs: Sequence[SentTensor], weights: Sequence[SentTensor]) -> None:
    """Refuse dims that have other names than their numbers, or are none of the inputs."""
    dims = dims_in(extent for one in inputs for extent in one.shape)
    if [one.name for one in dims] != [dim_name(number) for number in range(len(dims))]:
        raise SpecError(f"{PLACE}.inputs: dims are not d0, d1 ... in order, each with one range")
    if len(dims) > MOST_DIMS:
        raise SpecError(f"{PLACE}.inputs has {len(dims)} dims, limit {MOST_DIMS}")
    if not set(dims) >= set(dims_in(n for one in weights for n in (*one.shape, *one.sizes))):
        raise SpecError(f"{PLACE}.weights: a dim is none of the inputs")


def _extent(place: JsonValue) -> int:
    if place.has("dim"):
        return read_extent(place)
    extent = place.whole()
    if not 0 <= extent <= LARGEST_VALUE:
        place.refuse(f"an extent of at most {LARGEST_VALUE}")
    return extent


def _number(place: JsonValue, below: int) -> int:
    number = place.whole()
    if not 0 <= number < below:
        place.refuse(f"the number of a value, below {below}")
    return number


def _optional(place: JsonValue, below: int) -> int | None:
    return None if place.value is None else _number(place, below)


def _list(place: JsonValue) -> list[object]:
    if not isinstance(place.value, list):
        place.refuse("a list")
    return place.value
