"""The small class behind `A[i, k] * 2 + 1`: an expression that knows the tensors it reads."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import DTYPES, FLOATS, INTEGER_RANGE, INTS, NUMBERS
from ansorpy.expr.expr import BITS, Binary, Call, Const, Expr
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.te.dag import Node

Number = int | float | bool


@dataclass(frozen=True, eq=False, slots=True)
class Draft:
    """A node whose name is still a token unique in this process; `te.dag` gives the final one."""

    node: Node
    wish: str
    sources: Mapping[str, "Draft"] = field(default_factory=dict)


@dataclass(frozen=True, eq=False, slots=True)
class Scalar:
    """One number of a tensor expression; operators build larger ones.

    Both sides of an operator have one dtype; a Python number takes the dtype of the other side.
    Comparisons give bool scalars, to be used in `te.select`, `te.all` and `te.any`. `& | ^ ~` are
    logical on bool and bitwise on integers; `>>` keeps the sign of a signed dtype. A shift by a
    negative count, or by at least the width of the dtype, gives 0, or -1 for a negative `a >> b`.
    """

    expr: Expr
    sources: Mapping[str, Draft] = field(default_factory=dict)

    @property
    def dtype(self) -> str:
        """The dtype of the value."""
        return self.expr.dtype

    def __add__(self, other: "Operand") -> "Scalar":
        return binary("add", self, other)

    def __radd__(self, other: Number) -> "Scalar":
        return binary("add", other, self)

    def __sub__(self, other: "Operand") -> "Scalar":
        return binary("sub", self, other)

    def __rsub__(self, other: Number) -> "Scalar":
        return binary("sub", other, self)

    def __mul__(self, other: "Operand") -> "Scalar":
        return binary("mul", self, other)

    def __rmul__(self, other: Number) -> "Scalar":
        return binary("mul", other, self)

    def __truediv__(self, other: "Operand") -> "Scalar":
        return binary("div", self, other)

    def __rtruediv__(self, other: Number) -> "Scalar":
        return binary("div", other, self)

    def __floordiv__(self, other: "Operand") -> "Scalar":
        return binary("floordiv", self, other)

    def __rfloordiv__(self, other: Number) -> "Scalar":
        return binary("floordiv", other, self)

    def __mod__(self, other: "Operand") -> "Scalar":
        return binary("mod", self, other)

    def __rmod__(self, other: Number) -> "Scalar":
        return binary("mod", other, self)

    def __pow__(self, other: "Operand") -> "Scalar":
        return binary("pow", self, other)

    def __rpow__(self, other: Number) -> "Scalar":
        return binary("pow", other, self)

    def __lt__(self, other: "Operand") -> "Scalar":
        return binary("lt", self, other)

    def __le__(self, other: "Operand") -> "Scalar":
        return binary("le", self, other)

    def __gt__(self, other: "Operand") -> "Scalar":
        return binary("gt", self, other)

    def __ge__(self, other: "Operand") -> "Scalar":
        return binary("ge", self, other)

    def __eq__(self, other: "Operand") -> "Scalar":  # type: ignore[override]
        return binary("eq", self, other)

    def __ne__(self, other: "Operand") -> "Scalar":  # type: ignore[override]
        return binary("ne", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __and__(self, other: "Operand") -> "Scalar":
        return binary("bitand" if self.dtype in INTS else "and", self, other)

    def __or__(self, other: "Operand") -> "Scalar":
        return binary("bitor" if self.dtype in INTS else "or", self, other)

    def __xor__(self, other: "Operand") -> "Scalar":
        return binary("ne" if self.dtype == "bool" else "bitxor", self, other)

    def __lshift__(self, other: "Operand") -> "Scalar":
        return binary("shl", self, other)

    def __rshift__(self, other: "Operand") -> "Scalar":
        return binary("shr", self, other)

    def __invert__(self) -> "Scalar":
        return call("bitnot" if self.dtype in INTS else "not", self)

    def __neg__(self) -> "Scalar":
        return call("neg", self)

    def __abs__(self) -> "Scalar":
        return call("abs", self)

    def __bool__(self) -> bool:
        raise SpecError(
            f"{self.expr} has no truth value while the expression is built: "
            "use te.select, te.all or te.any instead of if, and, or, chained comparisons"
        )


Operand: TypeAlias = Scalar | Number


def binary(op: str, a: Operand, b: Operand) -> Scalar:
    """Return `a op b` (op in expr.BINARY); SpecError if the dtypes do not fit the operator."""
    left, right = pair(a, b, op)
    dtype = left.dtype
    if op in ("and", "or"):
        fits, want = dtype == "bool", "bool"
    elif op == "div" or op in BINARY_FUNCTIONS:
        fits, want = dtype in FLOATS, "a float dtype (for integers use // or te.cast)"
    elif op in ("floordiv", "mod", *BITS):
        fits, want = dtype in INTS, "an integer dtype"
    else:
        fits, want = dtype != "bool" or op in ("eq", "ne"), "a number (use te.cast)"
    if not fits:
        raise SpecError(f"operator {op!r} on {dtype}: it wants {want}")
    return Scalar(Binary(op, left.expr, right.expr), {**left.sources, **right.sources})


def call(fn: str, a: Scalar) -> Scalar:
    """Return `fn(a)` (fn in expr.FUNCTIONS); SpecError if the dtype does not fit the function."""
    operands = FUNCTIONS[fn].operands
    if a.dtype not in operands:
        wanted = {FLOATS: "a float dtype (use te.cast)", NUMBERS: "a number"}
        want = wanted.get(operands, operands[0])
        raise SpecError(f"function {fn!r} on {a.dtype}: it wants {want}")
    return Scalar(Call(fn, a.expr), a.sources)


def pair(a: Operand, b: Operand, place: str) -> tuple[Scalar, Scalar]:
    """Return both operands as scalars of one dtype; SpecError if there is no such dtype."""
    if isinstance(a, Scalar):
        left, right = a, lift(b, a.dtype, place)
    elif isinstance(b, Scalar):
        left, right = lift(a, b.dtype, place), b
    else:
        raise SpecError(f"{place!r} of {a!r} and {b!r}: give one of them a dtype with te.const")
    if left.dtype != right.dtype:
        raise SpecError(f"{place!r} of {left.dtype} and {right.dtype}: use te.cast on one of them")
    return left, right


def lift(value: object, dtype: str, place: str) -> Scalar:
    """Return a Scalar unchanged and a Python or NumPy number as a literal of `dtype`."""
    if isinstance(value, Scalar):
        return value
    if isinstance(value, np.generic):
        value = value.item()
    if not isinstance(value, int | float):
        raise SpecError(f"{place!r}: {type(value).__name__} is not a scalar expression")
    return const(value, dtype)


def const(value: Number, dtype: str) -> Scalar:
    """Return a literal; SpecError if `value` is no value of `dtype`."""
    if dtype not in DTYPES:
        raise SpecError(f"literal {value!r}: unknown dtype {dtype!r}, known: {', '.join(DTYPES)}")
    if isinstance(value, bool) or dtype == "bool":
        if not (isinstance(value, bool) and dtype == "bool"):
            raise SpecError(f"literal {value!r} is not a {dtype} (use te.cast)")
        return Scalar(Const(value, dtype))
    if dtype in FLOATS:
        return Scalar(Const(float(value), dtype))
    low, high = INTEGER_RANGE[dtype]
    if not isinstance(value, int) or not low <= value <= high:
        raise SpecError(f"literal {value!r} is not in the range of {dtype}: {low} to {high}")
    return Scalar(Const(value, dtype))
