"""Scalar expressions: the value of one element of a tensor.

An expression is an immutable tree. Index expressions are the same trees over int64
variables, so bounds, loop extents and values share one language and one evaluator.

Expressions are interned: two that are built alike are one object, so `==` is `is`, and a hash
takes one step. Constants are alike if type, value and dtype are: 0.0 and -0.0 are two.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from itertools import chain
from typing import Any, ClassVar, Final, final

from ansorpy.expr.dtypes import DTYPES, FLOATS, INDEX, INTS, NUMBERS
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.expr.intern import InternTable, absent

ARITHMETIC: Final = ("add", "sub", "mul", "div", "floordiv", "mod", "min", "max", *BINARY_FUNCTIONS)
COMPARISONS: Final = ("lt", "le", "gt", "ge", "eq", "ne")
LOGICAL: Final = ("and", "or")
_BOOLEAN: Final = frozenset((*COMPARISONS, *LOGICAL))
# A count of a shift that is negative or at least the width of the dtype shifts every bit out.
BITS: Final = ("bitand", "bitor", "bitxor", "shl", "shr")
BINARY: Final = (*ARITHMETIC, *COMPARISONS, *LOGICAL, *BITS)

OPERANDS: Final[Mapping[str, tuple[str, ...]]] = {  # the dtypes that an operator takes
    **dict.fromkeys(ARITHMETIC, NUMBERS),
    **dict.fromkeys(("div", *BINARY_FUNCTIONS), FLOATS),
    **dict.fromkeys(("floordiv", "mod"), INTS),
    **dict.fromkeys(COMPARISONS, DTYPES),
    **dict.fromkeys(LOGICAL, ("bool",)),
    **dict.fromkeys(BITS, INTS),
    **{name: function.operands for name, function in FUNCTIONS.items()},
}  # fmt: skip
SYMBOLS: Final[Mapping[str, str]] = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%",
    "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=",
    "and": "and", "or": "or",
    "bitand": "&", "bitor": "|", "bitxor": "^", "shl": "<<", "shr": ">>",
}  # fmt: skip


_set: Final = object.__setattr__  # the only way to a field of a frozen value


class _Interned:
    """The facts of an expression that depend on nothing else, kept once they are known."""

    __slots__ = ("__weakref__", "known_form", "known_reads", "known_variables")

    known_form: object  # an affine.Form; its name could not be resolved from here at run time
    known_reads: "tuple[Read, ...]"  # see reads
    known_variables: frozenset[str]  # see variables

    def __reduce__(self) -> tuple[type, tuple[Any, ...]]:
        given = (one.name for one in fields(self) if one.init)  # type: ignore[arg-type]
        return type(self), tuple(getattr(self, name) for name in given)


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Const(_Interned):
    """A literal of dtype `dtype`."""

    value: int | float | bool
    dtype: str = INDEX

    def __new__(cls, value: int | float | bool, dtype: str = INDEX) -> "Const":
        """Return the literal."""
        kind = type(value)
        key = (value if kind is int else repr(value), kind, dtype)
        found = _CONSTS.get(key, absent)()
        if found is not None:
            return found
        made = object.__new__(cls)
        _set(made, "value", value)
        _set(made, "dtype", dtype)
        return _CONSTS.add(key, made)

    def __str__(self) -> str:
        return repr(self.value)


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Var(_Interned):
    """An axis, a loop variable or a named tile size: an int64 scalar."""

    name: str
    dtype: ClassVar[str] = INDEX

    def __new__(cls, name: str) -> "Var":
        """Return the variable."""
        found = _VARS.get((name,), absent)()
        if found is not None:
            return found
        made = object.__new__(cls)
        _set(made, "name", name)
        return _VARS.add((name,), made)

    def __str__(self) -> str:
        return self.name


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Read(_Interned):
    """One element of a tensor (in a Dag: the name of a node; in loop IR: the name of a buffer)."""

    tensor: str
    indices: tuple["Expr", ...]
    dtype: str
    output: int = 0  # number of the output of the node (argmax: 0 value, 1 index)

    def __new__(
        cls, tensor: str, indices: tuple["Expr", ...], dtype: str, output: int = 0
    ) -> "Read":
        """Return the element."""
        key = (tensor, dtype, output, *map(id, indices))
        found = _READS.get(key, absent)()
        if found is not None:
            return found
        made = object.__new__(cls)
        _set(made, "tensor", tensor)
        _set(made, "indices", indices)
        _set(made, "dtype", dtype)
        _set(made, "output", output)
        return _READS.add(key, made)

    def __str__(self) -> str:
        suffix = f".{self.output}" if self.output else ""
        return f"{self.tensor}{suffix}[{', '.join(map(str, self.indices))}]"


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Binary(_Interned):
    """`a op b`, op in BINARY; both sides have one dtype, comparisons give bool.

    `div` is for floats; `floordiv` and `mod` are for integers and floor as Python's do. `shr` of a
    signed dtype keeps the sign.
    """

    op: str
    a: "Expr"
    b: "Expr"
    dtype: str = field(init=False, repr=False)

    def __new__(cls, op: str, a: "Expr", b: "Expr") -> "Binary":
        """Return the operation."""
        key = (op, id(a), id(b))
        found = _BINARIES.get(key, absent)()
        if found is not None:
            return found
        made = object.__new__(cls)
        _set(made, "op", op)
        _set(made, "a", a)
        _set(made, "b", b)
        _set(made, "dtype", "bool" if op in _BOOLEAN else a.dtype)
        return _BINARIES.add(key, made)

    def __str__(self) -> str:
        if self.op in SYMBOLS:
            return f"({self.a} {SYMBOLS[self.op]} {self.b})"
        return f"{self.op}({self.a}, {self.b})"


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Call(_Interned):
    """`fn(a)`, fn in FUNCTIONS; the dtype is `a.dtype`."""

    fn: str
    a: "Expr"
    dtype: str = field(init=False, repr=False)

    def __new__(cls, fn: str, a: "Expr") -> "Call":
        """Return the call."""
        key = (fn, id(a))
        found = _CALLS.get(key, absent)()
        if found is not None:
            return found
        made = object.__new__(cls)
        _set(made, "fn", fn)
        _set(made, "a", a)
        _set(made, "dtype", a.dtype)
        return _CALLS.add(key, made)

    def __str__(self) -> str:
        return f"{self.fn}({self.a})"


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Cast(_Interned):
    """The value of `a` as `dtype`: float to integer truncates towards zero."""

    dtype: str
    a: "Expr"

    def __new__(cls, dtype: str, a: "Expr") -> "Cast":
        """Return the cast."""
        key = (dtype, id(a))
        found = _CASTS.get(key, absent)()
        if found is not None:
            return found
        made = object.__new__(cls)
        _set(made, "dtype", dtype)
        _set(made, "a", a)
        return _CASTS.add(key, made)

    def __str__(self) -> str:
        return f"{self.dtype}({self.a})"


@final
@dataclass(frozen=True, slots=True, eq=False, init=False)
class Select(_Interned):
    """`then` where `cond` holds, else `other`; the branch not taken is not read."""

    cond: "Expr"
    then: "Expr"
    other: "Expr"
    dtype: str = field(init=False, repr=False)

    def __new__(cls, cond: "Expr", then: "Expr", other: "Expr") -> "Select":
        """Return the choice."""
        key = (id(cond), id(then), id(other))
        found = _SELECTS.get(key, absent)()
        if found is not None:
            return found
        made = object.__new__(cls)
        _set(made, "cond", cond)
        _set(made, "then", then)
        _set(made, "other", other)
        _set(made, "dtype", then.dtype)
        return _SELECTS.add(key, made)

    def __str__(self) -> str:
        return f"({self.then} if {self.cond} else {self.other})"


Expr = Const | Var | Read | Binary | Call | Cast | Select

_CONSTS: Final = InternTable[Const]()
_VARS: Final = InternTable[Var]()
_READS: Final = InternTable[Read]()
_BINARIES: Final = InternTable[Binary]()
_CALLS: Final = InternTable[Call]()
_CASTS: Final = InternTable[Cast]()
_SELECTS: Final = InternTable[Select]()


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


def transform(expr: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """Rewrite bottom-up: `change` answers a replacement, or None to keep the node."""
    kept = rebuild(expr, tuple([transform(part, change) for part in children(expr)]))
    answer = change(kept)
    return kept if answer is None else answer


def substitute(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """Replace variables by expressions."""
    if values.keys().isdisjoint(variables(expr)):
        return expr
    if type(expr) is Var:
        return values[expr.name]
    return rebuild(expr, tuple([substitute(part, values) for part in children(expr)]))


def walk(expr: Expr) -> Iterator[Expr]:
    """Yield every sub-expression, parents first."""
    stack = [expr]
    while stack:
        top = stack.pop()
        yield top
        stack += children(top)[::-1]


def reads(expr: Expr) -> tuple[Read, ...]:
    """Return every Read inside `expr`, in order of appearance, repeats kept."""
    if type(expr) is Read:  # not kept on the node: it would keep itself alive
        return (expr, *chain.from_iterable(map(reads, expr.indices)))
    found: tuple[Read, ...] | None = getattr(expr, "known_reads", None)
    if found is None:
        found = tuple(chain.from_iterable(map(reads, children(expr))))
        _set(expr, "known_reads", found)
    return found


def variables(expr: Expr) -> frozenset[str]:
    """Return the names of the variables that occur in `expr`."""
    found: frozenset[str] | None = getattr(expr, "known_variables", None)
    if found is None:
        own = (expr.name,) if type(expr) is Var else ()
        found = frozenset(own).union(*map(variables, children(expr)))
        _set(expr, "known_variables", found)
    return found


def const(value: int | float | bool, dtype: str = INDEX) -> Const:
    """Return a literal; integers are index constants unless a dtype is given."""
    return Const(value, dtype)
