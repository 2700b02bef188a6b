"""Operators that work element by element, with broadcasting."""

from collections.abc import Callable

from ansorpy import topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor, TensorOperand


def _unary(name: str, fn: Callable[[Tensor], Tensor]) -> None:
    operator(name)(lambda on: fn(on.tensor(0)))


def _binary(name: str, fn: Callable[[TensorOperand, TensorOperand], Tensor]) -> None:
    def build(on: Operands) -> Tensor:
        a, b = on.operand(0), on.operand(1)
        if isinstance(a, Tensor) or isinstance(b, Tensor):
            return fn(a, b)
        return fn(on.tensor(0), b)

    operator(name)(build)


_unary("Relu", topi.relu)
_unary("Sigmoid", topi.sigmoid)
_unary("Tanh", topi.tanh)
_unary("Exp", topi.exp)
_unary("Log", topi.log)
_unary("Sqrt", topi.sqrt)
_unary("Erf", topi.erf)
_unary("Abs", topi.abs)
_unary("Neg", topi.negative)
_unary("Floor", topi.floor)
_unary("Ceil", topi.ceil)
_unary("Reciprocal", topi.reciprocal)
_unary("Sign", topi.sign)
_unary("IsNaN", topi.isnan)
_unary("Not", topi.logical_not)

_binary("Add", topi.add)
_binary("Sub", topi.subtract)
_binary("Mul", topi.multiply)
_binary("Equal", topi.equal)
_binary("Less", topi.less)
_binary("LessOrEqual", topi.less_equal)
_binary("Greater", topi.greater)
_binary("GreaterOrEqual", topi.greater_equal)
_binary("And", topi.logical_and)
_binary("Or", topi.logical_or)
_binary("Xor", topi.logical_xor)
