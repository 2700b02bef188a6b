"""Discrete Fourier transforms as products with constant matrices; the last axis is complex.

A real number is one element of the last axis, a complex one two: real and imaginary part.
"""

from typing import Final

import numpy as np

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.topi.common import axis_of, refuse, require_float, shown

MOST_TURNS: Final = 1 << 20  # elements of the matrix of a transform: the engine has no FFT


def dft(
    data: Tensor, axis: int = -2, *, length: int | None = None, inverse: bool = False,
    onesided: bool = False, name: str = "dft",
) -> Tensor:  # fmt: skip
    """Return the transform of data[..., parts] along an axis; its parts are two.

    With `inverse` and `onesided` the data has the frequencies of a real tensor, which is returned:
    its part is one.

    Args:
        length: elements of the axis that are transformed: the others are left out, or are zeros.
        inverse: the sign of the exponent is plus, and the result is divided by `length`.
        onesided: only the first length // 2 + 1 frequencies.

    Raises:
        SpecError: not a float dtype, another last extent than 1 or 2, or an axis that is the last.
    """
    action = f"transform {shown(data)}"
    require_float(data, action)
    rank = len(data.shape)
    at = axis_of(axis, rank, action)
    if rank < 2 or data.shape[-1] not in (1, 2) or at == rank - 1:
        refuse(action, f"its axis {axis} or its last extent does not fit", "[..., n, 1 or 2]")
    real = inverse and onesided
    count = (2 * (data.shape[at] - 1) if real else data.shape[at]) if length is None else length
    if count < 1:
        refuse(action, f"the length is {count}", "1 or more")
    shown_count = count // 2 + 1 if onesided and not real else count
    taps = min(count // 2 + 1 if real else count, data.shape[at])
    if taps * shown_count > MOST_TURNS:
        refuse(action, f"its matrix is {taps} x {shown_count}", f"at most {MOST_TURNS} elements")
    grid = np.outer(np.arange(taps), np.arange(shown_count)) % count
    angle = 2 * np.pi * grid / count * (1 if inverse else -1)
    share = 1 / count if inverse else 1.0
    # weights[part of the result, part of the data, tap, frequency]
    turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]) * share
    if real:  # a frequency stands for its mirror image, too, if that is another one
        turn[..., 1 : (count + 1) // 2, :] *= 2
        turn = turn[:1]
    weights = te.constant(turn[:, : data.shape[-1]].astype("float64"), "turn", data.dtype)
    n, part = te.reduce_axis((0, taps), "n"), te.reduce_axis((0, data.shape[-1]), "part")

    def body(*i: te.Scalar) -> te.Reduction:
        source = (*i[:at], n, *i[at + 1 : -1], part)
        return te.sum(data[source] * weights[i[-1], part, n, i[at]], axis=(n, part))

    shape = (*data.shape[:at], shown_count, *data.shape[at + 1 : -1], len(turn))
    return te.compute(shape, body, name)


def frames(
    data: Tensor, window: Tensor | None, size: int, step: int, *, name: str = "frames"
) -> Tensor:
    """Return [batch, frames, size, parts] of data[batch, n, parts], multiplied by a window.

    Raises:
        SpecError: another rank, a window of another shape, or no frame fits.
    """
    action = f"cut frames of {shown(data)}"
    if len(data.shape) != 3 or step < 1 or not 1 <= size <= data.shape[1]:
        refuse(action, f"size is {size}, step {step}", "data [batch, n, parts], size at most n")
    if window is not None and window.shape != (size,):
        refuse(action, f"the window is {shown(window)}", f"shape [{size}]")
    batch, total, parts = data.shape

    def body(b: te.Scalar, f: te.Scalar, t: te.Scalar, p: te.Scalar) -> te.Scalar:
        element = data[b, f * step + t, p]
        return element if window is None else element * window[t]

    return te.compute((batch, (total - size) // step + 1, size, parts), body, name)
