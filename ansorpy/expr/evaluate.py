"""Evaluate index expressions: over ints for one candidate, over columns for a population."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Call, Const, Expr, Select, Var

IntArray = npt.NDArray[np.int64]
Number = int | IntArray

_OPS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul,
    "floordiv": operator.floordiv, "mod": operator.mod,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
    "min": lambda a, b: np.minimum(a, b) if _columns(a, b) else min(a, b),
    "max": lambda a, b: np.maximum(a, b) if _columns(a, b) else max(a, b),
    "and": lambda a, b: np.logical_and(a, b) if _columns(a, b) else a and b,
    "or": lambda a, b: np.logical_or(a, b) if _columns(a, b) else a or b,
}  # fmt: skip


def evaluate(expr: Expr, values: Mapping[str, Number]) -> Any:
    """Return the value of an index expression: an int, a bool, or an array of shape (n,).

    Args:
        values: an int, or an int64 array of shape (n,), for every variable of `expr`.

    Raises:
        LoweringError: a variable has no value, or `expr` is not an index expression.
    """
    match expr:
        case Const(value=value):
            return value
        case Var(name=name) if name in values:
            return values[name]
        case Var(name=name):
            raise LoweringError(f"size {name!r} has no value")
        case Binary(op=op, a=a, b=b) if op in _OPS:
            return _OPS[op](evaluate(a, values), evaluate(b, values))
        case Select(cond=cond, then=then, other=other):
            test = evaluate(cond, values)
            if isinstance(test, np.ndarray):
                return np.where(test, evaluate(then, values), evaluate(other, values))
            return evaluate(then if test else other, values)
        case Call(fn="not", a=a):
            test = evaluate(a, values)
            return np.logical_not(test) if isinstance(test, np.ndarray) else not test
        case _:
            raise LoweringError(f"not an index expression: {expr}")


def _columns(a: object, b: object) -> bool:
    return isinstance(a, np.ndarray) or isinstance(b, np.ndarray)
