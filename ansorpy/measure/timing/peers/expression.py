"""Expressions over the iteration space of a node as operators on whole tensors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ansorpy.expr.dtypes import FLOATS, INTS
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.measure.timing.peers.arithmetic import applied
from ansorpy.measure.timing.peers.shaping import view
from ansorpy.measure.timing.peers.term import Term, Terms

Values = Mapping[tuple[str, int], Term]  # by tensor and number of its output

_BINARY: Final[Mapping[str, str]] = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "min": "Min", "max": "Max",
    "pow": "Pow", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual",
    "eq": "Equal", "and": "And", "or": "Or", "bitand": "BitwiseAnd", "bitor": "BitwiseOr",
    "bitxor": "BitwiseXor",
}  # fmt: skip
_CALL: Final[Mapping[str, str]] = {
    "neg": "Neg", "not": "Not", "bitnot": "BitwiseNot", "abs": "Abs", "floor": "Floor",
    "ceil": "Ceil", "exp": "Exp", "log": "Log", "tanh": "Tanh", "erf": "Erf", "sqrt": "Sqrt",
    "sigmoid": "Sigmoid", "round": "Round", "sin": "Sin", "cos": "Cos", "atan": "Atan",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class NodeSpace:
    """The iteration space of a node: its axes in the order of the dimensions of terms."""

    terms: Terms
    values: Values
    extents: Mapping[str, int]
    axes: Sequence[str]

    def term(self, expr: Expr) -> Term | None:
        """Return an expression as a term that broadcasts over the axes; None if none does."""
        match expr:
            case Const(value=value, dtype=dtype):
                return self.terms.constant(value, dtype)
            case Var(name=name):
                at = list(self.axes).index(name)
                grid = np.arange(self.extents[name]).reshape(-1, *[1] * (len(self.axes) - at - 1))
                return self.terms.constant(grid, "int64")
            case Read(tensor=tensor, output=output):
                return view(self.terms, expr, self.values[tensor, output], self.extents, self.axes)
            case Cast(dtype=dtype, a=a):
                inner = self.term(a)
                if inner is None or inner.dtype == dtype:
                    return inner
                return applied(self.terms, "Cast", inner, dtype=dtype, to=dtype)
            case Call(fn=fn, a=a):
                return self._call(fn, self.term(a))
            case Binary(op=op, a=a, b=b):
                return self._binary(op, self.term(a), self.term(b), expr.dtype)
            case Select(cond=cond, then=then, other=other):
                parts = [self.term(cond), self.term(then), self.term(other)]
                if any(one is None for one in parts):
                    return None
                return applied(self.terms, "Where", *filter(None, parts), dtype=then.dtype)

    def _call(self, fn: str, a: Term | None) -> Term | None:
        if a is None:
            return None
        terms, dtype = self.terms, a.dtype
        if fn == "rsqrt":
            root = applied(terms, "Sqrt", a, dtype=dtype)
            return applied(terms, "Reciprocal", root, dtype=dtype)
        if fn == "log1p":
            more = applied(terms, "Add", a, terms.constant(1.0, dtype), dtype=dtype)
            return applied(terms, "Log", more, dtype=dtype)
        return applied(terms, _CALL[fn], a, dtype=dtype) if fn in _CALL else None

    def _binary(self, op: str, a: Term | None, b: Term | None, dtype: str) -> Term | None:
        if a is None or b is None:
            return None
        if op == "ne":
            same = applied(self.terms, "Equal", a, b, dtype="bool")
            return applied(self.terms, "Not", same, dtype="bool")
        if op == "fmod" and a.dtype in FLOATS:
            return applied(self.terms, "Mod", a, b, dtype=dtype, fmod=1)
        if op == "mod" and a.dtype in INTS:
            return applied(self.terms, "Mod", a, b, dtype=dtype)
        if op == "floordiv" and a.array is not None and b.array is not None:
            return applied(self.terms, "FloorDiv", a, b, dtype=dtype)
        return applied(self.terms, _BINARY[op], a, b, dtype=dtype) if op in _BINARY else None
