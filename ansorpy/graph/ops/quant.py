"""Quantised operators: integers with a scale and a zero point, sums in int32."""

from collections.abc import Sequence
from math import prod

from ansorpy import topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.graph.ops.conv import WINDOW, convolved
from ansorpy.graph.ops.linear import product
from ansorpy.te.tensor import Tensor


def along(vector: Tensor, x: Tensor, axis: int) -> Tensor:
    """Return one number, or one per index of an axis, so that it broadcasts with x."""
    if prod(vector.shape) == 1:
        return topi.reshape(vector, ())
    shape = [1] * len(x.shape)
    shape[axis] = vector.shape[0]
    return topi.reshape(vector, shape)


def centred(x: Tensor, zero: Tensor | None) -> Tensor:
    """Return x - zero in int32; x itself without a zero point."""
    if zero is None:
        return x
    return topi.subtract(topi.cast(x, "int32"), topi.cast(zero, "int32"))


@operator("QuantizeLinear", "axis", "block_size", "output_dtype", "precision", "saturate")
def _quantize(on: Operands) -> Tensor:
    zero = on.optional(2)
    dtype = zero.dtype if zero is not None else on.attribute("output_dtype", 0) or "uint8"
    data, scale = (topi.cast(on.tensor(n), "float32") for n in (0, 1))
    return topi.quantize_linear(
        data, scale, 0 if zero is None else zero, on.attribute("axis", 1), dtype=dtype
    )


@operator("DequantizeLinear", "axis", "block_size", "output_dtype")
def _dequantize(on: Operands) -> Tensor:
    scale, axis = on.tensor(1), on.attribute("axis", 1)
    made = topi.dequantize_linear(
        on.tensor(0), scale, on.tensor(2) if on.given(2) else 0, axis, dtype=scale.dtype
    )
    return topi.cast(made, on.attribute("output_dtype", 0) or scale.dtype)


@operator("MatMulInteger")
def _matmul_integer(on: Operands) -> Tensor:
    a, b = on.tensor(0), on.tensor(1)
    zeros = [on.optional(2), on.optional(3)]
    if zeros[0] is not None:
        zeros[0] = _rows(zeros[0], a)
    return topi.cast(product(*_both(a, b, zeros)), "int32")


@operator("QLinearMatMul")
def _qlinear_matmul(on: Operands) -> Tensor:
    a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero = (on.tensor(n) for n in range(8))
    total = product(centred(a, _rows(a_zero, a)), centred(b, b_zero))
    scale = topi.multiply(topi.cast(_rows(a_scale, a), "float32"), topi.cast(b_scale, "float32"))
    real = topi.multiply(topi.cast(total, "float32"), scale)
    return topi.quantize_linear(real, topi.cast(y_scale, "float32"), y_zero, -2, dtype=y_zero.dtype)


@operator("ConvInteger", *WINDOW, "group")
def _conv_integer(on: Operands) -> Tensor:
    x, w = on.tensor(0), on.tensor(1)
    zero = None if not on.given(3) else along(on.tensor(3), w, 0)
    return topi.cast(convolved(on, *_both(x, w, [on.optional(2), zero])), "int32")


@operator("QLinearConv", *WINDOW, "group")
def _qlinear_conv(on: Operands) -> Tensor:
    x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero = (on.tensor(n) for n in range(8))
    zeros = topi.reshape(x_zero, ())
    total = convolved(on, centred(x, zeros), centred(w, along(w_zero, w, 0)))
    if on.given(8):
        total = topi.bias_add(total, on.tensor(8))
    scale = topi.multiply(topi.reshape(x_scale, ()), along(w_scale, total, 1))
    real = topi.multiply(topi.cast(total, "float32"), scale)
    return topi.quantize_linear(real, y_scale, y_zero, dtype=y_zero.dtype)


def _both(a: Tensor, b: Tensor, zeros: Sequence[Tensor | None]) -> tuple[Tensor, Tensor]:
    """Return both factors without their zero points, in int32 if one of them has some."""
    if zeros[0] is None and zeros[1] is None:
        return a, b
    left, right = centred(a, zeros[0]), centred(b, zeros[1])
    return topi.cast(left, "int32"), topi.cast(right, "int32")


def _rows(vector: Tensor, a: Tensor) -> Tensor:
    """Return one number per row of `a` as a column."""
    if len(vector.shape) != 1 or vector.shape[0] == 1 or len(a.shape) < 2:
        return vector
    return topi.reshape(vector, (*vector.shape, 1))
