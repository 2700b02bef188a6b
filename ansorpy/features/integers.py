"""Integer and boolean operations of a store.

Of a condition, comparisons count, but not the index arithmetic in it. Of buffer indices, only
divisions count: sums and products are part of the addresses of loads.
"""

from collections.abc import Iterator
from itertools import chain

from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import (
    COMPARISONS,
    LOGICAL,
    Binary,
    Call,
    Const,
    Expr,
    Read,
    Select,
    Var,
    children,
    walk,
)
from ansorpy.loopir.nodes import Store


def integers(store: Store) -> Iterator[tuple[Expr, bool]]:
    """Yield (operation, is a division of an index) for every integer operation of a store.

    The multiplication in a sum of products is left out: with the addition it is one instruction.
    """
    values = children(store.values[0]) if _multiplies(store) else store.values
    return chain.from_iterable(map(_asked, values))


def combines_integers(store: Store) -> bool:
    """Return True if the store combines integers with an instruction of its own."""
    integer = store.values[0].dtype not in FLOATS
    return store.combiner is not None and integer and not _multiplies(store)


def _multiplies(store: Store) -> bool:
    value = store.values[0]
    return store.combiner == "sum" and isinstance(value, Binary) and value.op == "mul"


def _asked(expr: Expr, decides: bool = False) -> Iterator[tuple[Expr, bool]]:
    match expr:
        case Const() | Var():
            pass
        case Read(indices=indices):
            parts = chain.from_iterable(map(walk, indices))
            yield from ((part, True) for part in parts if divides(part))
        case Select(cond=cond, then=then, other=other):
            if not _loads_or_zero(expr):
                yield expr, False
            yield from _asked(cond, decides=True)
            yield from chain(_asked(then, decides), _asked(other, decides))
        case _:
            if _counts(expr, decides):
                yield expr, False
            yield from chain.from_iterable(_asked(part, decides) for part in children(expr))


def _loads_or_zero(expr: Select) -> bool:
    """Return True if a select is a masked load, which gives 0 for the other lanes."""
    return isinstance(expr.then, Read) and isinstance(expr.other, Const) and not expr.other.value


def _counts(expr: Expr, decides: bool) -> bool:
    """Return True if the root of an expression is an operation that counts."""
    match expr:
        case Binary(op=op, a=a) if op in COMPARISONS:
            return a.dtype not in FLOATS
        case Binary(op=op) if op in LOGICAL:
            return True
        case Binary() | Call():
            return not decides and expr.dtype not in FLOATS
        case _:
            return False


def divides(index: Expr) -> bool:
    """Return True if the root of an index divides by a number.

    A division by a tile size is the index into a packed operand, which folds once sizes are bound.
    """
    match index:
        case Binary(op="floordiv" | "mod", b=Const()):
            return True
        case _:
            return False
