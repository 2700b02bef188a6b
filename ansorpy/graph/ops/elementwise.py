"""Operators that work element by element, with broadcasting."""

from collections.abc import Callable
from functools import reduce

from ansorpy import topi
from ansorpy.expr.dtypes import FLOATS
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor, TensorOperand

Binary = Callable[[TensorOperand, TensorOperand], Tensor]


def _unary(name: str, fn: Callable[[Tensor], Tensor]) -> None:
    operator(name)(lambda on: fn(on.tensor(0)))


def pair(on: Operands, fn: Binary) -> Tensor:
    """Return `fn` of two operands, of which one known element becomes a literal."""
    b = on.operand(1, len(on.tensor(0).shape))
    a = on.operand(0, len(b.shape)) if isinstance(b, Tensor) else on.tensor(0)
    return fn(a, b)


def _binary(name: str, fn: Binary) -> None:
    operator(name)(lambda on: pair(on, fn))


def _several(name: str, fn: Binary) -> None:
    def build(on: Operands) -> Tensor:
        tensors = [on.tensor(i) for i in range(len(on))]
        return reduce(fn, tensors) if len(tensors) > 1 else topi.cast(tensors[0], tensors[0].dtype)

    operator(name)(build)


for _name, _fn in {
    "Abs": topi.abs, "Neg": topi.negative, "Sqrt": topi.sqrt, "Exp": topi.exp, "Log": topi.log,
    "Erf": topi.erf, "Tanh": topi.tanh, "Floor": topi.floor, "Ceil": topi.ceil,
    "Round": topi.round, "Sin": topi.sin, "Cos": topi.cos, "Tan": topi.tan, "Asin": topi.asin,
    "Acos": topi.acos, "Atan": topi.atan, "Sinh": topi.sinh, "Cosh": topi.cosh,
    "Asinh": topi.asinh, "Acosh": topi.acosh, "Atanh": topi.atanh,
    "Reciprocal": topi.reciprocal, "IsNaN": topi.isnan, "Not": topi.logical_not,
    "BitwiseNot": topi.bitwise_not,
}.items():  # fmt: skip
    _unary(_name, _fn)

for _name, _pair in {
    "Add": topi.add, "Sub": topi.subtract, "Mul": topi.multiply, "Equal": topi.equal,
    "Less": topi.less, "LessOrEqual": topi.less_equal, "Greater": topi.greater,
    "GreaterOrEqual": topi.greater_equal, "And": topi.logical_and, "Or": topi.logical_or,
    "Xor": topi.logical_xor, "BitwiseAnd": topi.bitwise_and, "BitwiseOr": topi.bitwise_or,
    "BitwiseXor": topi.bitwise_xor,
}.items():  # fmt: skip
    _binary(_name, _pair)

for _name, _pair in {"Max": topi.maximum, "Min": topi.minimum, "Sum": topi.add}.items():
    _several(_name, _pair)


@operator("BitShift", "direction")
def _bit_shift(on: Operands) -> Tensor:
    left = on.attribute("direction", "") == "LEFT"
    return pair(on, topi.left_shift if left else topi.right_shift)


@operator("Sign")
def _sign(on: Operands) -> Tensor:
    return topi.sign(on.tensor(0))


@operator("Div")
def _div(on: Operands) -> Tensor:
    floats = on.tensor(0).dtype in FLOATS
    return pair(on, topi.divide if floats else topi.truncate_divide)


@operator("Mod", "fmod")
def _mod(on: Operands) -> Tensor:
    return pair(on, topi.truncate_mod if on.attribute("fmod", 0) else topi.mod)


@operator("Pow")
def _pow(on: Operands) -> Tensor:
    x = on.tensor(0)
    return topi.power(x, on.operand(1, len(x.shape)))


@operator("Mean")
def _mean(on: Operands) -> Tensor:
    total = reduce(topi.add, [on.tensor(i) for i in range(len(on))])
    return topi.multiply(total, 1 / len(on))


@operator("Where")
def _where(on: Operands) -> Tensor:
    condition, rank = on.tensor(0), max(len(on.tensor(i).shape) for i in range(3))
    a = on.operand(1, rank if rank > len(on.tensor(1).shape) else 0)
    b = on.operand(2, rank if rank > len(on.tensor(2).shape) else 0)
    return topi.where(condition, a, b)


@operator("IsInf", "detect_negative", "detect_positive")
def _isinf(on: Operands) -> Tensor:
    return topi.isinf(
        on.tensor(0),
        positive=bool(on.attribute("detect_positive", 1)),
        negative=bool(on.attribute("detect_negative", 1)),
    )


@operator("Cast", "to", "saturate", "round_mode")
def _cast(on: Operands) -> Tensor:
    return topi.cast(on.tensor(0), on.attribute("to"))
