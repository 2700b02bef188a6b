"""Documents of graphs made to hurt the reader, each with the text of its refusal."""

import base64
import json
from collections.abc import Callable
from typing import Any, Final

from ansorpy.graph.wire.document import KEY

Json = dict[str, Any]


def valid() -> Json:
    """Return a convolution with a bias that is sent, and a reshape."""
    shape = base64.b64encode(b"".join(n.to_bytes(8, "little") for n in (1, 32))).decode()
    return {
        KEY: 1,
        "inputs": [{"dtype": "float32", "shape": [1, 3, 6, 6]}],
        "weights": [
            {"dtype": "float32", "shape": [2, 3, 3, 3]},
            {"dtype": "int64", "shape": [2], "data": shape},
        ],
        "nodes": [
            {"op": "Conv", "inputs": [0, 1], "outputs": [3], "attrs": {"strides": [1, 1]}},
            {"op": "Reshape", "inputs": [3, 2], "outputs": [4], "attrs": {}},
        ],
        "outputs": [4],
    }


def changed(*path: Any, to: Any) -> Callable[[], Json]:
    """Return a document with one place replaced."""

    def make() -> Json:
        document = valid()
        at: Any = document
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = to
        return document

    return make


def conv(**attrs: Any) -> Callable[[], Json]:
    return changed("nodes", 0, "attrs", to=attrs)


def chain(count: int, op: str = "Relu") -> Json:
    """Return nodes one behind the other."""
    nodes = [{"op": op, "inputs": [n], "outputs": [n + 1], "attrs": {}} for n in range(count)]
    given = [{"dtype": "float32", "shape": [4]}]
    return {KEY: 1, "inputs": given, "weights": [], "nodes": nodes, "outputs": [count]}


def doubling(count: int) -> Json:
    """Return values that are joined with themselves again and again."""
    document = chain(count, "Concat")
    for n, node in enumerate(document["nodes"]):
        node |= {"inputs": [n, n], "attrs": {"axis": 0}}
    return document


def resized(extent: int) -> Json:
    """Return a resize to many elements."""
    sizes = base64.b64encode(extent.to_bytes(8, "little")).decode()
    weights = [{"dtype": "int64", "shape": [1], "data": sizes}]
    node = {"op": "Resize", "inputs": [0, None, None, 1], "outputs": [2], "attrs": {}}
    given = [{"dtype": "float32", "shape": [4]}]
    return {KEY: 1, "inputs": given, "weights": weights, "nodes": [node], "outputs": [2]}


def weights(count: int, *shape: int) -> Callable[[], Json]:
    """Return many absent weights."""
    return changed("weights", to=[{"dtype": "float32", "shape": list(shape)}] * count)


NAME: Final = "x" * 100_000
# Documents that the reader refuses: each message has this text.
READ: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "a list": (lambda: [], r"graph is a list, not an object"),
    "nothing": (dict, r"key 'ansorpy_graph' is missing"),
    "another version": (changed(KEY, to=2), r"graph.ansorpy_graph is 2, not 1"),
    "a version of text": (changed(KEY, to="1"), r"graph.ansorpy_graph is '1', not an integer"),
    "an unknown key": (changed(NAME, to=1), r"graph: key 'x{1,80}.* is not known"),
    "no list of nodes": (changed("nodes", to={}), r"graph.nodes is an object, not a list"),
    "too many nodes": (lambda: chain(1 << 15), r"graph.nodes has 32768 items, limit 16384"),
    "too many inputs": (
        changed("inputs", to=[{"dtype": "float32", "shape": []}] * (1 << 15)),
        r"graph.inputs has 32768 items, limit 16384",
    ),
    "no outputs": (changed("outputs", to=[]), r"graph.outputs is a list, not a list of at least"),
    "an output from nowhere": (changed("outputs", 0, to=9), r"graph.outputs\[0\] is 9, not the nu"),
    "an input of later": (changed("nodes", 0, "inputs", 0, to=3), r"nodes\[0\].inputs\[0\] is 3"),
    "an input of itself": (changed("nodes", 1, "inputs", 0, to=4), r"nodes\[1\].inputs\[0\] is 4"),
    "a negative value": (changed("nodes", 0, "inputs", 0, to=-1), r"inputs\[0\] is -1, not the nu"),
    "a value by name": (changed("nodes", 0, "inputs", 0, to="x"), r"inputs\[0\] is 'x', not an in"),
    "a value of true": (changed("nodes", 0, "inputs", 0, to=True), r"inputs\[0\] is True, not an"),
    "a value twice": (changed("nodes", 1, "outputs", to=[3]), r"nodes\[1\].outputs is a list, not"),
    "no output": (changed("nodes", 1, "outputs", to=[None]), r"the next numbers, from 4 on"),
    "too many operands": (changed("nodes", 0, "inputs", to=[0] * 5000), r"items, limit 1024"),
    "an operator of code": (
        changed("nodes", 0, "op", to="__import__('os')"), r"nodes\[0\].op is .* not a name of let",
    ),
    "a long operator": (changed("nodes", 0, "op", to=NAME), r"op has 100000 characters, limit 64"),
    "a long attribute": (conv(**{NAME: 1}), r"attrs: key 0 has 100000 characters, limit 64"),
    "many attributes": (conv(**{f"a{n}": 1 for n in range(99)}), r"attrs has 99 keys, limit 32"),
    "a large integer": (conv(group=2**63), r"attrs.group is 9223372036854775808, not an int64"),
    "a huge integer": (conv(group=10**3000), r"attrs.group is an integer of \d+ bits, not an int"),
    "a bool": (conv(group=True), r"attrs.group is True, not a number, a string or a list"),
    "a nested list": (conv(pads=[[0]]), r"attrs.pads\[0\] is a list, not a number"),
    "a mixed list": (conv(pads=[0, "0"]), r"attrs.pads is a list, not a list of items of one kind"),
    "a long list": (conv(pads=[0] * 5000), r"attrs.pads has 5000 items, limit 4096"),
    "an unknown float": (conv(group={"float": "1"}), r"group.float is '1', not one of inf, -inf"),
    "a dtype of code": (changed("inputs", 0, "dtype", to="O"), r"dtype is 'O', not one of float16"),
    "a negative extent": (changed("inputs", 0, "shape", to=[-1]), r"shape\[0\] is -1, not an ext"),
    "a symbolic extent": (changed("inputs", 0, "shape", to=["n"]), r"shape\[0\] is 'n', not an in"),
    "a large extent": (changed("inputs", 0, "shape", to=[2**40]), r"shape\[0\] is 1099511627776"),
    "a large tensor": (
        changed("inputs", 0, "shape", to=[2**20] * 3), r"inputs\[0\] has \d+ bytes, limit",
    ),
    "a named dim": (
        changed("inputs", 0, "shape", to=[{"dim": "n", "low": 1, "high": 4}]), r"dims are not d0",
    ),
    "a dim of two ranges": (
        changed("inputs", 0, "shape", to=[{"dim": "d0", "low": low, "high": 4} for low in (1, 2)]),
        r"dims are not d0, d1",
    ),
    "an empty range": (
        changed("inputs", 0, "shape", to=[{"dim": "d0", "low": 5, "high": 4}]), r"because it is em",
    ),
    "many dims": (
        changed("inputs", 0, "shape", to=[{"dim": f"d{n}", "low": 1, "high": 2} for n in range(5)]),
        r"has 5 dims, limit 4",
    ),
    "a dim of a weight": (
        changed("weights", 0, "shape", 0, to={"dim": "d0", "low": 1, "high": 2}),
        r"graph.weights: a dim is none of the inputs",
    ),
    "few sizes": (changed("weights", 1, "sizes", to=[1]), r"sizes is a list, not an extent for"),
    "sizes without data": (
        changed("weights", 0, "sizes", to=[1] * 54), r"sizes is a list, not an extent for each",
    ),
    "a high rank": (changed("inputs", 0, "shape", to=[1] * 17), r"shape has 17 items, limit 16"),
    "many large weights": (weights(9, 1 << 28), r"graph.weights: absent weights have 9663676416 b"),
    "data of an input": (
        changed("inputs", 0, "data", to=""), r"graph.inputs\[0\]: key 'data' is not known",
    ),
    "no base64": (changed("weights", 1, "data", to="!" * 8), r"weights\[1\].data is .* not base64"),
    "short data": (changed("weights", 1, "data", to="AAAA"), r"data has 3 bytes, not 16"),
    "long data": (changed("weights", 1, "data", to="A" * 10**6), r"has 1000000 characters, limit"),
    "much data": (
        changed("weights", 1, to={"dtype": "int8", "shape": [1 << 30], "data": ""}),
        r"weights\[1\] has 1073741824 bytes, limit 4194304 if sent",
    ),
    "a bool of 2": (
        changed("weights", 1, to={"dtype": "bool", "shape": [3], "data": "AAEC"}),
        r"weights\[1\].data has a bool that is neither 0 nor 1",
    ),
}  # fmt: skip
# Texts that are no JSON that is read.
TEXTS: Final[dict[str, tuple[str, str]]] = {
    "deep": ("[" * 100_000, r"nested too deep|Expecting value"),
    "deep objects": ('{"a":' * 100_000, r"nested too deep|Expecting value"),
    "long": (" " * (9 << 20), r"it has 9437184 bytes; expected at most 8388608"),
    "a key twice": ('{"a": 1, "a": 2}', r"a key is there twice"),
    "not a number": ('{"a": NaN}', r"NaN is not JSON"),
    "half": (json.dumps(valid())[:200], r"no JSON that can be read"),
    "a long integer": ('{"a": ' + "9" * 100_000 + "}", r"Exceeds the limit"),
}
# Documents that can be read, and whose operators refuse them.
BUILT: Final[dict[str, tuple[Callable[[], Any], str]]] = {
    "an unknown operator": (
        changed("nodes", 0, "op", to="Frob"), r"node 'nodes\[0\]' \(Frob\) because .*no kernel",
    ),
    "a hosted operator": (changed("nodes", 0, "op", to="Unique"), r"'nodes\[0\]' \(Unique\)"),
    "an unknown attribute": (conv(evil=1), r"'nodes\[0\]' \(Conv\) because attribute 'evil' is n"),
    "an attribute of text": (conv(group="a"), r"'nodes\[0\]' \(Conv\) because"),
    "a list of text": (conv(pads=["a", "b", "c", "d"]), r"'nodes\[0\]' \(Conv\) because"),
    "no division": (conv(group=0), r"'nodes\[0\]' \(Conv\) because"),
    "a stride of none": (conv(strides=[0, 0]), r"'nodes\[0\]' \(Conv\) because"),
    "a negative group": (conv(group=-1), r"'nodes\[0\]' \(Conv\) because"),
    "huge padding": (conv(pads=[2**40] * 4), r"'nodes\[0\]' \(Conv\) because"),
    "an infinite alpha": (
        changed("nodes", 1, to={
            "op": "LeakyRelu", "inputs": [3], "outputs": [4],
            "attrs": {"alpha": [1.0]},
        }), r"'nodes\[1\]' \(LeakyRelu\)",
    ),
    "a shape that is not sent": (
        changed("weights", 1, to={"dtype": "int64", "shape": [2]}), r"its values are not here",
    ),
    "too few operands": (changed("nodes", 0, "inputs", to=[0]), r"'nodes\[0\]' \(Conv\)"),
    "too many outputs": (
        changed("nodes", 1, "outputs", to=[4, 5, 6]), r"'nodes\[1\]' \(Reshape\) because it has 3",
    ),
    "doubling": (lambda: doubling(60), r"'nodes\[\d+\]' \(Concat\) because"),
    "a huge resize": (lambda: resized(2**33), r"'nodes\[0\]' \(Resize\) because"),
    "a constant": (
        changed("nodes", 1, to={"op": "Shape", "inputs": [3], "outputs": [4], "attrs": {}}),
        r"cannot keep node 'nodes\[1\]' \(Shape\) because it is a constant",
    ),
}  # fmt: skip
