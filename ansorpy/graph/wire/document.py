"""The parts of a document: values have numbers, and nothing has a name of the user's model.

Numbers count the inputs, then the weights, then the outputs of the nodes in order.
"""

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from itertools import zip_longest
from math import prod
from typing import Any, Final

import numpy as np

from ansorpy.errors import GraphError, SpecError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Attribute, Graph, Node, Weight
from ansorpy.graph.merge import check_dims
from ansorpy.te.dims import extents_as_json, has_dims
from ansorpy.te.tensor_data import storage

VERSION: Final = 1
KEY: Final = "ansorpy_graph"  # key of the version; no document of a Dag has it

# Errors of an operator that is given attributes of other kinds than an importer gives it.
MISUSE: Final = (
    TypeError, ValueError, LookupError, ArithmeticError, AttributeError, AssertionError,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class SentTensor:
    """The facts of an input or a weight; `data` are C-ordered little-endian values, if sent.

    Extents may be dims. `sizes` are the elements of a weight if some of them are dims, whose `data`
    has the largest sizes.
    """

    dtype: str
    shape: tuple[int, ...]
    data: bytes | None = None
    sizes: tuple[int, ...] = ()

    @property
    def size_bytes(self) -> int:
        """The bytes of all elements."""
        return prod(self.shape) * SIZE_BYTES[self.dtype]

    @property
    def array(self) -> Array:
        """The values that were sent; bfloat16 as uint16 bit patterns."""
        assert self.data is not None
        kind = storage(self.dtype).newbyteorder("<")
        return np.frombuffer(self.data, kind).astype(kind.newbyteorder("=")).reshape(self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{list(self.shape)}"


@dataclass(frozen=True, slots=True)
class SentNode:
    """An operator applied to values by number; None stands for an absent input or output."""

    op: str
    inputs: tuple[int | None, ...]
    outputs: tuple[int | None, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A graph without names, and without the values of most weights."""

    inputs: tuple[SentTensor, ...]
    weights: tuple[SentTensor, ...]
    nodes: tuple[SentNode, ...]
    outputs: tuple[int, ...]

    @cached_property
    def json(self) -> dict[str, Any]:
        """The document as dicts, lists, strings and finite numbers."""
        return {
            KEY: VERSION,
            "inputs": [_tensor(one) for one in self.inputs],
            "weights": [_tensor(one) for one in self.weights],
            "nodes": [
                {
                    "op": node.op,
                    "inputs": list(node.inputs),
                    "outputs": list(node.outputs),
                    "attrs": {name: _attribute(node.attrs[name]) for name in sorted(node.attrs)},
                }
                for node in self.nodes
            ],
            "outputs": list(self.outputs),
        }

    @cached_property
    def text(self) -> str:
        """The canonical JSON: equal structures have equal texts."""
        return json.dumps(self.json, allow_nan=False, sort_keys=True, separators=(",", ":"))

    @cached_property
    def sha256(self) -> str:
        """The digest of the structure, hex."""
        return sha256(self.text.encode()).hexdigest()

    @property
    def absent_bytes(self) -> int:
        """The bytes of the weights whose values were not sent."""
        return sum(one.size_bytes for one in self.weights if one.data is None)

    def graph(self, hosted: bool = False) -> Graph:
        """Return the graph; values are v0, v1 ..., outputs out0, out1 ..., nodes nodes[0] ...

        A weight that was not sent has no values: an operator that needs them refuses it.

        Args:
            hosted: operators without a kernel are allowed.

        Raises:
            GraphError: a node cannot be compiled; it is named by its number.
        """
        builder = GraphBuilder("model", hosted, folds=False)
        for number, one in enumerate(self.inputs):
            builder.input(value_name(number), one.shape, one.dtype)
        for number, one in enumerate(self.weights, len(self.inputs)):
            builder.weight(value_name(number), _weight(one, number))
        for number, node in enumerate(self.nodes):
            label = node_name(number)
            given, made = (
                ["" if value is None else value_name(value) for value in values]
                for values in (node.inputs, node.outputs)
            )
            try:
                builder.add(node.op, given, made, node.attrs, label)
            except SpecError:
                raise
            except MISUSE as error:
                raise GraphError(
                    f"cannot compile {Node(node.op, (), (), name=label)} because the operator does"
                    f" not take its inputs and attributes ({type(error).__name__}); expected those"
                    " of docs/operators.md"
                ) from error
        for number, value in enumerate(self.outputs):
            builder.output(f"out{number}", value_name(value))
        graph = builder.graph()
        check_dims(graph)
        return graph


def dim_name(number: int) -> str:
    """Return the name of a dim in a document."""
    return f"d{number}"


def value_name(number: int) -> str:
    """Return the name of a value in the graph of a document."""
    return f"v{number}"


def node_name(number: int) -> str:
    """Return the name of a node in the graph of a document, which tells its place there."""
    return f"nodes[{number}]"


@dataclass(frozen=True, slots=True)
class Difference:
    """A place where two documents differ: an item of a list of both, and its two texts."""

    part: str
    number: int
    left: str
    right: str


def first_difference(left: Document, right: Document) -> Difference | None:
    """Return the first difference of two documents, None if they are equal.

    Texts are compared, so that numbers of another kind differ too.
    """
    for part in ("inputs", "weights", "nodes", "outputs"):
        for number, pair in enumerate(zip_longest(left.json[part], right.json[part])):
            a, b = (json.dumps(item, sort_keys=True) for item in pair)
            if a != b:
                return Difference(part, number, a, b)
    return None


def _weight(tensor: SentTensor, number: int) -> Weight:
    if tensor.data is not None:
        sent = Weight.of(tensor.array, tensor.dtype)
        dims = has_dims((*tensor.shape, *tensor.sizes))
        return sent.with_dims(tensor.shape, tensor.sizes) if dims else sent
    # No two absent weights are known to be equal: each has a digest of its own.
    return Weight(tensor.shape, tensor.dtype, sha256(f"absent {number}".encode()).hexdigest())


def _tensor(tensor: SentTensor) -> dict[str, Any]:
    facts: dict[str, Any] = {"dtype": tensor.dtype, "shape": extents_as_json(tensor.shape)}
    if tensor.sizes:
        facts["sizes"] = extents_as_json(tensor.sizes)
    if tensor.data is None:
        return facts
    return facts | {"data": base64.b64encode(tensor.data).decode("ascii")}


def _attribute(value: Attribute) -> Any:
    match value:
        case tuple():
            return [_attribute(item) for item in value]
        case float() if not math.isfinite(value):
            return {"float": str(float(value))}
        case _:
            return value
