"""Patterns of arithmetic that several passes look for: products, sums and means, spelt out."""

from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from ansorpy.graph.graph import Node
from ansorpy.graph.passes.rewriter import SCALAR_ELEMENTS, Rewriter
from ansorpy.te.dims import dims_in

TOLERANCE: Final = 2.0**-20  # relative; a constant in float32 is within 2^-24 of its formula
_DEPTH: Final = 8  # products inside one another
_POSITIVE: Final = ("Abs", "Exp", "ReduceL1", "ReduceL2", "ReduceSumSquare", "Sigmoid", "Softmax")


def near(number: float | None, expected: float) -> bool:
    """Return True if a constant of a model is the rounding of an expected number."""
    return number is not None and abs(number - expected) <= TOLERANCE * abs(expected)


@dataclass(frozen=True, slots=True)
class Product:
    """The number `factor` times the values of a graph."""

    factor: float
    values: tuple[str, ...]

    def is_only(self, *values: str) -> bool:
        """Return True if these are the values, in any order."""
        return sorted(self.values) == sorted(values)


def product(node: Node, at: Rewriter, depth: int = _DEPTH) -> Product:
    """Return the factors of a Mul, of a Div by a constant, or of a Neg.

    A factor that is itself such a node is taken apart if no other node reads it.
    """
    if node.op == "Neg":
        inner = factors(node.inputs[0], at, depth)
        return Product(-inner.factor, inner.values)
    if node.op == "Div":
        inner, divisor = factors(node.inputs[0], at, depth), at.scalar(node.inputs[1])
        if not divisor:
            return Product(1.0, (node.outputs[0],))
        return Product(inner.factor / divisor, inner.values)
    number, values = 1.0, list[str]()
    for name in node.inputs:
        scalar = at.scalar(name)
        inner = Product(scalar, ()) if scalar is not None else factors(name, at, depth)
        number *= inner.factor
        values += inner.values
    return Product(number, tuple(values))


def factors(name: str, at: Rewriter, depth: int = _DEPTH) -> Product:
    """Return a value as a product: the product of its node if the value is read once."""
    node = at.maker(name, "Mul", "Neg", "Div")
    if node is None or not depth or not at.sole(name):
        return Product(1.0, (name,))
    if node.op == "Div" and at.scalar(node.inputs[1]) in (None, 0):
        return Product(1.0, (name,))
    return product(node, at, depth - 1)


def constant_and_value(node: Node, at: Rewriter) -> tuple[float, str] | None:
    """Return the scalar constant and the other operand of a node, such as an Add."""
    if len(node.inputs) != 2:
        return None
    a, b = node.inputs
    if (number := at.scalar(b)) is not None:
        return number, a
    return (number, b) if (number := at.scalar(a)) is not None else None


def plus(name: str, expected: float, at: Rewriter) -> str | None:
    """Return x of `x + expected`, a node that is read once."""
    node = at.maker(name, "Add")
    if node is None or not at.sole(name):
        return None
    found = constant_and_value(node, at)
    return found[1] if found is not None and near(found[0], expected) else None


def limits(node: Node, at: Rewriter) -> tuple[float | None, float | None]:
    """Return the limits of a Clip, or of a Relu; None for a limit that is absent or unknown."""
    if node.op == "Relu":
        return 0.0, None
    low, high = (
        at.scalar(node.inputs[n]) if len(node.inputs) > n and node.inputs[n] else None
        for n in (1, 2)
    )  # fmt: skip
    given = node.attrs.get("min", low), node.attrs.get("max", high)
    first, last = (one if isinstance(one, float | int) else None for one in given)
    return first, last


def axes_of(node: Node, at: Rewriter) -> tuple[int, ...] | None:
    """Return the axes of a reduction that keeps its rank, ascending; None for other nodes."""
    if not node.attrs.get("keepdims", 1):
        return None
    rank = len(at.values[node.inputs[0]].shape)
    axes = node.attrs.get("axes")
    if axes is None and len(node.inputs) > 1 and node.inputs[1]:
        known = at.known(node.inputs[1])
        if known is None:
            return None
        axes = tuple(known.reshape(-1).tolist())
    if not isinstance(axes, tuple) or not axes:
        return None
    return tuple(sorted(int(axis) % rank for axis in axes))


def mean_of(name: str, at: Rewriter) -> tuple[str, tuple[int, ...]] | None:
    """Return the value and the axes of a mean that keeps its rank.

    A mean is a ReduceMean, or a ReduceSum times one over the number of elements.
    """
    product = factors(name, at)
    if len(product.values) != 1:
        return None
    node = at.maker(product.values[0], "ReduceMean", "ReduceSum")
    axes = None if node is None else axes_of(node, at)
    if node is None or axes is None:
        return None
    shape = at.shape(node.inputs[0])
    if dims_in(shape[axis] for axis in axes):
        return None
    count = prod(shape[axis] for axis in axes)
    share = 1.0 if node.op == "ReduceMean" else 1 / count
    return (node.inputs[0], axes) if near(product.factor, share) else None


def positive(name: str, at: Rewriter, depth: int = _DEPTH) -> bool:
    """Return True if no element of a value is -0 or below; False if that is not known."""
    constant = at.known(name)
    if constant is not None:
        return constant.size <= SCALAR_ELEMENTS and not np.any(np.signbit(constant))
    node = at.maker(name, *_POSITIVE, "Add", "Div", "Mul", "ReduceMean", "ReduceSum")
    if node is None or not depth:
        return False
    if node.op in _POSITIVE or (node.op == "Mul" and node.inputs[0] == node.inputs[1]):
        return True
    operands = node.inputs[:1] if node.op.startswith("Reduce") else node.inputs
    return all(positive(one, at, depth - 1) for one in operands)


def is_float(name: str, at: Rewriter) -> bool:
    """Return True if a value has a float dtype of at least 32 bits."""
    return at.values[name].dtype in ("float32", "float64")
