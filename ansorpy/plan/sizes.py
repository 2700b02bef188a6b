"""Evaluate index expressions: over ints for one candidate, over columns for a population."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import LoweringError
from ansorpy.te.expr import Binary, Call, Const, Expr, Select, Var

IntArray = npt.NDArray[np.int64]
Number = int | IntArray

_OPS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


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
        case Var(name=name):
            if name not in values:
                raise LoweringError(f"size {name!r} has no value")
            return values[name]
        case Binary(op=op, a=a, b=b):
            x, y = evaluate(a, values), evaluate(b, values)
            if op in _OPS:
                return _OPS[op](x, y)
            arrays = isinstance(x, np.ndarray) or isinstance(y, np.ndarray)
            if op in ("min", "max"):
                if arrays:
                    return np.minimum(x, y) if op == "min" else np.maximum(x, y)
                return min(x, y) if op == "min" else max(x, y)
            if op == "and":
                return np.logical_and(x, y) if arrays else x and y
            if op == "or":
                return np.logical_or(x, y) if arrays else x or y
        case Select(cond=cond, then=then, other=other):
            test = evaluate(cond, values)
            if isinstance(test, np.ndarray):
                return np.where(test, evaluate(then, values), evaluate(other, values))
            return evaluate(then if test else other, values)
        case Call(fn="not", a=a):
            test = evaluate(a, values)
            return np.logical_not(test) if isinstance(test, np.ndarray) else not test
        case _:
            pass
    raise LoweringError(f"not an index expression: {expr}")
