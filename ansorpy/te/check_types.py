"""The dtype rules of expressions: nothing is converted silently."""

import math
from collections.abc import Mapping
from typing import Final

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import DTYPES, FLOATS, INDEX, INTEGER_RANGE, INTS, LARGEST
from ansorpy.expr.expr import (
    BINARY,
    COMPARISONS,
    FUNCTIONS,
    OPERANDS,
    SYMBOLS,
    Binary,
    Call,
    Cast,
    Const,
    Expr,
    Read,
    Select,
    Var,
)
from ansorpy.te.limits import quoted, shown

Tensors = Mapping[str, tuple[tuple[int, ...], tuple[str, ...]]]  # shape and dtypes by node name

HINTS: Final = {"div": "; integers divide by floordiv", "floordiv": "; floats divide by div"}


def type_of(expr: Expr, tensors: Tensors, where: str) -> str:
    """Return the dtype of an expression whose reads are known to `tensors`.

    Raises:
        SpecError: an operation has operands that it does not take.
    """
    match expr:
        case Const():
            return _const(expr, where)
        case Var():
            return INDEX
        case Read():
            return _read(expr, tensors, where)
        case Binary():
            return _binary(expr, tensors, where)
        case Call(fn=fn, a=a):
            if fn not in FUNCTIONS:
                raise SpecError(f"{where}: function {quoted(fn)} is not known")
            dtype = type_of(a, tensors, where)
            _takes(fn, dtype, expr, where)
            return dtype
        case Cast(dtype=dtype, a=a):
            type_of(a, tensors, where)
            if dtype not in DTYPES:
                raise SpecError(f"{where}: cast to {quoted(dtype)}, which is not supported")
            return dtype
        case Select(cond=cond, then=then, other=other):
            expect(type_of(cond, tensors, where), "bool", cond, where)
            dtype = type_of(then, tensors, where)
            expect(type_of(other, tensors, where), dtype, other, where)
            return dtype


def expect(dtype: str, wanted: str, expr: Expr, where: str) -> None:
    """Refuse an expression whose dtype is not the one wanted.

    Raises:
        SpecError: names both.
    """
    if dtype != wanted:
        raise SpecError(f"{where}: {shown(expr)} is {dtype}, not {wanted}; write a cast")


def _read(expr: Read, tensors: Tensors, where: str) -> str:
    dtype = tensors[expr.tensor][1][expr.output]
    expect(dtype, expr.dtype, expr, where)
    for index in expr.indices:
        expect(type_of(index, tensors, where), INDEX, index, where)
    return dtype


def _binary(expr: Binary, tensors: Tensors, where: str) -> str:
    if expr.op not in BINARY:
        raise SpecError(f"{where}: operation {quoted(expr.op)} is not known")
    dtype, right = type_of(expr.a, tensors, where), type_of(expr.b, tensors, where)
    if dtype != right:
        raise SpecError(f"{where}: {shown(expr)} mixes {dtype} and {right}; write a cast")
    _takes(expr.op, dtype, expr, where)
    return "bool" if expr.op in COMPARISONS else dtype


def _takes(op: str, dtype: str, expr: Expr, where: str) -> None:
    if dtype not in OPERANDS[op]:
        name = SYMBOLS.get(op, op)
        raise SpecError(f"{where}: {shown(expr)}: {name} does not take {dtype}{HINTS.get(op, '')}")


def _const(expr: Const, where: str) -> str:
    value, dtype = expr.value, expr.dtype
    if dtype not in DTYPES:
        raise SpecError(f"{where}: constant of dtype {quoted(dtype)}, which is not supported")
    if not _fits(value, dtype):
        raise SpecError(f"{where}: constant {quoted(value)} is not a value of {dtype}")
    return dtype


def _fits(value: object, dtype: str) -> bool:
    match value:
        case bool():
            return dtype == "bool"
        case int() if dtype in INTS:
            return INTEGER_RANGE[dtype][0] <= value <= INTEGER_RANGE[dtype][1]
        case int() if dtype in FLOATS:
            return abs(value) <= LARGEST[dtype]
        case float() if dtype in FLOATS:
            return not math.isfinite(value) or abs(value) <= LARGEST[dtype]
        case _:
            return False
