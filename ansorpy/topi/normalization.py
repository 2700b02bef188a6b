"""Softmax and normalisation of floats: reductions whose results are used on every element."""

import operator
from math import prod

from ansorpy import te
from ansorpy.te.tensor import Tensor
from ansorpy.te.wide import rounds_once
from ansorpy.topi import reduction
from ansorpy.topi.common import (
    LETTERS,
    axis_of,
    refuse,
    require_float,
    require_length,
    shown,
)
from ansorpy.topi.reduction import Over


@rounds_once
def softmax(data: Tensor, axis: int = -1, *, name: str = "softmax") -> Tensor:
    """Return exp(x - maximum) / total along an axis: four nodes.

    Raises:
        SpecError: there is no such axis, or the dtype is not a float.
    """
    require_float(data, f"compute {name} of {shown(data)}")
    at = axis_of(axis, len(data.shape), f"compute {name} of {shown(data)}")
    letters = Over.of(data, (), True, name).names
    first, second = (Over.of(data, at, False, name) for _ in range(2))
    largest = te.compute(first.shape, first.body(data, te.max), "maximum", axes=first.names)
    powers = te.compute(
        data.shape,
        lambda *i: te.exp(data[i] - largest[(*i[:at], *i[at + 1 :])]),
        "exponent",
        axes=letters,
    )
    total = te.compute(second.shape, second.body(powers, te.sum), "total", axes=second.names)
    return te.compute(
        data.shape, lambda *i: powers[i] / total[(*i[:at], *i[at + 1 :])], name, axes=letters
    )


@rounds_once
def log_softmax(data: Tensor, axis: int = -1, *, name: str = "log_softmax") -> Tensor:
    """Return x - maximum - log(total of exp(x - maximum)) along an axis.

    Raises:
        SpecError: there is no such axis, or the dtype is not a float.
    """
    require_float(data, f"compute {name} of {shown(data)}")
    largest = reduction.max(data, axis, keepdims=True, name="maximum")
    centred = te.elementwise(operator.sub, data, largest, name="centred")
    powers = te.elementwise(te.exp, centred, name="exponent")
    total = reduction.sum(powers, axis, keepdims=True, name="total")
    return te.elementwise(lambda x, y: x - te.log(y), centred, total, name=name)


@rounds_once
def layer_norm(
    data: Tensor,
    scale: Tensor | None = None,
    shift: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    name: str = "layer_norm",
) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + shift over the axes from `axis` on.

    `scale` and `shift` have the shape of the normalised axes (Ba et al., 2016).

    Raises:
        SpecError: a shape does not fit, there is no such axis, or the dtype is not a float.
    """
    over, first = _trailing(data, axis, name, scale, shift)
    again = _trailing(data, axis, name)[0]
    share = 1 / prod(data.shape[first:])
    letters = LETTERS[: len(data.shape)]
    total = te.compute(over.shape, over.body(data, te.sum), "total", axes=over.names)
    centred = te.compute(
        data.shape, lambda *i: data[i] - total[i[:first]] * share, "centred", axes=letters
    )
    squares = te.compute(
        again.shape, again.body(centred, _sum_of_squares), "squares", axes=again.names
    )

    def body(*i: te.Scalar) -> te.Scalar:
        value = centred[i] * te.rsqrt(squares[i[:first]] * share + epsilon)
        value = value if scale is None else value * scale[i[first:]]
        return value if shift is None else value + shift[i[first:]]

    return te.compute(data.shape, body, name, axes=letters)


@rounds_once
def rms_norm(
    data: Tensor,
    scale: Tensor | None = None,
    *,
    axis: int = -1,
    epsilon: float = 1e-5,
    name: str = "rms_norm",
) -> Tensor:
    """Return x / sqrt(mean of squares + epsilon) * scale over the axes from `axis` on.

    `scale` has the shape of the normalised axes (Zhang and Sennrich, 2019).

    Raises:
        SpecError: a shape does not fit, there is no such axis, or the dtype is not a float.
    """
    over, first = _trailing(data, axis, name, scale)
    share = 1 / prod(data.shape[first:])
    squares = te.compute(over.shape, over.body(data, _sum_of_squares), "squares", axes=over.names)

    def body(*i: te.Scalar) -> te.Scalar:
        value = data[i] * te.rsqrt(squares[i[:first]] * share + epsilon)
        return value if scale is None else value * scale[i[first:]]

    return te.compute(data.shape, body, name, axes=LETTERS[: len(data.shape)])


@rounds_once
def batch_norm(
    data: Tensor,
    scale: Tensor,
    shift: Tensor,
    mean: Tensor | None = None,
    variance: Tensor | None = None,
    *,
    epsilon: float = 1e-5,
    name: str = "batch_norm",
) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + shift per channel of data[n, c, ...].

    Args:
        scale, shift, mean, variance: vectors with one element per channel. Without `mean` and
            `variance` they are computed from the data, as in training.

    Raises:
        SpecError: a shape does not fit, only one of `mean` and `variance` is given, or the dtype
            is not a float.
    """
    action = f"normalise {shown(data)}"
    require_float(data, action)
    if not 2 <= len(data.shape) <= 5:
        refuse(action, f"its rank is {len(data.shape)}", "2 to 5: [n, c, ...]")
    if (mean is None) != (variance is None):
        refuse(action, "one of mean and variance is missing", "both, or neither")
    for vector in (scale, shift, mean, variance):
        if vector is not None:
            require_length(vector, data.shape[1], action)
    letters = ("n", "c", *"dhw"[5 - len(data.shape) :])
    share = 1.0
    if mean is None or variance is None:
        mean, variance, share = _statistics(data)
    average, deviation = mean, variance

    def factor_of(c: te.Scalar) -> te.Scalar:
        square = deviation[c] if share == 1.0 else deviation[c] * share
        return te.rsqrt(square + epsilon) * scale[c]

    factor = te.compute(scale.shape, factor_of, "factor")
    return te.compute(
        data.shape,
        lambda *i: (data[i] - average[i[1]]) * factor[i[1]] + shift[i[1]],
        name,
        axes=letters,
    )


@rounds_once
def group_norm(
    data: Tensor,
    scale: Tensor,
    shift: Tensor,
    groups: int,
    *,
    epsilon: float = 1e-5,
    name: str = "group_norm",
) -> Tensor:
    """Return (x - mean) / sqrt(variance + epsilon) * scale + shift per group of channels.

    `data` is [n, c, ...]; mean and variance are over c / groups channels of one element of
    the batch; `scale` and `shift` have one element per channel (Wu and He, 2018).

    Raises:
        SpecError: a shape does not fit, `groups` does not divide the channels, or the dtype is
            not a float.
    """
    action = f"normalise {shown(data)}"
    require_float(data, action)
    if len(data.shape) < 2:
        refuse(action, f"its rank is {len(data.shape)}", "rank 2 or more: [n, c, ...]")
    batch, channels, *spatial = data.shape
    if groups < 1 or channels % groups:
        refuse(action, f"groups is {groups}", f"a divisor of {channels} channels")
    for vector in (scale, shift):
        require_length(vector, channels, action)
    size = channels // groups
    share = 1 / (size * prod(spatial))

    def taps() -> list[te.ReduceAxis]:
        names = ("rc", *(f"r{n}" for n in range(len(spatial))))
        extents = (size, *spatial)
        return [te.reduce_axis((0, n), name) for n, name in zip(extents, names, strict=True)]

    a, b = taps(), taps()
    total = te.compute(
        (batch, groups), lambda n, g: te.sum(data[(n, g * size + a[0], *a[1:])], a), "total"
    )
    mean = te.compute((batch, groups), lambda n, g: total[n, g] * share, "mean")

    def square(n: te.Scalar, g: te.Scalar) -> te.Reduction:
        apart = data[(n, g * size + b[0], *b[1:])] - mean[n, g]
        return te.sum(apart * apart, b)

    squares = te.compute((batch, groups), square, "squares")

    def body(n: te.Scalar, c: te.Scalar, *at: te.Scalar) -> te.Scalar:
        g = c // size
        apart = data[(n, c, *at)] - mean[n, g]
        return apart * te.rsqrt(squares[n, g] * share + epsilon) * scale[c] + shift[c]

    names = ("n", "c", *(f"i{n}" for n in range(len(spatial))))
    return te.compute(data.shape, body, name, axes=names)


def instance_norm(
    data: Tensor,
    scale: Tensor,
    shift: Tensor,
    *,
    epsilon: float = 1e-5,
    name: str = "instance_norm",
) -> Tensor:
    """Return group_norm with one channel per group (Ulyanov et al., 2016).

    Raises:
        SpecError: a shape does not fit, or the dtype is not a float.
    """
    if len(data.shape) < 2:
        refuse(f"normalise {shown(data)}", f"its rank is {len(data.shape)}", "[n, c, ...]")
    return group_norm(data, scale, shift, data.shape[1], epsilon=epsilon, name=name)


def _statistics(data: Tensor) -> tuple[Tensor, Tensor, float]:
    """Return the mean and the sum of squares per channel, and one over the number of elements."""
    batch, channels, *spatial = data.shape
    share = 1 / (batch * prod(spatial))
    names = ("rn", *("rz", "ry", "rx")[3 - len(spatial) :])

    def taps() -> list[te.ReduceAxis]:
        pairs = zip((batch, *spatial), names, strict=True)
        return [te.reduce_axis((0, extent), name) for extent, name in pairs]

    a, b = taps(), taps()
    total = te.compute((channels,), lambda c: te.sum(data[(a[0], c, *a[1:])], axis=a), "total")
    mean = te.compute((channels,), lambda c: total[c] * share, "mean")

    def square(c: te.Scalar) -> te.Reduction:
        apart = data[(b[0], c, *b[1:])] - mean[c]
        return te.sum(apart * apart, axis=b)

    return mean, te.compute((channels,), square, "squares"), share


def _trailing(data: Tensor, axis: int, name: str, *vectors: Tensor | None) -> tuple[Over, int]:
    """Return the reduction over the axes from `axis` on, and the first of them.

    Raises:
        SpecError: not a float dtype, no such axis, or a vector of another shape.
    """
    action = f"compute {name} of {shown(data)}"
    require_float(data, action)
    first = axis_of(axis, len(data.shape), action)
    for vector in vectors:
        if vector is not None and vector.shape != data.shape[first:]:
            refuse(action, f"it gets {shown(vector)}", f"shape {list(data.shape[first:])}")
    return Over.of(data, range(first, len(data.shape)), False, name), first


def _sum_of_squares(value: te.Scalar, over: te.Axes) -> te.Reduction:
    return te.sum(value * value, over)
