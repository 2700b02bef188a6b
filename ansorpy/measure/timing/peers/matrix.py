"""Sums of products without a window: products of matrices."""

from collections.abc import Mapping, Sequence
from math import prod

from ansorpy.measure.timing.contraction import contraction_of
from ansorpy.measure.timing.peers.arithmetic import applied
from ansorpy.measure.timing.peers.expression import Values
from ansorpy.measure.timing.peers.shaping import reshaped, sliced, transposed
from ansorpy.measure.timing.peers.term import Term, Terms
from ansorpy.measure.timing.slices import Slice
from ansorpy.te.dag import Compute

NARROW = ("int8", "uint8")  # dtypes whose products have an operator of their own


def product(terms: Terms, node: Compute, values: Values, extents: Mapping[str, int]) -> Term | None:
    """Return a sum of products as MatMul, or MatMulInteger of bytes; None if it is none.

    A sum of squares is left to reductions.
    """
    shapes = {name: term.shape for (name, _), term in values.items()}
    pair = contraction_of(node, extents, shapes)
    if pair is None or not pair.over or pair.a is pair.b:
        return None
    out = [axis.name for axis in node.axes]
    a, b = values[pair.a.tensor, pair.a.output], values[pair.b.tensor, pair.b.output]
    left, right = sliced(terms, a, pair.left.at), sliced(terms, b, pair.right.at)
    rows, columns, one, two = pair.rows, pair.columns, pair.left, pair.right
    if out == [*pair.batch, *columns, *rows] and rows and columns:
        left, right, rows, columns, one, two = right, left, columns, rows, two, one
    x = _operand(terms, left, one, (pair.batch, rows, pair.over), extents)
    y = _operand(terms, right, two, (pair.batch, pair.over, columns), extents)
    made = _multiplied(terms, x, y, node.dtype)
    if made is None:
        return None
    order = [*pair.batch, *rows, *columns]
    whole = reshaped(terms, made, [extents[name] for name in order])
    return transposed(terms, whole, [order.index(name) for name in out])


def _operand(
    terms: Terms,
    part: Term,
    cut: Slice,
    groups: Sequence[Sequence[str]],
    extents: Mapping[str, int],
) -> Term:
    """Return the part of a tensor with its batch axes, and one dimension for each other group."""
    batch, *others = groups
    names = [name for group in groups for name in group]
    moved = transposed(terms, part, [cut.axes.index(name) for name in names])
    lead = [extents[name] for name in batch]
    return reshaped(terms, moved, [*lead, *(prod(extents[n] for n in one) for one in others)])


def _multiplied(terms: Terms, x: Term, y: Term, dtype: str) -> Term | None:
    shape = (*x.shape[:-1], y.shape[-1])
    if x.dtype in NARROW and y.dtype in NARROW and dtype == "int32":
        return terms.make("MatMulInteger", [x, y], shape, dtype)
    wide = [
        one if one.dtype == dtype else applied(terms, "Cast", one, dtype=dtype, to=dtype)
        for one in (x, y)
    ]
    known = dtype.startswith("float") or dtype in ("int32", "int64")
    return terms.make("MatMul", wide, shape, dtype) if known else None
