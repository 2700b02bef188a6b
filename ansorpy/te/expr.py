"""Scalar expressions: what one element of a node is computed from.

An expression is an immutable tree. Index expressions are the same trees over int64
variables, so bounds, loop extents and values share one language and one evaluator.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from operator import is_
from typing import Final

INDEX: Final = "int64"  # the dtype of every axis variable

FLOATS: Final = ("float16", "bfloat16", "float32", "float64")
INTS: Final = ("int8", "uint8", "int32", "int64")
DTYPES: Final = (*FLOATS, *INTS, "bool")
SIZE_BYTES: Final[Mapping[str, int]] = {
    "bool": 1, "int8": 1, "uint8": 1, "float16": 2, "bfloat16": 2,
    "int32": 4, "float32": 4, "int64": 8, "float64": 8,
}  # fmt: skip

ARITHMETIC: Final = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", "pow")
COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL: Final = ("and", "or")
BINARY: Final = (*ARITHMETIC, *COMPARISONS, *LOGICAL)
FUNCTIONS: Final = (
    "neg", "not", "abs", "floor", "ceil",
    "exp", "log", "tanh", "erf", "sqrt", "rsqrt", "sigmoid",
)  # fmt: skip

SYMBOLS: Final[Mapping[str, str]] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and": "and", "or": "or",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Const:
    """A literal of dtype `dtype`."""

    value: int | float | bool
    dtype: str = INDEX

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, slots=True)
class Var:
    """An axis, a loop variable or a named tile size: an int64 scalar."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Read:
    """One element of a tensor (in a Dag: the name of a node; in loop IR: the name of a buffer)."""

    tensor: str
    indices: tuple["Expr", ...]
    dtype: str
    output: int = 0  # which output of a node with several (argmax: 0 value, 1 index)

    def __str__(self) -> str:
        suffix = f".{self.output}" if self.output else ""
        return f"{self.tensor}{suffix}[{', '.join(map(str, self.indices))}]"


@dataclass(frozen=True, slots=True)
class Binary:
    """`a op b`, op in BINARY; both sides have one dtype, comparisons give bool.

    `div` is for floats; `floordiv` and `mod` are for integers and floor as Python's do.
    """

    op: str
    a: "Expr"
    b: "Expr"

    def __str__(self) -> str:
        if self.op in SYMBOLS:
            return f"({self.a} {SYMBOLS[self.op]} {self.b})"
        return f"{self.op}({self.a}, {self.b})"


@dataclass(frozen=True, slots=True)
class Call:
    """`fn(a)`, fn in FUNCTIONS; the dtype is that of `a`."""

    fn: str
    a: "Expr"

    def __str__(self) -> str:
        return f"{self.fn}({self.a})"


@dataclass(frozen=True, slots=True)
class Cast:
    """The value of `a` as `dtype`: float to integer truncates towards zero."""

    dtype: str
    a: "Expr"

    def __str__(self) -> str:
        return f"{self.dtype}({self.a})"


@dataclass(frozen=True, slots=True)
class Select:
    """`then` where `cond` holds, else `other`; the branch not taken is not read."""

    cond: "Expr"
    then: "Expr"
    other: "Expr"

    def __str__(self) -> str:
        return f"({self.then} if {self.cond} else {self.other})"


Expr = Const | Var | Read | Binary | Call | Cast | Select


def dtype_of(expr: Expr) -> str:
    """Return the dtype of an expression (an axis variable is int64)."""
    match expr:
        case Const(dtype=dtype) | Read(dtype=dtype) | Cast(dtype=dtype):
            return dtype
        case Var():
            return INDEX
        case Binary(op=op, a=a):
            return "bool" if op in COMPARISONS or op in LOGICAL else dtype_of(a)
        case Call(a=a):
            return dtype_of(a)
        case Select(then=then):
            return dtype_of(then)


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions, left to right."""
    match expr:
        case Const() | Var():
            return ()
        case Read(indices=indices):
            return indices
        case Binary(a=a, b=b):
            return (a, b)
        case Call(a=a) | Cast(a=a):
            return (a,)
        case Select(cond=cond, then=then, other=other):
            return (cond, then, other)


def rebuild(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """Return `expr` with its direct sub-expressions replaced (same order as `children`)."""
    match expr:
        case Const() | Var():
            return expr
        case Read():
            return replace(expr, indices=parts)
        case Binary():
            return Binary(expr.op, *parts)
        case Call():
            return Call(expr.fn, *parts)
        case Cast():
            return Cast(expr.dtype, *parts)
        case Select():
            return Select(*parts)


def renewed(expr: Expr, old: tuple[Expr, ...], new: tuple[Expr, ...]) -> Expr:
    """Return `expr` with its direct sub-expressions `old` replaced: itself where none changed."""
    return expr if all(map(is_, old, new)) else rebuild(expr, new)


def transform(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite bottom-up: `change` answers a replacement, or None to keep the node."""
    parts = children(expr)
    kept = renewed(expr, parts, tuple([transform(part, change) for part in parts]))
    answer = change(kept)
    return kept if answer is None else answer


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replace variables by expressions."""
    return transform(expr, lambda e: values.get(e.name) if isinstance(e, Var) else None)


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every sub-expression, parents first."""
    stack = [expr]
    while stack:
        top = stack.pop()
        yield top
        stack.extend(reversed(children(top)))


def reads(expr: Expr) -> tuple[Read, ...]:
    """Return every Read inside `expr`, in order of appearance, repeats kept."""
    return tuple(e for e in walk(expr) if isinstance(e, Read))


def variables(expr: Expr) -> frozenset[str]:
    """Return the names of the variables that occur in `expr`."""
    return frozenset(e.name for e in walk(expr) if isinstance(e, Var))


def const(value: int | float | bool, dtype: str = INDEX) -> Const:
    """Return a literal; integers are index constants unless a dtype is given."""
    return Const(value, dtype)
