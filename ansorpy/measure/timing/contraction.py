"""Sums of products as matrix products: the axes of a node as batch, rows, columns and sum."""

from collections.abc import Mapping
from dataclasses import dataclass

from ansorpy.expr.expr import Binary, Cast, Expr, Read
from ansorpy.measure.timing.slices import Slice, slice_of
from ansorpy.te.dag import Compute

Extents = Mapping[str, int]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Contraction:
    """out[batch, rows, columns] = sum of a[batch, rows, over] * b[batch, over, columns].

    Names are axes of the node; the axes of its result may have another order.
    """

    a: Read
    b: Read
    left: Slice  # the part of the tensor of `a` that is read
    right: Slice
    batch: tuple[str, ...]
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    over: tuple[str, ...]


def contraction_of(node: Compute, extents: Extents, shapes: Shapes) -> Contraction | None:
    """Return a sum over A[..] * B[..] as a matrix product; None if it is none.

    Both are read by distinct axes, and the sum goes over axes of both. They may have narrower
    dtypes than the sum if each element is cast before it is multiplied.
    """
    match node.body:
        case (Binary(op="mul", a=first, b=second),) if node.combiner == "sum":
            a, b = _element(first), _element(second)
        case _:
            return None
    if a is None or b is None:
        return None
    one, two = slice_of(a, extents, shapes[a.tensor]), slice_of(b, extents, shapes[b.tensor])
    if one is None or two is None:
        return None
    left, right = one.axes, two.axes
    out = [axis.name for axis in node.axes]
    over = tuple(axis.name for axis in node.reduce_axes)
    if set(over) - set(left) or set(over) - set(right) or set(out) - set(left) - set(right):
        return None
    batch = tuple(name for name in out if name in left and name in right)
    rows = tuple(name for name in out if name in left and name not in right)
    columns = tuple(name for name in out if name in right and name not in left)
    return Contraction(a, b, one, two, batch, rows, columns, over)


def _element(expr: Expr) -> Read | None:
    """Return the element that a factor is, with or without a cast."""
    inner = expr.a if isinstance(expr, Cast) else expr
    return inner if isinstance(inner, Read) else None
