"""Fourier transforms."""

from ansorpy import topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor


@operator("DFT", "axis", "inverse", "onesided")
def _dft(on: Operands) -> Tensor:
    """Transform along an axis; it is an input since opset 20, and counts with the last one."""
    x = on.tensor(0)
    axis = on.number(2) if on.given(2) else on.attribute("axis", -2 if len(on) != 1 else None)
    if axis is None:
        axis = -2
    inverse, onesided = bool(on.attribute("inverse", 0)), bool(on.attribute("onesided", 0))
    return topi.dft(x, axis, length=on.number(1), inverse=inverse, onesided=onesided)


@operator("STFT", "onesided")
def _stft(on: Operands) -> Tensor:
    x, step, window = on.tensor(0), on.number(1), on.optional(2)
    size = on.number(3, None if window is None else window.shape[0])
    if size is None:
        on.refuse("neither window nor frame_length is given", "one of them")
    cut = topi.frames(x, window, size, step)
    return topi.dft(cut, -2, onesided=bool(on.attribute("onesided", 1)))
