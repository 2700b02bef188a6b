"""One scalar expression as Python text for numba, in float64 and wrapping integers."""

from collections.abc import Mapping

from ansorpy.expr.dtypes import FLOATS, INDEX, INTS, SIZE_BYTES
from ansorpy.expr.expr import SYMBOLS, Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS


def array_name(symbols: Mapping[str, str], tensor: str, output: int) -> str:
    """Return the name of the array that holds one output of a node."""
    return symbols[tensor] + (f"_{output}" if output else "")


def scalar_text(expr: Expr, symbols: Mapping[str, str], names: Mapping[str, str]) -> str:
    """Return the text of `expr`; `symbols` names the arrays of nodes, `names` the axes."""

    def text(e: Expr) -> str:
        return scalar_text(e, symbols, names)

    match expr:
        case Const(value=value, dtype=dtype):
            return literal(value, dtype)
        case Var(name=name):
            return names[name]
        case Read(tensor=tensor, indices=indices, output=output):
            return f"{array_name(symbols, tensor, output)}[{', '.join(map(text, indices)) or '()'}]"
        case Binary(op=op, a=a, b=b):
            return wrapped(_binary(op, text(a), text(b), a.dtype), expr.dtype)
        case Call(fn=fn, a=a):
            return wrapped(FUNCTIONS[fn].text.format(text(a)), expr.dtype)
        case Cast(dtype=dtype, a=a):
            return _cast(text(a), a.dtype, dtype)
        case Select(cond=cond, then=then, other=other):
            return f"({text(then)} if {text(cond)} else {text(other)})"


def _binary(op: str, a: str, b: str, dtype: str) -> str:
    if op in ("min", "max"):
        return f"_{op}({a}, {b})"
    if op == "shr" and dtype == "uint64":  # _shr keeps a sign bit
        return f"_shr_unsigned({a}, {b})"
    if op in ("shl", "shr"):
        return f"_{op}({a}, {b}, {8 * SIZE_BYTES[dtype]})"
    if op in BINARY_FUNCTIONS:
        return BINARY_FUNCTIONS[op].text.format(a, b)
    return f"({a} {SYMBOLS[op]} {b})"


def wrapped(text: str, dtype: str) -> str:
    """Integer arithmetic wraps at the width of its dtype; numba would widen it."""
    return f"np.{dtype}({text})" if dtype in INTS and dtype != INDEX else text


def _cast(text: str, source: str, dtype: str) -> str:
    if dtype in FLOATS:
        return text if source in FLOATS else f"np.float64({text})"
    if dtype == "bool":
        return f"({text} != 0)"
    if source in FLOATS and dtype == "uint64":
        return f"_unsigned({text})"
    whole = f"np.int64({text})" if source != dtype else text
    return whole if dtype == INDEX else f"np.{dtype}({whole})"


def literal(value: int | float | bool, dtype: str) -> str:
    """Return the text of a constant of `dtype`."""
    if dtype in FLOATS:
        number = float(value)
        if number != number:
            return "np.nan"
        if number in (float("inf"), float("-inf")):
            return "np.inf" if number > 0 else "(-np.inf)"
        return repr(number) if number >= 0 else f"({number!r})"
    if dtype == "bool":
        return f"np.bool_({bool(value)})"
    if dtype == INDEX:
        return repr(int(value)) if value >= 0 else f"({int(value)})"
    return f"np.{dtype}({int(value)})"
