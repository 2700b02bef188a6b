"""The dtype of an expression of the loop IR, checked on the way up."""

from collections.abc import Callable, Mapping
from typing import Final

from ansorpy.errors import LoweringError
from ansorpy.expr.dtypes import DTYPES, INDEX, INTS
from ansorpy.expr.expr import (
    COMPARISONS,
    OPERANDS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
    reads,
)
from ansorpy.loopir.nodes import Buffer

# A reduction of bool by max or min is one of the loop IR's operators.
_ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {**OPERANDS, "min": DTYPES, "max": DTYPES}

Find = Callable[[str], Buffer]  # a buffer by name; raises LoweringError where there is none


def index_type(expr: Expr) -> str:
    """Return "int64" or "bool" for an expression over loop variables and sizes only.

    Raises:
        LoweringError: it reads a buffer, or mixes or produces other dtypes.
    """
    if reads(expr):
        raise LoweringError(f"{expr} reads a buffer where only loop variables may stand")
    found = value_type(expr, _no_buffer)
    if found not in (INDEX, "bool"):
        raise LoweringError(f"{expr} is {found}, an index is {INDEX}")
    return found


def value_type(expr: Expr, find: Find) -> str:
    """Return the dtype of a value.

    Raises:
        LoweringError: operands disagree, an operation does not exist for its dtype, or a read
            has another rank or dtype than its buffer.
    """
    match expr:
        case Const():
            return _const_type(expr)
        case Var():
            return INDEX
        case Read():
            return _read_type(expr, find)
        case Binary(op=op, a=a, b=b):
            kind = _same(expr, value_type(a, find), value_type(b, find))
            _allow(expr, op, kind)
            return "bool" if op in COMPARISONS else kind
        case Call(fn=fn, a=a):
            kind = value_type(a, find)
            _allow(expr, fn, kind)
            return kind
        case Cast(dtype=dtype, a=a):
            value_type(a, find)
            return _known(expr, dtype)
        case Select(cond=cond, then=then, other=other):
            if value_type(cond, find) != "bool":
                raise LoweringError(f"condition {cond} of {expr} is not bool")
            return _same(expr, value_type(then, find), value_type(other, find))


def _const_type(expr: Const) -> str:
    value, dtype = expr.value, _known(expr, expr.dtype)
    fits = isinstance(value, bool) if dtype == "bool" else not isinstance(value, bool)
    if not fits or (dtype in INTS and not isinstance(value, int)):
        raise LoweringError(f"literal {value!r} is no {dtype}")
    return dtype


def _read_type(expr: Read, find: Find) -> str:
    buffer = find(expr.tensor)
    if len(expr.indices) != len(buffer.shape):
        raise LoweringError(
            f"{expr} has {len(expr.indices)} indices, {buffer.name} has rank {len(buffer.shape)}"
        )
    for index in expr.indices:
        if index_type(index) != INDEX:
            raise LoweringError(f"index {index} of {expr} is not {INDEX}")
    if expr.dtype != buffer.dtype or expr.output != 0:
        raise LoweringError(
            f"{expr} is {expr.dtype}, output {expr.output}; {buffer.name} holds {buffer.dtype}"
        )
    return expr.dtype


def _known(expr: Expr, dtype: str) -> str:
    if dtype not in DTYPES:
        raise LoweringError(f"{expr} has the unknown dtype {dtype!r}")
    return dtype


def _same(expr: Expr, a: str, b: str) -> str:
    if a != b:
        raise LoweringError(f"{expr} mixes {a} and {b}")
    return a


def _allow(expr: Expr, name: str, dtype: str) -> None:
    if dtype not in _ALLOWED.get(name, ()):
        raise LoweringError(f"{expr}: no {name} of {dtype}")


def _no_buffer(name: str) -> Buffer:
    raise LoweringError(f"{name} is read in an index")
