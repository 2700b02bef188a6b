"""Rules of ufuncs: operands are promoted as NumPy does, by the loops of the ufunc itself."""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ansorpy.tracing.places import Unsupported
from ansorpy.tracing.recorder import Operand, TraceRecorder
from ansorpy.tracing.tracer import UFUNCS, Tracer

Apply = Callable[..., Tracer]  # takes the recorder, and operands that are cast

MOST_POWER: Final = 8  # power of an integer, as products
MOST_FACTORS: Final = 3  # power of a float, as products: more of them round more than a power
DIRECT: Final = {
    "absolute": "Abs", "fabs": "Abs", "negative": "Neg", "sqrt": "Sqrt", "exp": "Exp",
    "log": "Log", "tanh": "Tanh", "rint": "Round", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "arcsin": "Asin", "arccos": "Acos", "arctan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "arcsinh": "Asinh", "arccosh": "Acosh", "arctanh": "Atanh",
    "sign": "Sign", "isnan": "IsNaN", "isinf": "IsInf", "subtract": "Sub", "divide": "Div",
    "equal": "Equal", "less": "Less", "less_equal": "LessOrEqual", "greater": "Greater",
    "greater_equal": "GreaterOrEqual", "erf": "Erf", "expit": "Sigmoid",
}  # fmt: skip
# By the operator of numbers and the operator of bool.
BY_KIND: Final = {
    "add": ("Add", "Or"), "multiply": ("Mul", "And"), "maximum": ("Max", "Or"),
    "minimum": ("Min", "And"), "bitwise_and": ("BitwiseAnd", "And"),
    "bitwise_or": ("BitwiseOr", "Or"), "bitwise_xor": ("BitwiseXor", "Xor"),
    "invert": ("BitwiseNot", "Not"),
}  # fmt: skip
LOGICAL: Final = {
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor", "logical_not": "Not",
}  # fmt: skip


def elementwise(apply: Apply) -> Callable[..., Tracer]:
    """Return the rule of a ufunc that casts operands as the ufunc does, and applies `apply`."""

    def rule(
        rec: TraceRecorder, ufunc: np.ufunc, *operands: Operand,
        dtype: Any = None, casting: Any = "same_kind", out: Any = None,
    ) -> Tracer:  # fmt: skip
        kinds = [_kind(one) for one in operands]
        results = (None,) * ufunc.nout
        wanted: dict[str, Any] = (
            {} if dtype is None else {"signature": (*(None,) * ufunc.nin, np.dtype(dtype))}
        )
        resolved = ufunc.resolve_dtypes((*kinds, *results), casting=casting, **wanted)
        cast = [rec.operand(one, kind) for one, kind in zip(operands, resolved, strict=False)]
        return rec.cast(apply(rec, *cast), resolved[-1])

    return rule


def _kind(operand: Operand) -> Any:
    """Return the dtype of an operand; int or float for numbers of Python, which adapt."""
    if isinstance(operand, int | float) and not isinstance(operand, bool | np.generic):
        return type(operand)
    return operand.dtype if isinstance(operand, Tracer) else np.asarray(operand).dtype


def _enter(*names: str) -> Callable[[Apply], Apply]:
    def enter(apply: Apply) -> Apply:
        for name in names:
            UFUNCS[name] = elementwise(apply)
        return apply

    return enter


def _direct(op: str) -> Apply:
    return lambda rec, *operands: rec.emit(op, *operands)


def _by_kind(number: str, truth: str) -> Apply:
    return lambda rec, *operands: rec.emit(
        truth if operands[0].dtype == np.bool_ else number, *operands
    )


def _logical(op: str) -> Apply:
    bool_ = np.dtype(np.bool_)
    return lambda rec, *operands: rec.emit(op, *(rec.cast(one, bool_) for one in operands))


for _name, _op in DIRECT.items():
    UFUNCS[_name] = elementwise(_direct(_op))
for _name, (_number, _truth) in BY_KIND.items():
    UFUNCS[_name] = elementwise(_by_kind(_number, _truth))
for _name, _op in LOGICAL.items():
    UFUNCS[_name] = elementwise(_logical(_op))


@_enter("positive", "conjugate")
def _same(rec: TraceRecorder, x: Tracer) -> Tracer:
    return x


@_enter("square")
def _square(rec: TraceRecorder, x: Tracer) -> Tracer:
    return rec.emit("Mul", x, x)


@_enter("reciprocal")
def _reciprocal(rec: TraceRecorder, x: Tracer) -> Tracer:
    _check_float(x)
    return rec.emit("Reciprocal", x)


def _whole(op: str) -> Apply:
    """Return the rule of a rounding, which leaves integers as they are."""
    return lambda rec, x: rec.emit(op, x) if x.dtype.kind == "f" else x


for _name, _op in {"floor": "Floor", "ceil": "Ceil"}.items():
    UFUNCS[_name] = elementwise(_whole(_op))


@_enter("trunc")
def _trunc(rec: TraceRecorder, x: Tracer) -> Tracer:
    if x.dtype.kind != "f":
        return x
    return rec.emit("Mul", rec.emit("Sign", x), rec.emit("Floor", rec.emit("Abs", x)))


@_enter("isfinite")
def _isfinite(rec: TraceRecorder, x: Tracer) -> Tracer:
    if x.dtype.kind != "f":
        return rec.operand(np.ones(x.shape, np.bool_))
    return rec.emit("Not", rec.emit("Or", rec.emit("IsNaN", x), rec.emit("IsInf", x)))


@_enter("not_equal")
def _not_equal(rec: TraceRecorder, a: Tracer, b: Tracer) -> Tracer:
    return rec.emit("Not", rec.emit("Equal", a, b))


def scaled(rec: TraceRecorder, x: Tracer, factor: float) -> Tracer:
    """Return a product with a number."""
    return rec.emit("Mul", x, constants=[np.asarray(factor, x.dtype)])


for _name, _factor in {
    "deg2rad": math.pi / 180, "radians": math.pi / 180, "rad2deg": 180 / math.pi,
    "degrees": 180 / math.pi,
}.items():  # fmt: skip
    UFUNCS[_name] = elementwise(lambda rec, x, factor=_factor: scaled(rec, x, factor))

for _name, _base in {"log2": 2.0, "log10": 10.0}.items():
    UFUNCS[_name] = elementwise(
        lambda rec, x, base=_base: scaled(rec, rec.emit("Log", x), 1 / math.log(base))
    )


@_enter("exp2")
def _exp2(rec: TraceRecorder, x: Tracer) -> Tracer:
    return rec.emit("Pow", rec.operand(np.full((1,) * x.ndim, 2, x.dtype)), x)


def _wider(name: str, apply: Apply) -> None:
    """Enter the rule of a function that would cancel near 0, and is computed in float64."""

    def rule(rec: TraceRecorder, x: Tracer) -> Tracer:
        if x.dtype == np.float64:
            raise Unsupported("it would cancel near 0 in float64", "float32 or float16")
        return rec.cast(apply(rec, rec.cast(x, np.dtype(np.float64))), x.dtype)

    _enter(name)(rule)


def _plus(rec: TraceRecorder, x: Tracer, number: float) -> Tracer:
    return rec.emit("Add", x, constants=[np.asarray(number, x.dtype)])


_wider("log1p", lambda rec, x: rec.emit("Log", _plus(rec, x, 1.0)))
_wider("expm1", lambda rec, x: _plus(rec, rec.emit("Exp", x), -1.0))


@_enter("logaddexp")
def _logaddexp(rec: TraceRecorder, a: Tracer, b: Tracer) -> Tracer:
    far = rec.emit("Neg", rec.emit("Abs", rec.emit("Sub", a, b)))
    return rec.emit("Add", rec.emit("Max", a, b), rec.emit("Softplus", far))


@_enter("power", "float_power")
def _power(rec: TraceRecorder, x: Tracer, exponent: Tracer) -> Tracer:
    known = rec.known(exponent)
    number = float(known.reshape(-1)[0]) if known is not None and known.size == 1 else None
    kept = known is not None and known.ndim <= x.ndim
    most = MOST_FACTORS if x.dtype.kind == "f" else MOST_POWER
    if kept and number is not None and number.is_integer() and 0 < number <= most:
        result = x
        for _ in range(int(number) - 1):
            result = rec.emit("Mul", result, x)
        return result
    if x.dtype.kind != "f":
        raise Unsupported(
            "an integer has a power that is not a known number", f"a number from 1 to {MOST_POWER}"
        )
    if kept and number == 0.5:
        return rec.emit("Sqrt", x)
    if kept and number == -1:
        return rec.emit("Reciprocal", x)
    return rec.emit("Pow", x, exponent)


@_enter("remainder", "mod")
def _remainder(rec: TraceRecorder, a: Tracer, b: Tracer) -> Tracer:
    _check_divisor(rec, a, b)
    return rec.emit("Mod", a, b)


@_enter("floor_divide")
def _floor_divide(rec: TraceRecorder, a: Tracer, b: Tracer) -> Tracer:
    _check_divisor(rec, a, b)
    return rec.emit("Div", rec.emit("Sub", a, rec.emit("Mod", a, b)), b)


@_enter("fmod")
def _fmod(rec: TraceRecorder, a: Tracer, b: Tracer) -> Tracer:
    _check_divisor(rec, a, b)
    return rec.emit("Mod", a, b, fmod=1)


def _check_divisor(rec: TraceRecorder, a: Tracer, b: Tracer) -> None:
    """Refuse divisors that may be 0: NumPy gives 0 with a warning, a processor stops."""
    known = rec.known(b)
    if a.dtype.kind == "f":
        raise Unsupported(f"the operands are {a.dtype.name}", "integers, or np.floor(a / b)")
    if known is None or not known.all():
        raise Unsupported("the divisor may be 0", "a constant that is not 0")


for _name, _side in {"left_shift": "LEFT", "right_shift": "RIGHT"}.items():
    UFUNCS[_name] = elementwise(
        lambda rec, a, b, side=_side: rec.emit("BitShift", a, b, direction=side)
    )


@_enter("matmul")
def matmul(rec: TraceRecorder, a: Tracer, b: Tracer) -> Tracer:
    """Return the product of matrices."""
    if a.dtype == np.bool_:
        raise Unsupported("the operands are bool", "numbers")
    return rec.emit("MatMul", a, b)


def _check_float(x: Tracer) -> None:
    if x.dtype.kind != "f":
        raise Unsupported(f"the operand is {x.dtype.name}", "floats")


def apply(rec: TraceRecorder, name: str, *operands: Operand) -> Tracer:
    """Return the result of a ufunc of NumPy by its name."""
    made: Tracer = UFUNCS[name](rec, getattr(np, name), *operands)
    return made
