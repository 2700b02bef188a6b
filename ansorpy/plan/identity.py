"""What a reduction starts from."""

from typing import Final

from ansorpy.expr.expr import FLOATS, Const

_LEAST: Final = {"int8": -(2**7), "uint8": 0, "int32": -(2**31), "int64": -(2**63), "bool": 0}
_GREATEST: Final = {
    "int8": 2**7 - 1, "uint8": 2**8 - 1, "int32": 2**31 - 1, "int64": 2**63 - 1, "bool": 1,
}  # fmt: skip


def identity(combiner: str, dtypes: tuple[str, ...]) -> tuple[Const, ...]:
    """Return the value (for argmax and argmin: value and index) that combining ignores.

    The index starts at its greatest value, so that any real element beats it: at equal values
    the smaller index wins.
    """
    first = dtypes[0]
    match combiner:
        case "sum" | "prod":
            one = 0 if combiner == "sum" else 1
            return (Const(float(one) if first in FLOATS else one, first),)
        case "max" | "argmax":
            value = float("-inf") if first in FLOATS else _LEAST[first]
        case _:
            value = float("inf") if first in FLOATS else _GREATEST[first]
    start = Const(bool(value) if first == "bool" else value, first)
    return (start, *(Const(_GREATEST[dtype], dtype) for dtype in dtypes[1:]))
