"""The builder of graphs: importers and passes add nodes; shapes follow, constants fold.

A node whose operands are all known is evaluated when it is added, unless its result is large.
"""

from collections.abc import Mapping, Sequence
from math import prod
from typing import Final

import numpy as np

from ansorpy import te
from ansorpy.errors import GraphError
from ansorpy.expr.dtypes import DTYPES, SIZE_BYTES
from ansorpy.graph import hosted as _hosted  # noqa: F401  it fills the table of operators
from ansorpy.graph import ops as _ops  # noqa: F401  it fills the table of operators
from ansorpy.graph.graph import (
    Array,
    Attribute,
    Extent,
    Graph,
    Node,
    Output,
    Symbol,
    ValueInfo,
    Weight,
)
from ansorpy.graph.interp import evaluate
from ansorpy.graph.operator import (
    EmptyResult,
    NumpyFunction,
    Operands,
    constant_values,
    operator_of,
    tensors,
)
from ansorpy.te.tensor import Tensor
from ansorpy.te.tensor_data import storage

LARGEST_VALUE: Final = 1 << 34  # bytes; no model for one machine has a larger tensor
FOLD_BYTES: Final = 1 << 20  # bytes; a larger result is left to the pass that folds


class GraphBuilder:
    """A graph under construction; names of values are unique.

    Args:
        hosted: operators without a kernel are allowed; NumPy computes them.
        folds: nodes whose operands are all known are evaluated; else they stay, and a node that
            is always evaluated is refused.
        sized_bytes: constants that follow from shapes of computed values fold up to this size.
    """

    def __init__(
        self,
        name: str = "model",
        hosted: bool = False,
        folds: bool = True,
        sized_bytes: int = FOLD_BYTES,
    ) -> None:
        self.name, self.hosted, self.folds, self.sized_bytes = name, hosted, folds, sized_bytes
        self._sized: set[str] = set()  # constants that follow from shapes of computed values
        self.values: dict[str, ValueInfo] = {}
        self.weights: dict[str, Weight] = {}
        self.bound: dict[str, Weight] = {}
        self._inputs: list[str] = []
        self._outputs: list[Output] = []
        self._nodes: list[Node] = []
        self.producers: dict[str, Node] = {}

    def input(self, name: str, shape: Sequence[Extent], dtype: str) -> str:
        """Add an input of the model and return its name."""
        self._define(ValueInfo(name, tuple(shape), dtype))
        self._inputs.append(name)
        return name

    def weight(self, name: str, weight: Weight) -> str:
        """Add a constant and return its name."""
        self._define(ValueInfo(name, weight.shape, weight.dtype))
        self.weights[name] = weight
        return name

    def constant(self, name: str, array: Array, dtype: str | None = None) -> str:
        """Add the values of an array as a constant and return its name."""
        return self.weight(name, Weight.of(array, dtype))

    def bind(self, name: str, weight: Weight) -> str:
        """Add the value of an input of the file as a constant and return its name."""
        self.bound[name] = weight
        return self.weight(name, weight)

    def output(self, name: str, value: str) -> None:
        """Add a result of the model."""
        self._outputs.append(Output(name, value))

    def add(
        self,
        op: str,
        inputs: Sequence[str],
        outputs: Sequence[str],
        attrs: Mapping[str, Attribute] | None = None,
        name: str = "",
    ) -> tuple[str, ...]:
        """Add a node, or the constants that it folds to; return the names of its outputs.

        Raises:
            GraphError: the operator is unknown or does not take these operands.
        """
        node = Node(op, tuple(inputs), tuple(outputs), attrs or {}, name)
        self._check_inputs(node)
        known = constant_values(node, self._placeholder, self.weights)
        if known is not None:
            return self._add_values(node, known)
        if operator_of(node).hosted is not None:
            return self._add_hosted(node)
        try:
            results = tensors(node, self._placeholder, self.weights)
        except EmptyResult as result:
            self._check_folds(node)
            array = np.empty(result.shape, storage(result.dtype))
            self.constant(node.outputs[0], array, result.dtype)
            return node.outputs
        if len(results) < len(node.outputs):
            raise GraphError(
                f"cannot compile {node} because it has {len(node.outputs)} outputs;"
                f" expected at most {len(results)}"
            )
        _check_sizes(node, results)
        if not self._folded(node, results):
            for output, tensor in zip(node.outputs, results, strict=False):
                if output:
                    self._define(ValueInfo(output, tensor.draft.node.shape, tensor.dtype))
            self._append(node)
        return node.outputs

    def graph(self) -> Graph:
        """Return the checked graph.

        Raises:
            GraphError: an output is not defined.
        """
        made = Graph(
            tuple(self._nodes), tuple(self._inputs), tuple(self._outputs), dict(self.values),
            dict(self.weights), self.name, dict(self.bound),
        )  # fmt: skip
        made.check()
        return made

    def scalars(self, value: str) -> tuple[str, ...]:
        """Return the inputs of one element that a value depends on, sorted by name."""
        sources, open_ = {value}, [value]
        while open_:
            node = self.producers.get(open_.pop())
            fresh = set() if node is None else set(filter(None, node.inputs)) - sources
            sources |= fresh
            open_ += fresh
        return tuple(
            name for name in sorted(sources.intersection(self._inputs))
            if all(extent == 1 for extent in self.values[name].shape)
        )  # fmt: skip

    def _append(self, node: Node) -> None:
        self._nodes.append(node)
        self.producers |= {name: node for name in node.outputs if name}

    def _define(self, value: ValueInfo) -> None:
        if value.name in self.values or not value.name:
            raise GraphError(
                f"cannot define value {value.name!r} because the name is taken or empty"
            )
        if value.dtype not in DTYPES:
            raise GraphError(
                f"cannot use value {value.name!r} because it is {value.dtype};"
                f" expected {', '.join(DTYPES)}"
            )
        self.values[value.name] = value

    def _add_values(self, node: Node, known: Sequence[Array]) -> tuple[str, ...]:
        """Add the constants of an operator that has values."""
        self._check_folds(node)
        for output, array in zip(node.outputs, known, strict=False):
            if output:
                self.constant(output, array)
        if any(name not in self.weights or name in self._sized for name in node.inputs):
            self._sized.update(node.outputs)
        return node.outputs

    def _add_hosted(self, node: Node) -> tuple[str, ...]:
        """Add a node that NumPy computes, with a name for every output; or fold it."""
        twin = operator_of(node).hosted
        assert twin is not None
        dtypes = {self.values[name].dtype for name in node.inputs if name}
        if "bfloat16" in dtypes and not twin.moves:
            return self._add_widened(node, twin)
        facts = twin.facts(Operands(node, self._placeholder, self.weights))
        names = [name for name in node.inputs if name]
        known = [self.weights.get(name) for name in names]
        if self.folds and all(one is not None and is_known(one) for one in known):
            arrays = {name: self.weights[name].array for name in names}
            for name, array in zip(node.outputs, evaluate(node, arrays, {}), strict=False):
                if name:
                    self.constant(name, array)
            return node.outputs
        if not self.hosted:
            tensors(node, self._placeholder, self.weights)  # it says how to allow the node
        every = [*node.outputs, *[""] * (len(facts) - len(node.outputs))]
        every = [name or f"{node.outputs[0]}.out{n}" for n, name in enumerate(every)]
        for name, (shape, dtype) in zip(every, facts, strict=True):
            self._define(ValueInfo(name, shape, dtype))
        self._append(Node(node.op, node.inputs, tuple(every), node.attrs, node.name))
        return node.outputs

    def _add_widened(self, node: Node, twin: NumpyFunction) -> tuple[str, ...]:
        """Add a node of bfloat16 that NumPy computes between casts: NumPy has no bfloat16."""
        inputs = [
            self.add("Cast", [name], [self._fresh_float(name)], {"to": "float32"})[0]
            if name and self.values[name].dtype == "bfloat16"
            else name
            for name in node.inputs
        ]
        wide = Node(node.op, tuple(inputs), node.outputs, node.attrs, node.name)
        facts = twin.facts(Operands(wide, self._placeholder, self.weights))
        outputs = [
            self._fresh_float(name) if name and dtype == "float32" else name
            for name, (_, dtype) in zip(node.outputs, facts, strict=False)
        ]
        made = self.add(node.op, inputs, outputs, node.attrs, node.name)
        for name, one in zip(node.outputs, made, strict=False):
            if name and one != name:
                self.add("Cast", [one], [name], {"to": "bfloat16"})
        return (*node.outputs, *made[len(node.outputs) :])

    def _fresh_float(self, name: str) -> str:
        """Return a name that no value has, for the float32 elements of a value."""
        number = 1
        while (found := f"{name}.float32.{number}") in self.values:
            number += 1
        return found

    def _check_folds(self, node: Node) -> None:
        if not self.folds:
            raise GraphError(f"cannot keep {node} because it is a constant; expected its values")

    def _check_inputs(self, node: Node) -> None:
        for value in filter(None, node.inputs):
            if value not in self.values:
                raise GraphError(f"cannot add {node} because value {value!r} is not defined before")
            for extent in self.values[value].shape:
                if isinstance(extent, Symbol):
                    raise GraphError(
                        f"cannot compile {node} because extent {extent.name!r} of its input"
                        f" {value!r} is symbolic; {extent.remedy}"
                    )

    def _placeholder(self, name: str) -> Tensor:
        value = self.values[name]
        return te.placeholder(value.fixed_shape, "x", value.dtype)

    def _folded(self, node: Node, results: Sequence[Tensor]) -> bool:
        """Define the outputs of a node as constants, if all of its operands are known."""
        read = [self.weights.get(name) for name in node.inputs if name]
        if (
            not self.folds
            or not read
            or any(weight is None or not is_known(weight) for weight in read)
        ):
            return False
        if operator_of(node).build is None:
            return False
        limit = self.sized_bytes if self._sized.intersection(node.inputs) else FOLD_BYTES
        if sum(map(_size_bytes, results)) > limit:
            return False
        arrays = {name: self.weights[name].array for name in node.inputs if name}
        for name, tensor, array in zip(
            node.outputs, results, evaluate(node, arrays, self.weights), strict=False
        ):
            if name:
                self.constant(name, array, tensor.dtype)
        if self._sized.intersection(node.inputs):
            self._sized.update(node.outputs)
        return True


def is_known(weight: Weight) -> bool:
    """Return True if the values of a constant are at hand, and the same at every call."""
    return weight.load is not None and not weight.dims


def _size_bytes(tensor: Tensor) -> int:
    return prod(tensor.draft.node.shape) * SIZE_BYTES[tensor.dtype]


def _check_sizes(node: Node, results: Sequence[Tensor]) -> None:
    for one in results:
        if _size_bytes(one) > LARGEST_VALUE:
            raise GraphError(
                f"cannot compile {node} because its output is {one.dtype}{list(one.shape)[:16]};"
                f" expected at most {LARGEST_VALUE} bytes"
            )
