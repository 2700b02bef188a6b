"""Terms to typed expressions: names get their meaning, literals the dtype of their context."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ansorpy.errors import shown
from ansorpy.expr.dtypes import FLOATS, INDEX, INTS
from ansorpy.expr.expr import (
    COMPARISONS,
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
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS
from ansorpy.expr.gathers import clamped, data_is_bounded
from ansorpy.frontends.tc.ast import (
    Apply,
    Cond,
    Infix,
    Name,
    Number,
    Term,
    Unary,
    all_terms,
    start,
    written,
)
from ansorpy.frontends.tc.lexer import At
from ansorpy.te.dims import Dim
from ansorpy.te.functions import sign
from ansorpy.te.scalar import Scalar

DTYPE_NAMES: Final[Mapping[str, str]] = {
    "float": "float32", "double": "float64", "half": "float16", "int": "int32",
    "float16": "float16", "bfloat16": "bfloat16", "float32": "float32", "float64": "float64",
    **{name: name for name in INTS}, "bool": "bool",
}  # fmt: skip
ONE: Final[Mapping[str, str]] = {
    "fabs": "abs",
    **{name: name for name in FUNCTIONS if name not in ("neg", "not", "bitnot")},
}
TWO: Final[Mapping[str, str]] = {
    "max": "max", "min": "min", "fmax": "max", "fmin": "min",
    **{name: name for name in BINARY_FUNCTIONS},
}  # fmt: skip
SIGN: Final = "sign"  # conditions, no function of its own
ARGS: Final = ("argmax", "argmin")
VALUES: Final[Mapping[str, float]] = {"inf": float("inf"), "nan": float("nan")}
RESERVED: Final = frozenset((*DTYPE_NAMES, *ONE, *TWO, SIGN, *ARGS, *VALUES))
INFIX: Final[Mapping[str, str]] = {
    "+": "add", "-": "sub", "*": "mul", "%": "mod", "<": "lt", "<=": "le", ">": "gt",
    ">=": "ge", "==": "eq", "!=": "ne", "&&": "and", "||": "or",
    "&": "bitand", "|": "bitor", "^": "bitxor", "<<": "shl", ">>": "shr",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Source:
    """The output of a node that a tensor name refers to."""

    node: str
    shape: tuple[int, ...]
    dtype: str
    output: int = 0


@dataclass(frozen=True)
class NameScope:
    """The names that a term may use.

    `sizes` are numbers; `indices` the index variables that the statement declares (others are
    reduced over); `later` tensors that are computed further down.
    """

    tensors: Mapping[str, Source]
    sizes: Mapping[str, int]
    indices: frozenset[str]
    later: frozenset[str]

    def typed(self, term: Term, want: str | None = None) -> Expr:
        """Return the expression of a term; literals take `want` where no tensor says a dtype.

        Raises:
            SpecError: an unknown name, a wrong rank, or dtypes that do not agree.
        """
        if self.is_weak(term) and want is None:
            want = self._default(term)
        match term:
            case Number() | Name():
                return self._leaf(term, want)
            case Apply():
                return self._apply(term, want)
            case Unary(op="!", a=a):
                return Call("not", self._of("bool", a, None))
            case Unary(op="~", a=a):
                return Call("bitnot", self.typed(a, want))
            case Unary(a=a):
                inner = self.typed(a, want)
                if isinstance(inner, Const):
                    return Const(-inner.value, inner.dtype)
                return Call("neg", inner)
            case Infix():
                return self._infix(term, want)
            case Cond(test=test, yes=yes, no=no):
                cond = self._of("bool", test, None)
                return Select(cond, *self._pair(yes, no, want, term.at))

    def index(self, term: Term, extent: int, what: str) -> Expr:
        """Return an index expression; data without a clamp is clamped to 0 to extent - 1.

        Raises:
            SpecError: the term is neither an int64 nor an integer read from a tensor.
        """
        expr = self.typed(term, INDEX)
        if expr.dtype in INTS and reads(expr):
            expr = expr if expr.dtype == INDEX else Cast(INDEX, expr)
            return expr if data_is_bounded(expr) else clamped(expr, extent)
        if expr.dtype != INDEX:
            raise start(term).error(
                f"{what} is {shown(written(term))} of dtype {expr.dtype}, not an index"
            )
        return expr

    def number(self, term: Term) -> int:
        """Return the value of a term over sizes and whole numbers.

        Raises:
            SpecError: it mentions something else.
        """
        match term:
            case Number(value=int() as value):
                return value
            case Name(name=name, at=at):
                if name not in self.sizes:
                    raise at.error(
                        f"size {name!r} has no value; expected a binding, such as {name}=512,"
                        f" or a range, such as {name} in 1..512"
                    )
                return self.sizes[name]
            case Unary(op="-", a=a):
                return -self._known(a)
            case Infix(op="+" | "-" | "*" | "/" | "%" as op, a=a, b=b, at=at):
                return _arithmetic(op, self._known(a), self._known(b), at)
            case _:
                raise start(term).error(f"{shown(written(term))} is not a whole number")

    def _known(self, term: Term) -> int:
        """Return the value of a term, which arithmetic takes: no dim."""
        value = self.number(term)
        if isinstance(value, Dim):
            raise start(term).error(_unknown_size(value))
        return value

    def is_weak(self, term: Term) -> bool:
        """Return whether a term has literals and sizes only, so that its context types it."""
        match term:
            case Number():
                return True
            case Name(name=name):
                return name not in self.tensors and (name in self.sizes or name in VALUES)
            case Apply(name=name, args=args):
                return (name == SIGN or name in ONE or name in TWO) and all(map(self.is_weak, args))
            case Unary(op=op, a=a):
                return op == "-" and self.is_weak(a)
            case Infix(op=op, a=a, b=b):
                arithmetic = INFIX.get(op) in ("add", "sub", "mul", "mod") or op == "/"
                return arithmetic and self.is_weak(a) and self.is_weak(b)
            case Cond(yes=yes, no=no):
                return self.is_weak(yes) and self.is_weak(no)

    def _default(self, term: Term) -> str:
        for part in all_terms(term):
            match part:
                case Number(value=float()) | Apply():
                    return "float32"
                case Name(name=name) if name in VALUES:
                    return "float32"
                case _:
                    pass
        return INDEX

    def _leaf(self, term: Number | Name, want: str | None) -> Expr:
        if isinstance(term, Number):
            return self._literal(term.value, want, term.at)
        name = term.name
        if name in self.indices:
            return Var(name)
        if name in self.tensors:
            return self._read(Apply(name, (), term.at))
        if name in self.sizes:
            size = self.sizes[name]
            if isinstance(size, Dim):
                raise term.at.error(_unknown_size(size))
            return self._literal(size, want, term.at)
        if name in VALUES:
            return self._literal(VALUES[name], want, term.at)
        if name in RESERVED or name in self.later:
            raise term.at.error(self._unknown(name))
        return Var(name)

    def _literal(self, value: int | float, want: str | None, at: At) -> Expr:
        if want in FLOATS:
            return Const(float(value), want)
        if isinstance(value, float) or want not in INTS:
            raise at.error(f"{value} stands where {want} is wanted")
        return Const(value, want)

    def _apply(self, term: Apply, want: str | None) -> Expr:
        name, args = term.name, term.args
        if name in self.tensors:
            return self._read(term)
        if name in DTYPE_NAMES:
            self._arity(term, 1)
            dtype = DTYPE_NAMES[name]
            if self.is_weak(args[0]) and dtype != "bool":
                return self.typed(args[0], dtype)
            inner = self.typed(args[0])
            return inner if inner.dtype == dtype else Cast(dtype, inner)
        if name == SIGN:
            self._arity(term, 1)
            return sign(Scalar(self.typed(args[0], want))).expr
        if name in ONE:
            self._arity(term, 1)
            return Call(ONE[name], self.typed(args[0], want))
        if name in TWO:
            self._arity(term, 2)
            return Binary(TWO[name], *self._pair(args[0], args[1], want, term.at))
        raise term.at.error(self._unknown(name))

    def _arity(self, term: Apply, count: int) -> None:
        if len(term.args) != count:
            raise term.at.error(f"{term.name} takes {count}, not {len(term.args)} arguments")

    def _unknown(self, name: str) -> str:
        if name in self.later:
            return f"{name!r} is read before it is computed: no recursion, producers come first"
        if name in ARGS:
            return f"{name} stands alone: (V, I)(i) = {name}(k, A(i, k))"
        if name in RESERVED:
            return f"{name!r} is a function or a dtype: write {name}(...)"
        return f"{name!r} is not a tensor, a function or a dtype"

    def _read(self, term: Apply) -> Read:
        source = self.tensors[term.name]
        if len(term.args) != len(source.shape):
            raise term.at.error(
                f"{shown(written(term))} has {len(term.args)} indices, but {term.name!r} has "
                f"rank {len(source.shape)}"
            )
        indices = tuple(
            self.index(arg, extent, f"index {position} of {term.name!r}")
            for position, (arg, extent) in enumerate(zip(term.args, source.shape, strict=True))
        )
        return Read(source.node, indices, source.dtype, source.output)

    def _infix(self, term: Infix, want: str | None) -> Expr:
        if term.op in ("&&", "||"):
            left = self._of("bool", term.a, None)
            return Binary(INFIX[term.op], left, self._of("bool", term.b, None))
        compares = INFIX.get(term.op) in COMPARISONS
        left, right = self._pair(term.a, term.b, None if compares else want, term.at)
        if term.op == "/":
            return Binary("floordiv" if left.dtype in INTS else "div", left, right)
        return Binary(INFIX[term.op], left, right)

    def _of(self, dtype: str, term: Term, want: str | None) -> Expr:
        expr = self.typed(term, want)
        if expr.dtype != dtype:
            raise start(term).error(
                f"{shown(written(term))} is {expr.dtype}, not a condition: compare it"
            )
        return expr

    def _pair(self, a: Term, b: Term, want: str | None, at: At) -> tuple[Expr, Expr]:
        """Type two terms that must agree; a literal takes the dtype of the other term."""
        if self.is_weak(a) and self.is_weak(b):
            dtypes = {self._default(a), self._default(b)}
            want = want or ("float32" if "float32" in dtypes else INDEX)
            return self.typed(a, want), self.typed(b, want)
        if self.is_weak(a):
            right = self.typed(b, want)
            return self.typed(a, right.dtype), right
        left = self.typed(a, want)
        right = self.typed(b, left.dtype if self.is_weak(b) else want)
        if left.dtype != right.dtype:
            raise at.error(
                f"{shown(written(a))} is {left.dtype}, but {shown(written(b))} is "
                f"{right.dtype}: write a cast, such as {_cast(left.dtype)}({written(b)})"
            )
        return left, right


def _unknown_size(dim: Dim) -> str:
    return (
        f"cannot compute with {dim.name} ({dim!r}) because only a call knows its size; expected it"
        " as a whole extent"
    )


def _cast(dtype: str) -> str:
    return "float" if dtype == "float32" else dtype


def _arithmetic(op: str, a: int, b: int, at: At) -> int:
    if op in ("/", "%") and b == 0:
        raise at.error("division by 0")
    value = {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "/": lambda: a // b,
        "%": lambda: a % b,
    }[op]()
    if value.bit_length() > 128:
        raise at.error("the number is too large")
    return value
