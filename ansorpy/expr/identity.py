"""The identity of a reduction: the value that combining leaves unchanged."""

from ansorpy.expr.dtypes import FLOATS, INTEGER_RANGE
from ansorpy.expr.expr import Const


def identity(combiner: str, dtypes: tuple[str, ...]) -> tuple[Const, ...]:
    """Return the value (for argmax and argmin: value and index) that combining ignores.

    The index starts at the largest value of its dtype: at equal values the smaller index wins.
    """
    first = dtypes[0]
    match combiner:
        case "sum" | "prod":
            one = 0 if combiner == "sum" else 1
            return (Const(float(one) if first in FLOATS else one, first),)
        case "max" | "argmax":
            value = float("-inf") if first in FLOATS else INTEGER_RANGE[first][0]
        case _:
            value = float("inf") if first in FLOATS else INTEGER_RANGE[first][1]
    start = Const(bool(value) if first == "bool" else value, first)
    return (start, *(Const(INTEGER_RANGE[dtype][1], dtype) for dtype in dtypes[1:]))
