"""The tensor-expression DAG: placeholders, constants and compute nodes, producers first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Final

from ansorpy.expr.expr import Expr, Read, reads

COMBINERS: Final = ("sum", "max", "min", "prod", "argmax", "argmin")


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a node: a name (unique within its node) and an extent of at least 1."""

    name: str
    extent: int


@dataclass(frozen=True, slots=True)
class Attrs:
    """Hints of a user for the rules about a compute node (axis names unless said otherwise)."""

    unroll: tuple[str, ...] = ()  # always unroll these axes
    no_split_inner: tuple[str, ...] = ()  # keep these whole in the innermost tile level
    const_axes: tuple[str, ...] = ()  # "simplify const tensor": unroll, index a constant tensor
    layout_free: tuple[str, ...] = ()  # inputs (node names) whose memory layout we may choose
    flop: int | None = None  # overrides the counted floating-point operations


@dataclass(frozen=True, slots=True)
class Placeholder:
    """An input; `constant` marks a weight: given once, so that it may be packed ahead of time."""

    name: str
    shape: tuple[int, ...]
    dtype: str = "float32"
    constant: bool = False


@dataclass(frozen=True, slots=True)
class ConstantTensor:
    """A tensor whose values are part of the program: `data` is C-ordered little-endian bytes."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Compute:
    """One tensor computed element by element.

    out[axes] = body                                    without `combiner`
    out[axes] = combine over reduce_axes of body        with it, starting from `start`
                                                        (default: the combiner's identity)

    `argmax` and `argmin` have two bodies, value and index, and two outputs; the first of
    equal values in row-major order of the reduce axes wins; in that order the index never falls.
    """

    name: str
    axes: tuple[Axis, ...]
    body: tuple[Expr, ...]
    dtypes: tuple[str, ...]  # one per output
    reduce_axes: tuple[Axis, ...] = ()
    combiner: str | None = None
    start: Expr | None = None  # `+=` accumulates into a given tensor
    attrs: Attrs = Attrs()

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of the spatial axes."""
        return tuple(axis.extent for axis in self.axes)

    @property
    def dtype(self) -> str:
        """The dtype of the first output."""
        return self.dtypes[0]

    @property
    def reads(self) -> tuple[Read, ...]:
        """Every read in the body (and the start value), repeats kept."""
        parts = (*self.body, *(() if self.start is None else (self.start,)))
        return tuple(read for part in parts for read in reads(part))

    @property
    def points(self) -> int:
        """The number of evaluations of the body."""
        return prod(self.shape) * prod(axis.extent for axis in self.reduce_axes)


Node = Placeholder | ConstantTensor | Compute


@dataclass(frozen=True)
class Dag:
    """Nodes in topological order, producers first; `outputs` are names of compute nodes."""

    nodes: tuple[Node, ...]
    outputs: tuple[str, ...]
    name: str = "main"

    @cached_property
    def index(self) -> Mapping[str, int]:
        """Position of every node by name."""
        return {node.name: i for i, node in enumerate(self.nodes)}

    def node(self, name: str) -> Node:
        """Return the node called `name`; KeyError if there is none."""
        return self.nodes[self.index[name]]

    @cached_property
    def placeholders(self) -> tuple[Placeholder, ...]:
        """The inputs, in the order in which `run` takes them."""
        return tuple(node for node in self.nodes if isinstance(node, Placeholder))

    @cached_property
    def computes(self) -> tuple[Compute, ...]:
        """The compute nodes, producers first."""
        return tuple(node for node in self.nodes if isinstance(node, Compute))

    @cached_property
    def consumers(self) -> Mapping[str, tuple[str, ...]]:
        """Names of the compute nodes that read each node, each once, in topological order."""
        found: dict[str, list[str]] = {node.name: [] for node in self.nodes}
        for node in self.computes:
            for name in dict.fromkeys(read.tensor for read in node.reads):
                found[name].append(node.name)
        return {name: tuple(names) for name, names in found.items()}
