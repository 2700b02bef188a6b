"""Gathers: reads at an index that depends on data, which a clamp keeps in range.

min(max(ids[i], 0), 9) is in 0 to 9 for any elements of `ids`, so that the element at this index
exists.
"""

from collections.abc import Iterator
from typing import Final

from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import Binary, Const, Expr, Read, children, reads, rebuild

_SPLITS: Final = ("add", "sub", "mul")  # operations of which one side may be free of data


def is_clamp(expr: Expr) -> bool:
    """Return True for an int64 that data determines and that two constants bound.

    The constants belong to the two outermost operations, a min and a max in any order: then
    arithmetic on data that wraps around inside of the clamp does no harm.
    """
    if expr.dtype != INDEX or not reads(expr):
        return False
    match _bounded(expr):
        case (op, Binary() as inner):
            return _bounded(inner) is not None and inner.op != op
        case _:
            return False


def clamped(index: Expr, extent: int) -> Binary:
    """Return an int64 index inside a clamp to 0 to `extent - 1`."""
    return Binary("min", Binary("max", index, Const(0)), Const(extent - 1))


def data_is_bounded(index: Expr) -> bool:
    """Return True if every read in an index is inside a clamp."""
    return not any(isinstance(part, Read) for part in outside_clamps(index))


def outside_clamps(expr: Expr) -> Iterator[Expr]:
    """Yield the sub-expressions that are no clamps and not inside of one, parents first."""
    stack = [expr]
    while stack:
        top = stack.pop()
        if not is_clamp(top):
            yield top
            stack += children(top)[::-1]


def gathers(read: Read) -> bool:
    """Return True if an index of a read depends on data."""
    return any(map(reads, read.indices))


def index_reads(expr: Expr) -> frozenset[Read]:
    """Return the reads that stand in an index of another read."""
    return frozenset(
        inner for read in reads(expr) for index in read.indices for inner in reads(index)
    )


def data_parts(index: Expr) -> Iterator[Expr]:
    """Yield the terms of an index that depend on data, each as a whole."""
    if not reads(index):
        return
    if isinstance(index, Binary) and index.op in _SPLITS:
        for part in children(index):
            yield from data_parts(part)
    else:
        yield index


def without_data(index: Expr) -> Expr:
    """Return an index with 0 in place of the terms that depend on data."""
    if not reads(index):
        return index
    if isinstance(index, Binary) and index.op in _SPLITS:
        return rebuild(index, tuple(map(without_data, children(index))))
    return Const(0)


def _bounded(expr: Expr) -> tuple[str, Expr] | None:
    """Return the operation and the other operand of a min or max with a constant."""
    match expr:
        case Binary(op="min" | "max" as op, a=a, b=Const()):
            return op, a
        case Binary(op="min" | "max" as op, a=Const(), b=b):
            return op, b
        case _:
            return None
