"""Operators on elements that broadcast, joined with the operators of their operands."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from ansorpy.graph.graph import Attribute
from ansorpy.measure.timing.peers.chains import joined
from ansorpy.measure.timing.peers.shaping import reshaped
from ansorpy.measure.timing.peers.term import Term, Terms

FOLDED: Final = 1 << 22  # elements; a larger constant is computed by the library

# Meanings of operators whose operands are all known: conditions and factors of index variables.
_KNOWN: Final[Mapping[str, Callable[..., Any]]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide, "Min": np.minimum,
    "Max": np.maximum, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal, "Equal": np.equal, "And": np.logical_and,
    "Or": np.logical_or, "Not": np.logical_not, "Neg": np.negative, "Where": np.where,
    "FloorDiv": np.floor_divide, "Mod": np.mod,
}  # fmt: skip


def applied(terms: Terms, op: str, *operands: Term, dtype: str, **attrs: Attribute) -> Term:
    """Return an operator on the elements of its operands, joined with them if a rule fits."""
    shape = np.broadcast_shapes(*(one.shape for one in operands))
    inputs = [_shorn(terms, one, len(shape)) for one in operands]
    if np.broadcast_shapes(*(one.shape for one in inputs)) != shape:
        inputs = list(operands)
    known = _KNOWN.get(op)
    arrays = [one.array for one in inputs if one.array is not None]
    if len(arrays) == len(inputs) and np.prod(shape) <= FOLDED:
        if op == "Cast":
            return terms.constant(arrays[0], dtype)
        if known is not None:
            with np.errstate(all="ignore"):
                return terms.constant(known(*arrays), dtype)
    return joined(terms, terms.make(op, inputs, shape, dtype, **attrs))


def _shorn(terms: Terms, x: Term, rank: int) -> Term:
    """Return an operand without a reshape that only leaves out leading extents of 1."""
    if x.op != "Reshape":
        return x
    whole = x.inputs[0].shape
    front = len(whole) - len(x.shape)
    same = front > 0 and len(whole) <= rank and whole[front:] == x.shape
    return x.inputs[0] if same and set(whole[:front]) == {1} else reshaped(terms, x, x.shape)
