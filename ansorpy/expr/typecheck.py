"""The dtype rules of expressions, checked on the way up: nothing is converted silently."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from ansorpy.errors import AnsorError, quoted, shown
from ansorpy.expr.dtypes import DTYPES, FLOATS, INDEX, INTEGER_RANGE, INTS, LARGEST
from ansorpy.expr.expr import (
    BINARY,
    COMPARISONS,
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
from ansorpy.expr.functions import FUNCTIONS

HINTS: Final = {"div": "; integers divide by floordiv", "floordiv": "; floats divide by div"}


@dataclass(frozen=True, slots=True)
class TypeCheck:
    """The type check of one floor: Dags and loop IR differ in their tensors and their errors.

    Attributes:
        tensor_dtype: returns the dtype of the elements that a Read takes; raises if it takes none.
        error: makes the exception of a message.
        operands: the dtypes that an operator takes; see `expr.OPERANDS`.
    """

    tensor_dtype: Callable[[Read], str]
    error: Callable[[str], AnsorError]
    operands: Mapping[str, tuple[str, ...]]

    def dtype(self, expr: Expr) -> str:
        """Return the dtype of an expression.

        Raises:
            AnsorError: the exception of `error`: an operation has operands that it does not take,
                a constant is no value of its dtype, or a read has another dtype than its tensor.
        """
        match expr:
            case Const():
                return self._const(expr)
            case Var():
                return INDEX
            case Read():
                return self._read(expr)
            case Binary():
                return self._binary(expr)
            case Call(fn=fn, a=a):
                if fn not in FUNCTIONS:
                    raise self.error(f"function {quoted(fn)} is not known")
                kind = self.dtype(a)
                self._takes(fn, kind, expr)
                return kind
            case Cast(dtype=dtype, a=a):
                self.dtype(a)
                if dtype not in DTYPES:
                    raise self.error(f"cast to {quoted(dtype)}, which is not supported")
                return dtype
            case Select(cond=cond, then=then, other=other):
                self.expect(cond, "bool")
                kind = self.dtype(then)
                self.expect(other, kind)
                return kind

    def expect(self, expr: Expr, wanted: str) -> None:
        """Check an expression, and refuse another dtype than `wanted`.

        Raises:
            AnsorError: as `dtype`, or the message names both dtypes.
        """
        self._same(expr, self.dtype(expr), wanted)

    def _same(self, expr: Expr, dtype: str, wanted: str) -> None:
        if dtype != wanted:
            raise self.error(f"{shown(expr)} is {dtype}, not {wanted}; write a cast")

    def _read(self, expr: Read) -> str:
        found = self.tensor_dtype(expr)
        self._same(expr, found, expr.dtype)
        for index in expr.indices:
            self.expect(index, INDEX)
        return found

    def _binary(self, expr: Binary) -> str:
        if expr.op not in BINARY:
            raise self.error(f"operation {quoted(expr.op)} is not known")
        left, right = self.dtype(expr.a), self.dtype(expr.b)
        if left != right:
            raise self.error(f"{shown(expr)} mixes {left} and {right}; write a cast")
        self._takes(expr.op, left, expr)
        return "bool" if expr.op in COMPARISONS else left

    def _takes(self, op: str, dtype: str, expr: Expr) -> None:
        if dtype not in self.operands[op]:
            name = SYMBOLS.get(op, op)
            raise self.error(f"{shown(expr)}: {name} does not take {dtype}{HINTS.get(op, '')}")

    def _const(self, expr: Const) -> str:
        value, dtype = expr.value, expr.dtype
        if dtype not in DTYPES:
            raise self.error(f"constant of dtype {quoted(dtype)}, which is not supported")
        if not _fits(value, dtype):
            raise self.error(f"constant {quoted(value)} is not a value of {dtype}")
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
