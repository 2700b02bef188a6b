"""The syntax tree of a source text: terms, statements, definitions, without meaning."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.frontends.tc.lexer import At


@dataclass(frozen=True, slots=True)
class Number:
    """A literal; an int if it has neither a point nor an exponent."""

    value: int | float
    at: At


@dataclass(frozen=True, slots=True)
class Name:
    """An index variable, a size, or a tensor of rank 0."""

    name: str
    at: At


@dataclass(frozen=True, slots=True)
class Apply:
    """`name(args)`: an element of a tensor, a function or a cast."""

    name: str
    args: tuple["Term", ...]
    at: At


@dataclass(frozen=True, slots=True)
class Unary:
    """`-a` or `!a`."""

    op: str
    a: "Term"
    at: At


@dataclass(frozen=True, slots=True)
class Infix:
    """`a op b`; `at` is the place of the operator."""

    op: str
    a: "Term"
    b: "Term"
    at: At


@dataclass(frozen=True, slots=True)
class Cond:
    """`test ? yes : no`."""

    test: "Term"
    yes: "Term"
    no: "Term"
    at: At


Term = Number | Name | Apply | Unary | Infix | Cond


def parts(term: Term) -> tuple[Term, ...]:
    """Return the direct sub-terms, left to right."""
    match term:
        case Apply(args=args):
            return args
        case Unary(a=a):
            return (a,)
        case Infix(a=a, b=b):
            return (a, b)
        case Cond(test=test, yes=yes, no=no):
            return (test, yes, no)
        case _:
            return ()


def all_terms(term: Term) -> Iterator[Term]:
    """Yield a term and every term inside it, left to right."""
    yield term
    for part in parts(term):
        yield from all_terms(part)


def start(term: Term) -> At:
    """Return the place where a term begins."""
    match term:
        case Infix(a=a) | Cond(test=a):
            return start(a)
        case _:
            return term.at


def written(term: Term) -> str:
    """Return a term as source text, for messages."""
    match term:
        case Number(value=value):
            return str(value)
        case Name(name=name):
            return name
        case Apply(name=name, args=args):
            return f"{name}({', '.join(map(written, args))})"
        case Unary(op=op, a=a):
            return f"{op}{_operand(a)}"
        case Infix(op=op, a=a, b=b):
            return f"{_operand(a)} {op} {_operand(b)}"
        case Cond(test=test, yes=yes, no=no):
            return f"{_operand(test)} ? {_operand(yes)} : {_operand(no)}"


def _operand(term: Term) -> str:
    return f"({written(term)})" if isinstance(term, Infix | Cond) else written(term)


@dataclass(frozen=True, slots=True)
class Where:
    """`name in low:high`."""

    name: Name
    low: Term
    high: Term


@dataclass(frozen=True, slots=True)
class Hint:
    """`kind(args)` of a `with` clause."""

    kind: str
    args: tuple[Term, ...]
    at: At


@dataclass(frozen=True, slots=True)
class Statement:
    """`targets(indices) op value where ... with ...`."""

    targets: tuple[Name, ...]
    indices: tuple[Name, ...]
    op: str
    value: Term
    wheres: tuple[Where, ...]
    hints: tuple[Hint, ...]

    @property
    def at(self) -> At:
        """The place of the first target."""
        return self.targets[0].at


@dataclass(frozen=True, slots=True)
class Ranged:
    """`name in low..high step step @ weights` in a parameter's shape: a call decides this size."""

    name: Name
    low: Term
    high: Term
    step: Term
    weights: tuple["WeightedSizes", ...] = ()

    @property
    def numbers(self) -> tuple[Term, Term, Term]:
        """The terms of the range."""
        return self.low, self.high, self.step


@dataclass(frozen=True, slots=True)
class WeightedSizes:
    """`low..high: weight`, or `low: weight`: how often calls have these sizes."""

    low: Term
    high: Term
    weight: float


@dataclass(frozen=True, slots=True)
class Parameter:
    """`const dtype(dims) name`; `ranges` has the ranges that stand in the shape."""

    name: Name
    dtype: Name
    dims: tuple[Term, ...]
    constant: bool
    ranges: tuple[Ranged, ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """An output: `name`, or `dtype(dims) name`; `dtype` is None if the text gives no type."""

    name: Name
    dtype: Name | None = None
    dims: tuple[Term, ...] = ()


@dataclass(frozen=True, slots=True)
class Def:
    """`def name(parameters) -> (outputs) { statements }`."""

    name: Name
    parameters: tuple[Parameter, ...]
    outputs: tuple[Declared, ...]
    statements: tuple[Statement, ...]
