"""Pooling over windows, and over all positions, of data[n, c, ...] of rank 3 to 5.

`kernel`, `stride`, `padding` and `dilation` are one number, or one per spatial dimension;
`padding` may also be all numbers in front, then all behind.
"""

from dataclasses import replace
from math import inf, prod

from ansorpy import te
from ansorpy.expr.dtypes import FLOATS, INTEGER_RANGE, SIZE_BYTES
from ansorpy.te.tensor import Tensor
from ansorpy.te.wide import rounds_once
from ansorpy.topi import reduction
from ansorpy.topi.common import per_dimension, refuse, require_float, shown, zero
from ansorpy.topi.window import Extents, Geometry, geometry

WIDEST = ("int64", "uint64")  # no dtype has a value below theirs: their padding may win a tie


def max_pool(
    data: Tensor, kernel: Extents = 2, stride: Extents | None = None, padding: Extents = 0,
    *, dilation: Extents = 1, ceil_mode: bool = False, name: str = "max_pool",
) -> Tensor:  # fmt: skip
    """Return the maximum of every window; `stride` is `kernel` unless it is given.

    Padding has the lowest value of the dtype, -inf of floats. With `ceil_mode` the last window may
    reach beyond the padding if it begins inside of it.

    Raises:
        SpecError: a rank other than 3 to 5, or a window that does not fit.
    """
    window = _window(data, kernel, stride, padding, dilation)
    window = _reaching(window, data) if ceil_mode else window
    return _pool(data, window, "max", _lowest(data.dtype), name)


def max_pool_with_index(
    data: Tensor, kernel: Extents = 2, stride: Extents | None = None, padding: Extents = 0,
    *, dilation: Extents = 1, ceil_mode: bool = False, column_major: bool = False,
    name: str = "max_pool",
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the maximum of every window, and its flat int64 index in `data`; the first of equals.

    Padding is never the maximum, unless all elements of a window of 64 bits are the lowest value.

    Args:
        column_major: the index counts the spatial positions with the first axis fastest.

    Raises:
        SpecError: a rank other than 3 to 5, or a window that does not fit.
    """
    window = _window(data, kernel, stride, padding, dilation)
    window = _reaching(window, data) if ceil_mode else window
    letters, extents = _letters(data), data.shape[2:]
    ranked, beyond = data, _lowest(data.dtype)
    apart = any((*window.before, *window.after)) and data.dtype not in WIDEST
    if apart:
        ranked, beyond = _above_padding(data)
    source = window.padded(ranked, 2, beyond, f"nc{letters}")
    taps = window.taps(("rz", "ry", "rx")[3 - len(letters) :])
    order = list(range(len(extents)))[:: -1 if column_major else 1]

    def body(n: te.Scalar, c: te.Scalar, *at: te.Scalar) -> te.ArgReduction:
        places = window.at(at, taps)
        index = n * data.shape[1] + c
        for d in order:
            index = index * extents[d] + (places[d] - window.before[d])
        return te.argmax(source[(n, c, *places)], [taps[d] for d in order], index=index)

    shape = (*data.shape[:2], *window.outputs(extents))
    largest, places = te.compute(shape, body, name, axes=("n", "c", *letters))
    if apart:
        largest = _pool(data, window, "max", _lowest(data.dtype), f"{name}_values")
    return largest, places


def _above_padding(data: Tensor) -> tuple[Tensor, te.Scalar]:
    """Return data of the same order, all of it above the value of the padding, and that value.

    Otherwise the padding would be the first of equals in a window of the lowest elements.
    """
    lowest = te.min_value(data.dtype)
    if data.dtype in FLOATS:
        finite = te.elementwise(lambda x: te.maximum(x, lowest), data, name="finite")
        return finite, te.const(-inf, data.dtype)
    wide = "int32" if SIZE_BYTES[data.dtype] < 4 else "int64"
    wider = te.elementwise(lambda x: te.cast(x, wide), data, name="wider")
    return wider, te.const(INTEGER_RANGE[data.dtype][0] - 1, wide)


@rounds_once
def avg_pool(
    data: Tensor, kernel: Extents = 2, stride: Extents | None = None, padding: Extents = 0,
    *, dilation: Extents = 1, count_include_pad: bool = True, ceil_mode: bool = False,
    name: str = "avg_pool",
) -> Tensor:  # fmt: skip
    """Return the mean of every window of floats; `stride` is `kernel` unless it is given.

    Args:
        count_include_pad: padding counts as zeros; otherwise the sum is divided by the number of
            elements of the window that are inside of `data`.
        ceil_mode: the last window may reach beyond the padding if it begins inside of it;
            elements beyond the padding do not count.

    Raises:
        SpecError: not a float dtype, a rank other than 3 to 5, or a window that does not fit.
    """
    require_float(data, f"average {shown(data)}")
    given = _window(data, kernel, stride, padding, dilation)
    window = _reaching(given, data) if ceil_mode else given
    total = _pool(data, window, "sum", zero(data.dtype), "pool")
    letters = "dhw"[5 - len(data.shape) :]
    whole = (
        window.after == given.after
        if count_include_pad
        else not any((*window.before, *window.after))
    )
    if whole:
        share = 1 / prod(window.kernel)
        return te.compute(total.shape, lambda *i: total[i] * share, name, axes=("n", "c", *letters))

    def body(*i: te.Scalar) -> te.Scalar:
        count = te.const(1, "int64")
        for n, at in enumerate(i[2:]):
            low = given.before[n] if count_include_pad else 0
            high = data.shape[2 + n] + (given.after[n] if count_include_pad else 0)
            first, step = at * window.stride[n] - window.before[n], window.dilation[n]
            if step == 1:
                last = te.minimum(first + window.kernel[n], high)
                inside = last - te.maximum(first, -low)
            else:  # taps r with -low <= first + r * step < high
                last = te.minimum((high - first + (step - 1)) // step, window.kernel[n])
                inside = last - te.maximum((step - 1 - low - first) // step, 0)
            count = count * te.maximum(inside, 1)
        return total[i] / te.cast(count, data.dtype)

    return te.compute(total.shape, body, name, axes=("n", "c", *letters))


@rounds_once
def lp_pool(
    data: Tensor, kernel: Extents = 2, stride: Extents | None = None, padding: Extents = 0,
    *, p: int = 2, dilation: Extents = 1, ceil_mode: bool = False, name: str = "lp_pool",
) -> Tensor:  # fmt: skip
    """Return (sum of |x|^p over every window)^(1 / p) of floats; padding counts as zeros.

    Raises:
        SpecError: not a float dtype, a rank other than 3 to 5, or a window that does not fit.
    """
    require_float(data, f"pool {shown(data)}")
    window = _window(data, kernel, stride, padding, dilation)
    window = _reaching(window, data) if ceil_mode else window
    powers = te.elementwise(lambda x: te.pow(te.abs(x), float(p)), data, name="powers")
    total = _pool(powers, window, "sum", zero(data.dtype), "pool")
    return te.elementwise(lambda x: te.pow(x, 1 / p), total, name=name)


def global_max_pool(data: Tensor, *, name: str = "global_max_pool") -> Tensor:
    """Return the maximum over all spatial axes of data[n, c, ...], which keep extent 1."""
    _letters(data)
    return reduction.max(data, tuple(range(2, len(data.shape))), keepdims=True, name=name)


def global_avg_pool(data: Tensor, *, name: str = "global_avg_pool") -> Tensor:
    """Return the mean over all spatial axes of data[n, c, ...], which keep extent 1."""
    _letters(data)
    return reduction.mean(data, tuple(range(2, len(data.shape))), keepdims=True, name=name)


def _lowest(dtype: str) -> te.Scalar:
    return te.const(-inf, dtype) if dtype in FLOATS else te.min_value(dtype)


def _letters(data: Tensor) -> str:
    if not 3 <= len(data.shape) <= 5:
        refuse(f"pool {shown(data)}", f"its rank is {len(data.shape)}", "3 to 5: [n, c, ...]")
    return "dhw"[5 - len(data.shape) :]


def _window(
    data: Tensor, kernel: Extents, stride: Extents | None, padding: Extents, dilation: Extents
) -> Geometry:
    action = f"pool {shown(data)}"
    extents = per_dimension(kernel, len(_letters(data)), "kernel", action)
    return geometry(extents, extents if stride is None else stride, padding, dilation, action)


def _reaching(window: Geometry, data: Tensor) -> Geometry:
    """Return the window with padding behind, so that a last window that does not fit is there."""
    after = []
    for n, extent in enumerate(data.shape[2:]):
        step, before = window.stride[n], window.before[n]
        wide = extent + before + window.after[n]
        reach = window.dilation[n] * (window.kernel[n] - 1) + 1
        count = -(-(wide - reach) // step) + 1
        if (count - 1) * step >= extent + before:  # it would begin in the padding behind
            count -= 1
        after.append(window.after[n] + max((count - 1) * step + reach - wide, 0))
    return replace(window, after=tuple(after))


def _pool(data: Tensor, window: Geometry, combiner: str, value: te.Scalar, name: str) -> Tensor:
    letters = _letters(data)
    shape = (*data.shape[:2], *window.outputs(data.shape[2:]))
    source = window.padded(data, 2, value, f"nc{letters}")
    taps = window.taps(("rz", "ry", "rx")[3 - len(letters) :])

    def body(n: te.Scalar, c: te.Scalar, *at: te.Scalar) -> te.Reduction:
        places = (
            i * s + (r if d == 1 else r * d)
            for i, r, s, d in zip(at, taps, window.stride, window.dilation, strict=True)
        )
        return reduction.COMBINERS[combiner](source[(n, c, *places)], taps)

    return te.compute(shape, body, name, axes=("n", "c", *letters))
