"""Pooling over windows, and over all positions, of data[n, c, ...] of rank 3 to 5.

`kernel`, `stride`, `padding` and `dilation` are one number, or one per spatial dimension;
`padding` may also be all numbers in front, then all behind.
"""

from math import prod

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi import reduction
from ansorpy.topi.common import per_dimension, refuse, require_float, shown, zero
from ansorpy.topi.window import Extents, Geometry, geometry


def max_pool(
    data: Tensor, kernel: Extents = 2, stride: Extents | None = None, padding: Extents = 0,
    *, dilation: Extents = 1, name: str = "max_pool",
) -> Tensor:  # fmt: skip
    """Return the maximum of every window; `stride` is `kernel` unless it is given.

    Padding has the lowest finite value of the dtype.

    Raises:
        SpecError: a rank other than 3 to 5, or a window that does not fit.
    """
    window = _window(data, kernel, stride, padding, dilation)
    return _pool(data, window, "max", te.min_value(data.dtype), name)


def avg_pool(
    data: Tensor, kernel: Extents = 2, stride: Extents | None = None, padding: Extents = 0,
    *, count_include_pad: bool = True, name: str = "avg_pool",
) -> Tensor:  # fmt: skip
    """Return the mean of every window of floats; `stride` is `kernel` unless it is given.

    Args:
        count_include_pad: padding counts as zeros; otherwise the sum is divided by the number of
            elements of the window that are inside of `data`.

    Raises:
        SpecError: not a float dtype, a rank other than 3 to 5, or a window that does not fit.
    """
    require_float(data, f"average {shown(data)}")
    window = _window(data, kernel, stride, padding, 1)
    total = _pool(data, window, "sum", zero(data.dtype), "pool")
    letters = "dhw"[5 - len(data.shape) :]
    if count_include_pad or not any((*window.before, *window.after)):
        share = 1 / prod(window.kernel)
        return te.compute(total.shape, lambda *i: total[i] * share, name, axes=("n", "c", *letters))

    def body(*i: te.Scalar) -> te.Scalar:
        count = te.const(1, "int64")
        for n, at in enumerate(i[2:]):
            first = at * window.stride[n] - window.before[n]
            last = te.minimum(first + window.kernel[n], data.shape[2 + n])
            count = count * te.maximum(last - te.maximum(first, 0), 1)
        return total[i] / te.cast(count, data.dtype)

    return te.compute(total.shape, body, name, axes=("n", "c", *letters))


def global_max_pool(data: Tensor, *, name: str = "global_max_pool") -> Tensor:
    """Return the maximum over all spatial axes of data[n, c, ...], which keep extent 1."""
    _letters(data)
    return reduction.max(data, tuple(range(2, len(data.shape))), keepdims=True, name=name)


def global_avg_pool(data: Tensor, *, name: str = "global_avg_pool") -> Tensor:
    """Return the mean over all spatial axes of data[n, c, ...], which keep extent 1."""
    _letters(data)
    return reduction.mean(data, tuple(range(2, len(data.shape))), keepdims=True, name=name)


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
