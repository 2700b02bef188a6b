"""The table of operators, and the operands of a node as an operator sees them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NoReturn

import numpy as np

from ansorpy import te
from ansorpy.errors import DimError, GraphError, SpecError, UnknownValueError
from ansorpy.graph.graph import Array, Attribute, Extent, Node, Weight
from ansorpy.graph.remedies import HOSTED, bind_option
from ansorpy.te.dims import Dim, dims_in, given
from ansorpy.te.tensor import Tensor, TensorOperand
from ansorpy.te.tensor_data import checked_array
from ansorpy.te.wide import rounded_once


class Operands:
    """The inputs and attributes of one node.

    Args:
        read: returns the tensor of a value: made by an earlier node, or a placeholder.
        weights: the constants of the graph, whose values some operators need when they are built.
    """

    def __init__(
        self, node: Node, read: Callable[[str], Tensor], weights: Mapping[str, Weight]
    ) -> None:
        self.node, self._read, self._weights = node, read, weights

    def __len__(self) -> int:
        return len(self.node.inputs)

    def given(self, position: int) -> bool:
        """Return True if an input is there."""
        return position < len(self.node.inputs) and self.node.inputs[position] != ""

    def tensor(self, position: int) -> Tensor:
        """Return an input as a tensor.

        Raises:
            GraphError: it is absent.
        """
        if not self.given(position):
            self.refuse(f"input {position} is absent", "a tensor")
        self._no_sizes(position)
        return self._read(self.node.inputs[position])

    def optional(self, position: int) -> Tensor | None:
        """Return an input as a tensor, None if it is absent."""
        return self.tensor(position) if self.given(position) else None

    def operand(self, position: int, rank: int = 0) -> TensorOperand:
        """Return an input of an element-wise operator: a known element is a literal, not a tensor.

        An operator that gets literals only has no shape: ask for `tensor` of one operand.

        Args:
            rank: the rank of another operand, which the result has; a literal has no larger one.
        """
        weight = self._weight(position)
        if weight is None or weight.load is None or weight.elements != 1:
            return self.tensor(position)
        if len(weight.shape) > rank:
            return self.tensor(position)
        return self.literal(position)

    def literal(self, position: int) -> te.Scalar:
        """Return an input that must be known and have one element, as a literal of its dtype.

        Raises:
            GraphError: it is computed at run time, or has another number of elements.
        """
        array, weight = self.array(position), self._weight(position)
        if array.size != 1 or weight is None:
            self.refuse(f"input {position} has {array.size} elements", "one element")
        value = checked_array(array.reshape(-1), weight.dtype, str(self.node)).item()
        return te.const(value, weight.dtype)

    def number(self, position: int, default: Any = None) -> Any:
        """Return the element of a known input as a number of Python; `default` if it is absent."""
        if not self.given(position):
            return default
        array = self.array(position)
        if array.size != 1:
            self.refuse(f"input {position} has {array.size} elements", "one element")
        return checked_array(array.reshape(-1), self.dtype(position), str(self.node)).item()

    def empty(self, position: int) -> bool:
        """Return True if an input is a constant without elements."""
        weight = self._weight(position)
        return weight is not None and weight.elements == 0

    def dtype(self, position: int) -> str:
        """Return the dtype of an input."""
        weight = self._weight(position)
        return self.tensor(position).dtype if weight is None else weight.dtype

    def shape(self, position: int) -> tuple[int, ...]:
        """Return the shape of an input."""
        weight = self._weight(position)
        return self.tensor(position).shape if weight is None else weight.shape

    def known(self, position: int) -> bool:
        """Return True if the values of an input are known now."""
        weight = self._weight(position)
        return weight is not None and weight.load is not None and not dims_in(weight.shape)

    def array(self, position: int) -> Array:
        """Return the values of an input that must be known when the operator is built.

        Raises:
            GraphError: they are not known.
        """
        weight = self._weight(position)
        if weight is not None:
            self._no_sizes(position)
            if dims := dims_in(weight.shape):
                raise no_dim(self.node, dims, f"the number of elements of input {position} is one")
            return weight.array
        if not self.given(position):
            self.refuse(f"input {position} is absent", "a constant")
        value = self.node.inputs[position]
        raise UnknownValueError(
            f"cannot compile {self.node} because input {position} ({value[:80]!r}) is computed at"
            " run time; expected a constant: a scalar input can be bound, as in"
            f" {bind_option('NAME')}",
            value,
        )

    def ints(self, position: int) -> tuple[int, ...]:
        """Return the integers of an input that must be known, in row-major order, or dims."""
        weight = self._weight(position)
        if weight is not None and weight.sizes:
            return tuple(map(given, weight.sizes))
        return tuple(int(value) for value in self.array(position).reshape(-1))

    def axes(self, position: int, name: str = "axes") -> tuple[int, ...] | None:
        """Return the integers of an input or of an attribute, None if both are absent."""
        if self.given(position):
            return self.ints(position)
        found = self.attribute(name)
        return None if found is None else tuple(found)

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return an attribute, or `default` if it is absent.

        Attributes of ONNX are float32, their defaults as well; float64 shows the difference.
        """
        if name not in self.node.attrs and isinstance(default, float) and self.given(0):
            return float(np.float32(default)) if self.dtype(0) == "float64" else default
        return self.node.attrs.get(name, default)

    def refuse(self, because: str, expected: str) -> NoReturn:
        """Raise the GraphError of this node."""
        raise GraphError(f"cannot compile {self.node} because {because}; expected {expected}")

    def _no_sizes(self, position: int) -> None:
        """Refuse an input that has a size as a number."""
        weight = self._weight(position)
        if weight is not None and weight.sizes:
            raise no_dim(self.node, weight.dims, f"input {position} is its size as a number")

    def _weight(self, position: int) -> Weight | None:
        return self._weights.get(self.node.inputs[position]) if self.given(position) else None


def no_dim(node: Node, dims: Sequence[Dim], because: str) -> GraphError:
    """Return the error of a node that needs numbers in place of dims."""
    names = ", ".join(one.name for one in dims)
    return GraphError(
        f"cannot keep {names} of {node} as a dim because {because}; expected a number:"
        f" bind it, as in {bind_option(dims[0].name, '1')}"
    )


class EmptyResult(Exception):  # noqa: N818  it is no failure
    """The result of a node has no elements; it is a constant, and no tensor has such a shape."""

    def __init__(self, shape: tuple[int, ...], dtype: str) -> None:
        super().__init__(f"{list(shape)} of {dtype}")
        self.shape, self.dtype = shape, dtype


Build = Callable[[Operands], Tensor | Sequence[Tensor]]
Values = Callable[[Operands], Array | Sequence[Array]]
Facts = tuple[tuple[Extent, ...], str]  # shape and dtype of an output
FactsOf = Callable[[Operands], Sequence[Facts]]


@dataclass(frozen=True, slots=True)
class NumpyFunction:
    """A NumPy function in place of a kernel; `fixed` are arguments beside the attributes.

    `function` is called with the given inputs and the attributes by keyword. If it moves elements
    without a look at their values, bfloat16 is given as bit patterns, otherwise as float32. The
    driver of a bundle itself copies the rows that are `copied` (`graph/hosted/rows.py`).
    """

    function: Callable[..., Sequence[Array]]
    facts: FactsOf
    fixed: Mapping[str, Attribute]
    moves: bool = False
    copied: bool = False

    def arguments(self, node: Node) -> dict[str, Attribute]:
        """Return the keyword arguments of the function for a node."""
        absent = tuple(n for n, name in enumerate(node.inputs) if not name)
        return {**node.attrs, **self.fixed, **({"absent": absent} if absent else {})}


@dataclass(frozen=True, slots=True)
class Operator:
    """The meaning of an operator.

    `build` returns the tensors of the outputs. `values` instead returns arrays that follow from
    shapes and known inputs alone. `attrs` are the attributes that the meaning respects.
    `view`: the output has the elements of the first input in the same row-major order.
    `joins`: the output has the elements of its inputs one behind the other along `axis`.
    `hosted`: a NumPy function, if no tensor expression computes the operator.
    """

    name: str
    attrs: frozenset[str]
    build: Build | None = None
    values: Values | None = None
    view: bool = False
    joins: bool = False
    hosted: NumpyFunction | None = None


MOST_TEXT: Final = 1000  # characters of the refusal of an operator: shapes may be long
OPERATORS: Final[dict[str, Operator]] = {}


def operator(
    name: str, *attrs: str, view: bool = False, joins: bool = False
) -> Callable[[Build], Build]:
    """Return a decorator that enters a function into OPERATORS as the meaning of an operator."""

    def enter(build: Build) -> Build:
        OPERATORS[name] = Operator(name, frozenset(attrs), build=build, view=view, joins=joins)
        return build

    return enter


def value_operator(name: str, *attrs: str) -> Callable[[Values], Values]:
    """Return a decorator, as `operator` does, for values that follow from shapes alone."""

    def enter(values: Values) -> Values:
        OPERATORS[name] = Operator(name, frozenset(attrs), values=values)
        return values

    return enter


def hosted(
    name: str,
    function: Callable[..., Sequence[Array]],
    *attrs: str,
    fixed: Mapping[str, Attribute] | None = None,
    moves: bool = False,
    copied: bool = False,
) -> Callable[[FactsOf], FactsOf]:
    """Return a decorator that enters a NumPy function, with a rule for shapes, into OPERATORS."""

    def enter(facts: FactsOf) -> FactsOf:
        twin = NumpyFunction(function, facts, fixed or {}, moves, copied)
        OPERATORS[name] = Operator(name, frozenset(attrs), hosted=twin)
        return facts

    return enter


def operator_of(node: Node) -> Operator:
    """Return the operator of a node.

    Raises:
        GraphError: it is unknown, or does not respect an attribute of the node.
    """
    operator = OPERATORS.get(node.op)
    if operator is None:
        raise GraphError(
            f"cannot compile {node} because operator {node.op!r} has no kernel;"
            " expected an operator of the list in docs/operators.md"
        )
    for name in node.attrs:
        if name not in operator.attrs:
            raise GraphError(
                f"cannot compile {node} because attribute {name!r} is not supported;"
                f" expected {', '.join(sorted(operator.attrs)) or 'none'}"
            )
    return operator


def tensors(
    node: Node, read: Callable[[str], Tensor], weights: Mapping[str, Weight]
) -> tuple[Tensor, ...]:
    """Return the tensors of the outputs of a node; they alone are rounded to 16 bits.

    Raises:
        GraphError: the operator does not take these operands.
    """
    operator = operator_of(node)
    if operator.hosted is not None:
        raise GraphError(
            f"cannot compile {node} because operator {node.op!r} has no kernel;"
            f" expected {HOSTED}, which lets NumPy compute it"
        )
    if operator.build is None:
        raise GraphError(
            f"cannot compile {node} because its inputs are not known; expected constants"
        )
    taken: list[Tensor] = []

    def take(value: str) -> Tensor:
        taken.append(read(value))
        return taken[-1]

    try:
        results = operator.build(Operands(node, take, weights))
    except SpecError as error:
        if isinstance(error, GraphError):
            raise
        dims = dims_in(extent for one in taken for extent in one.shape)
        if isinstance(error, DimError):
            dims = tuple(one for one in dims if one.name == error.dim)
        text = str(error)[:MOST_TEXT]
        if dims:
            text = text.rpartition("; expected")[0] or text
            text = "the operator computes with it" if isinstance(error, DimError) else text
            raise no_dim(node, dims, text) from error
        raise GraphError(f"cannot compile {node} because of its operands: {text}") from error
    return rounded_once((results,) if isinstance(results, Tensor) else tuple(results), taken)


def constant_values(
    node: Node, read: Callable[[str], Tensor], weights: Mapping[str, Weight]
) -> tuple[Array, ...] | None:
    """Return the outputs of a node whose operator has `values`; None for other operators."""
    found = operator_of(node)
    if found.values is None:
        return None
    made = found.values(Operands(node, read, weights))
    return (made,) if isinstance(made, np.ndarray) else tuple(made)


__all__ = [
    "OPERATORS",
    "Attribute",
    "EmptyResult",
    "Facts",
    "Operands",
    "Operator",
    "constant_values",
    "hosted",
    "operator",
    "operator_of",
    "tensors",
    "value_operator",
]  # fmt: skip
