"""Evaluate index expressions: over ints for one candidate, over columns for a population."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import BINARY, BITS, Binary, Call, Const, Expr, Select, Var
from ansorpy.expr.functions import BINARY_FUNCTIONS

IntArray = npt.NDArray[np.int64]
Number = int | IntArray

# Operators on Python numbers; NumPy's scalars and arrays take those that are from `operator`.
PYTHON_OPS: Final[Mapping[str, Callable[..., Any]]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv,
    "floordiv": operator.floordiv, "mod": operator.mod,
    "min": min, "max": max,
    "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "eq": operator.eq, "ne": operator.ne,
    "and": lambda a, b: bool(a) and bool(b), "or": lambda a, b: bool(a) or bool(b),
    "not": operator.not_, "neg": operator.neg, "abs": abs,
}  # fmt: skip
_COLUMN_OPS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "min": np.minimum, "max": np.maximum, "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip
# Operators of index expressions, which have exact values in Python's integers.
INDEX_OPS: Final = frozenset(BINARY) - {"div", *BINARY_FUNCTIONS, *BITS}


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
        case Binary(op=op, a=a, b=b) if op in INDEX_OPS:
            x, y = evaluate(a, values), evaluate(b, values)
            columns = isinstance(x, np.ndarray) or isinstance(y, np.ndarray)
            return (_COLUMN_OPS.get(op, PYTHON_OPS[op]) if columns else PYTHON_OPS[op])(x, y)
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
