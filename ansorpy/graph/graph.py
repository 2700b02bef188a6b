"""Graphs of a model: frozen values, weights and nodes in topological order."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ansorpy.errors import GraphError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.graph.remedies import extent_options
from ansorpy.te.dims import Dim, dims_in

RESERVED: Final = "__metadata__"  # key of the facts of a file of tensors: no tensor has this name

Array = NDArray[Any]
Attribute = int | float | str | tuple[int, ...] | tuple[float, ...] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Symbol:
    """A symbolic extent from `low` to `high`, both included."""

    name: str
    low: int
    high: int

    @property
    def remedy(self) -> str:
        """The end of a message that refuses the extent; results that may be empty have low 0."""
        if self.low:
            return f"expected a number: bind it, as in {extent_options(self.name)}"
        return "expected a model that ends there, because the number is known at run time only"


Extent = int | Symbol


@dataclass(frozen=True, slots=True)
class ValueInfo:
    """The name, shape and dtype of a tensor that flows between nodes; an extent may be a dim."""

    name: str
    shape: tuple[Extent, ...]
    dtype: str

    @property
    def fixed_shape(self) -> tuple[int, ...]:
        """The shape in numbers.

        Raises:
            GraphError: an extent is symbolic.
        """
        for extent in self.shape:
            if isinstance(extent, Symbol):
                raise GraphError(
                    f"cannot use value {self.name!r} because its extent {extent.name!r} is"
                    f" symbolic; {extent.remedy}"
                )
        return tuple(extent for extent in self.shape if isinstance(extent, int))

    @property
    def size_bytes(self) -> int:
        """The bytes of the tensor, in C order without gaps, dims at their largest sizes."""
        return prod(self.fixed_shape) * SIZE_BYTES[self.dtype]


@dataclass(frozen=True, slots=True)
class Weight:
    """A constant tensor: its digest, and its values where they are at hand.

    `digest` is the sha256 of dtype, shape and little-endian bytes. bfloat16 values are uint16
    bit patterns. The values of a weight whose shape has dims are those at the largest sizes: a call
    reads the first ones along each dim. `sizes` are the elements of integers, if some of them are
    dims, such as the shape that a Reshape gets.
    """

    shape: tuple[int, ...]
    dtype: str
    digest: str
    load: Callable[[], Array] | None = field(default=None, compare=False, repr=False)
    sizes: tuple[int, ...] = ()

    @classmethod
    def of(cls, array: Array, dtype: str | None = None) -> "Weight":
        """Return the weight of an array, which must not be written to afterwards.

        Args:
            dtype: the dtype of the array unless given; "bfloat16" for uint16 bit patterns.
        """
        kind = array.dtype.name if dtype is None else dtype
        values = np.ascontiguousarray(array).reshape(array.shape)
        little = values.astype(values.dtype.newbyteorder("<"), copy=False)
        digest = sha256(f"{kind}{list(array.shape)}".encode())
        digest.update(little.reshape(-1).view(np.uint8).data if little.size else b"")
        return cls(tuple(array.shape), kind, digest.hexdigest(), lambda: values)

    def with_dims(self, shape: Sequence[int], sizes: Sequence[int] = ()) -> "Weight":
        """Return a weight of these values whose shape, or whose elements, have dims."""
        facts = f"{self.digest}{list(shape)}{list(sizes)}".encode()
        digest = sha256(facts).hexdigest()
        return replace(self, shape=tuple(shape), digest=digest, sizes=tuple(sizes))

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The dims on which the values depend."""
        return dims_in((*self.shape, *self.sizes))

    @property
    def array(self) -> Array:
        """The values.

        Raises:
            GraphError: they are not at hand.
        """
        if self.load is None:
            raise GraphError(
                f"cannot read weight sha256:{self.digest} because its values are not here;"
                " expected a graph with weights"
            )
        return self.load()

    @property
    def elements(self) -> int:
        """The number of elements."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class Node:
    """An operator applied to values by name; "" stands for an absent optional input or output.

    `name` is the node's name in the user's model, for messages.
    """

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Attribute] = field(default_factory=dict)
    name: str = ""

    def __str__(self) -> str:
        label = self.name or next(iter(self.outputs), "")
        return f"node {label[:80]!r} ({self.op})"


@dataclass(frozen=True, slots=True)
class View:
    """The elements of a value within another one: a run of them in row-major order.

    `at` is the number of elements of `of` that lie before the run.
    """

    of: str
    at: int = 0


def dims_of_call(inputs: Sequence[str], values: Mapping[str, ValueInfo]) -> tuple[Dim, ...]:
    """Return the dims of inputs, and the sums of dims that other values have."""
    given = (extent for name in inputs for extent in values[name].shape)
    sums = (n for one in values.values() for n in one.shape if isinstance(n, Dim) and n.terms)
    return dims_in((*given, *sums))


@dataclass(frozen=True, slots=True)
class Output:
    """A result of the model: its public name, and the value that it is."""

    name: str
    value: str


@dataclass(frozen=True)
class Graph:
    """Nodes in topological order.

    Args:
        values: the facts of every value by name: inputs, weights, and outputs of nodes.
        bound: inputs of the file that the graph was made for a value of, by name.
    """

    nodes: tuple[Node, ...]
    inputs: tuple[str, ...]
    outputs: tuple[Output, ...]
    values: Mapping[str, ValueInfo]
    weights: Mapping[str, Weight] = field(default_factory=dict)
    name: str = "model"
    bound: Mapping[str, Weight] = field(default_factory=dict)

    @cached_property
    def readers(self) -> Mapping[str, tuple[Node, ...]]:
        """The nodes that read each value, each once, in order."""
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.inputs):
                if name:
                    found.setdefault(name, []).append(node)
        return {name: tuple(nodes) for name, nodes in found.items()}

    @cached_property
    def producers(self) -> Mapping[str, Node]:
        """The node that computes each value."""
        return {name: node for node in self.nodes for name in node.outputs if name}

    @cached_property
    def dims(self) -> tuple[Dim, ...]:
        """The extents that a call decides, in the order of the inputs that have them first.

        Sums that no input has follow.
        """
        return dims_of_call(self.inputs, self.values)

    @cached_property
    def wanted(self) -> frozenset[str]:
        """The values that are outputs of the graph."""
        return frozenset(output.value for output in self.outputs)

    def check(self) -> None:
        """Verify that every value is defined once, before it is read, with known facts.

        Raises:
            GraphError: it is not so; a defect of an importer or of a pass.
        """
        known = {*self.inputs, *self.weights}
        if len(known) < len(self.inputs) + len(self.weights):
            raise GraphError(
                f"cannot use graph {self.name!r} because two inputs or weights share a name"
            )
        for node in self.nodes:
            missing = [name for name in node.inputs if name and name not in known]
            if missing:
                raise GraphError(
                    f"cannot use {node} because value {missing[0]!r} is not defined before"
                )
            for name in filter(None, node.outputs):
                if name in known:
                    raise GraphError(f"cannot use {node} because value {name!r} is defined twice")
                known.add(name)
        for name in known | self.wanted:
            if name not in known or name not in self.values:
                raise GraphError(
                    f"cannot use graph {self.name!r} because value {name!r} is not known"
                )
