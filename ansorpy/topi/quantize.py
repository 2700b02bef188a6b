"""Quantisation of floats to integers, with the meanings of ONNX's operators.

A scale or a zero point is a number, a tensor of one element, a vector along `axis`, or a tensor of
the rank of the data, in which one element serves a block of the data.
"""

from collections.abc import Callable, Sequence

from ansorpy import te
from ansorpy.expr.dtypes import EXACT_BELOW, FLOATS, INTEGER_RANGE, INTS, NARROW
from ansorpy.te.tensor import Tensor, TensorOperand, elementwise
from ansorpy.topi.common import axis_of, refuse, shown

Element = Callable[[Sequence[te.Scalar]], te.Operand]  # from the index of the data


def saturate_cast(data: Tensor, dtype: str, *, name: str = "saturate_cast") -> Tensor:
    """Return `data` as an integer `dtype`: rounded half to even, then clipped to its range.

    NaN becomes the lowest value.

    Raises:
        SpecError: `dtype` is not an integer dtype, or the data is bool.
    """
    _require_integer(dtype, f"saturate {shown(data)}")
    return elementwise(lambda x: _saturated(x, dtype), data, name=name)


def quantize_linear(
    data: Tensor,
    scale: TensorOperand,
    zero_point: TensorOperand = 0,
    axis: int = 1,
    *,
    dtype: str = "uint8",
    name: str = "quantize_linear",
) -> Tensor:
    """Return round(data / scale) + zero_point, clipped to the range of `dtype`.

    The quotient is rounded to its dtype, then half to even.

    Args:
        dtype: dtype of the result, and of a zero point that is a tensor.

    Raises:
        SpecError: the scale does not fit the data in dtype or shape, or `dtype` is no integer.
    """
    action = f"quantize {shown(data)}"
    _require_integer(dtype, action)
    if isinstance(zero_point, Tensor) and zero_point.dtype != dtype:
        refuse(action, f"its zero point is {zero_point.dtype}", f"dtype {dtype}")
    scales, zeros = (_along(data, one, axis, action) for one in (scale, zero_point))

    def body(*i: te.Scalar) -> te.Scalar:
        zero = zeros(i)
        offset = te.cast(zero, data.dtype) if isinstance(zero, te.Scalar) else zero
        return _saturated(te.round(data[i] / scales(i)) + offset, dtype)

    return te.compute(data.shape, body, name)


def dequantize_linear(
    data: Tensor,
    scale: TensorOperand,
    zero_point: TensorOperand = 0,
    axis: int = 1,
    *,
    dtype: str = "float32",
    name: str = "dequantize_linear",
) -> Tensor:
    """Return (data - zero_point) * scale as a float `dtype`; the difference is an int32.

    Args:
        dtype: dtype of the result, and of a scale that is a tensor.

    Raises:
        SpecError: scale or zero point do not fit the data in dtype or shape.
    """
    action = f"dequantize {shown(data)}"
    _require_integer(data.dtype, action)
    if isinstance(zero_point, Tensor) and zero_point.dtype != data.dtype:
        refuse(action, f"its zero point is {zero_point.dtype}", f"dtype {data.dtype}")
    scales, zeros = (_along(data, one, axis, action) for one in (scale, zero_point))

    def body(*i: te.Scalar) -> te.Scalar:
        zero = zeros(i)
        offset = te.cast(zero, "int32") if isinstance(zero, te.Scalar) else zero
        return te.cast(te.cast(data[i], "int32") - offset, dtype) * scales(i)

    return te.compute(data.shape, body, name)


def _require_integer(dtype: str, action: str) -> None:
    if dtype not in INTS:
        refuse(action, f"{dtype} is no integer dtype", f"one of {', '.join(INTS)}")


def _along(data: Tensor, operand: TensorOperand, axis: int, action: str) -> Element:
    """Return the element of a scale or zero point that belongs to an index of the data."""
    if not isinstance(operand, Tensor):
        return lambda i: operand
    shape, rank = operand.shape, len(data.shape)
    if all(extent == 1 for extent in shape):
        return lambda i: operand[(te.const(0, "int64"),) * len(shape)]
    if len(shape) == 1:
        at = axis_of(axis, rank, action)
        if shape[0] != data.shape[at]:
            refuse(action, f"{shown(operand)} does not fit axis {at}", f"shape [{data.shape[at]}]")
        return lambda i: operand[i[at]]
    blocks = [-(-n // m) for n, m in zip(data.shape, shape, strict=False)]
    fits = len(shape) == rank and all(
        -(-n // size) == m for n, m, size in zip(data.shape, shape, blocks, strict=True)
    )
    if not fits:
        refuse(action, f"{shown(operand)} has no blocks of it", "one element per block")
    return lambda i: operand[tuple(k // size for k, size in zip(i, blocks, strict=True))]


def _saturated(x: te.Scalar, dtype: str) -> te.Scalar:
    """Return `x` rounded half to even and clipped to the range of an integer dtype."""
    if x.dtype in NARROW:
        x = te.cast(x, "float32")  # float32 reaches beyond every integer dtype
    lowest, largest = INTEGER_RANGE[dtype]
    if x.dtype not in FLOATS:
        low, high = INTEGER_RANGE[x.dtype]
        x = te.maximum(x, max(lowest, low))
        return te.cast(te.minimum(x, min(largest, high)), dtype)
    # The largest float of the range: float32 does not hold 2**31 - 1.
    below = float(largest)
    if largest >= EXACT_BELOW[x.dtype]:
        below = float(largest + 1) * (1 - 1 / EXACT_BELOW[x.dtype])
    whole = te.round(x)
    # A comparison with NaN is false. max and min would keep NaN, at the cost of an instruction.
    clipped = te.select(whole > float(lowest), whole, float(lowest))
    clipped = te.select(clipped < below, clipped, below)
    found = te.cast(clipped, dtype)
    return found if below == largest else te.select(whole > below, te.const(largest, dtype), found)
