"""Scalar expressions: what one element of a node is computed from.

An expression is an immutable tree. Index expressions are the same trees over int64
variables, so bounds, loop extents and values share one language and one evaluator.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from operator import is_
from typing import Final, final

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
_BOOLEAN: Final = frozenset((*COMPARISONS, *LOGICAL))
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


@final
@dataclass(frozen=True, slots=True)
class Const:
    """A literal of dtype `dtype`."""

    value: int | float | bool
    dtype: str = INDEX

    def __str__(self) -> str:
        return repr(self.value)


@final
@dataclass(frozen=True, slots=True)
class Var:
    """An axis, a loop variable or a named tile size: an int64 scalar."""

    name: str

    def __str__(self) -> str:
        return self.name


@final
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


@final
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


@final
@dataclass(frozen=True, slots=True)
class Call:
    """`fn(a)`, fn in FUNCTIONS; the dtype is that of `a`."""

    fn: str
    a: "Expr"

    def __str__(self) -> str:
        return f"{self.fn}({self.a})"


@final
@dataclass(frozen=True, slots=True)
class Cast:
    """The value of `a` as `dtype`: float to integer truncates towards zero."""

    dtype: str
    a: "Expr"

    def __str__(self) -> str:
        return f"{self.dtype}({self.a})"


@final
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
    while True:
        if type(expr) is Binary:
            if expr.op in _BOOLEAN:
                return "bool"
            expr = expr.a
        elif type(expr) is Var:
            return INDEX
        elif type(expr) is Call:
            expr = expr.a
        elif type(expr) is Select:
            expr = expr.then
        else:
            return expr.dtype


def children(expr: Expr) -> tuple[Expr, ...]:
    """Return the direct sub-expressions, left to right."""
    if type(expr) is Binary:
        return (expr.a, expr.b)
    if type(expr) is Var or type(expr) is Const:
        return ()
    if type(expr) is Read:
        return expr.indices
    if type(expr) is Select:
        return (expr.cond, expr.then, expr.other)
    return (expr.a,)


def rebuild(expr: Expr, parts: tuple[Expr, ...]) -> Expr:
    """Return `expr` with its direct sub-expressions replaced (same order as `children`)."""
    if type(expr) is Binary:
        return Binary(expr.op, *parts)
    if type(expr) is Read:
        return Read(expr.tensor, parts, expr.dtype, expr.output)
    if type(expr) is Select:
        return Select(*parts)
    if type(expr) is Call:
        return Call(expr.fn, *parts)
    return Cast(expr.dtype, *parts) if type(expr) is Cast else expr


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
    if type(expr) is Var:
        return values.get(expr.name, expr)
    parts = children(expr)
    return renewed(expr, parts, tuple([substitute(part, values) for part in parts]))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every sub-expression, parents first."""
    stack = [expr]
    while stack:
        top = stack.pop()
        yield top
        stack += children(top)[::-1]


def reads(expr: Expr) -> tuple[Read, ...]:
    """Return every Read inside `expr`, in order of appearance, repeats kept."""
    found: list[Read] = []
    stack = [expr]
    while stack:
        top = stack.pop()
        if type(top) is Binary:
            stack += (top.b, top.a)
        elif type(top) is Read:
            found.append(top)
            stack += top.indices[::-1]
        elif type(top) is not Var and type(top) is not Const:
            stack += children(top)[::-1]
    return tuple(found)


def variables(expr: Expr) -> frozenset[str]:
    """Return the names of the variables that occur in `expr`."""
    found: list[str] = []
    stack = [expr]
    while stack:
        top = stack.pop()
        if type(top) is Binary:
            stack += (top.a, top.b)
        elif type(top) is Var:
            found.append(top.name)
        elif type(top) is not Const:
            stack += children(top)
    return frozenset(found)


def const(value: int | float | bool, dtype: str = INDEX) -> Const:
    """Return a literal; integers are index constants unless a dtype is given."""
    return Const(value, dtype)
