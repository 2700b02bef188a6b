"""Normalisation and softmax; float16 and bfloat16 are computed in float32."""

from collections.abc import Callable, Sequence
from math import prod

from ansorpy import topi
from ansorpy.expr.dtypes import NARROW
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor


def widened(on: Operands, fn: Callable[..., Tensor], *operands: Tensor | None) -> Tensor:
    """Return the result of `fn` in the dtype of the first operand.

    Operands of several dtypes are converted to float32 if the first has 16 bits. Operands of one
    dtype need no conversion: operators of `topi` round their results only.
    """
    dtype = on.tensor(0).dtype
    mixed = len({one.dtype for one in operands if one is not None}) > 1
    if dtype not in NARROW or not mixed:
        return fn(*operands)
    wide = (None if one is None else topi.cast(one, "float32") for one in operands)
    return topi.cast(fn(*wide), dtype)


@operator("BatchNormalization", "epsilon", "momentum", "spatial", "training_mode")
def _batch_norm(on: Operands) -> Tensor:
    if on.attribute("training_mode", 0):
        on.refuse("attribute 'training_mode' is 1", "0, for inference")
    epsilon = on.attribute("epsilon", 1e-5)
    operands = [on.tensor(n) for n in range(5)]
    return widened(on, lambda *a: topi.batch_norm(*a, epsilon=epsilon), *operands)


@operator("LayerNormalization", "axis", "epsilon", "stash_type")
def _layer_norm(on: Operands) -> Tensor | Sequence[Tensor]:
    x, axis, epsilon = on.tensor(0), on.attribute("axis", -1), on.attribute("epsilon", 1e-5)
    trailing = x.shape[axis:]
    scale = _of_shape(on.tensor(1), trailing)
    shift = None if not on.given(2) else _of_shape(on.tensor(2), trailing)
    norm = widened(on, lambda *a: topi.layer_norm(*a, axis=axis, epsilon=epsilon), x, scale, shift)
    if len(on.node.outputs) == 1:
        return norm
    axes = tuple(range(len(x.shape) - len(trailing), len(x.shape)))
    wide = topi.cast(x, "float32") if x.dtype in NARROW else x
    mean = topi.mean(wide, axes, keepdims=True)
    variance = topi.mean(topi.square(topi.subtract(wide, mean)), axes, keepdims=True)
    return norm, mean, topi.rsqrt(topi.add(variance, epsilon))


@operator("RMSNormalization", "axis", "epsilon", "stash_type")
def _rms_norm(on: Operands) -> Tensor:
    x, axis, epsilon = on.tensor(0), on.attribute("axis", -1), on.attribute("epsilon", 1e-5)
    scale = _of_shape(on.tensor(1), x.shape[axis:])
    return widened(on, lambda *a: topi.rms_norm(*a, axis=axis, epsilon=epsilon), x, scale)


@operator("InstanceNormalization", "epsilon")
def _instance_norm(on: Operands) -> Tensor:
    epsilon = on.attribute("epsilon", 1e-5)
    return widened(
        on, lambda *a: topi.instance_norm(*a, epsilon=epsilon), *(on.tensor(n) for n in range(3))
    )


@operator("GroupNormalization", "epsilon", "num_groups", "stash_type")
def _group_norm(on: Operands) -> Tensor:
    """Normalise groups of channels; scale and bias are per channel, per group before opset 21."""
    x, groups, epsilon = on.tensor(0), on.attribute("num_groups", 1), on.attribute("epsilon", 1e-5)
    vectors = [on.tensor(n) for n in (1, 2)]
    if len(x.shape) > 1 and vectors[0].shape == (groups,) and x.shape[1] % groups == 0:
        vectors = [topi.repeat(one, x.shape[1] // groups, 0) for one in vectors]
    return widened(
        on, lambda d, a, b: topi.group_norm(d, a, b, groups, epsilon=epsilon), x, *vectors
    )


@operator("LRN", "alpha", "beta", "bias", "size")
def _lrn(on: Operands) -> Tensor:
    """Divide by (bias + alpha * mean of squares of `size` neighbouring channels)^beta."""
    x, size = on.tensor(0), on.attribute("size", 1)
    flat = (x.shape[0], 1, x.shape[1], prod(x.shape[2:]))
    squares = topi.reshape(topi.square(x), flat)
    before = (size - 1) // 2
    share = topi.avg_pool(squares, (size, 1), 1, (before, 0, size - 1 - before, 0))
    scaled = topi.multiply(topi.reshape(share, x.shape), on.attribute("alpha", 1e-4))
    base = topi.add(scaled, on.attribute("bias", 1.0))
    return topi.divide(x, topi.power(base, on.attribute("beta", 0.75)))


@operator("Softmax", "axis")
def _softmax(on: Operands) -> Tensor:
    return topi.softmax(on.tensor(0), on.attribute("axis", -1))


@operator("LogSoftmax", "axis")
def _log_softmax(on: Operands) -> Tensor:
    return topi.log_softmax(on.tensor(0), on.attribute("axis", -1))


@operator("LpNormalization", "axis", "p")
def _lp_norm(on: Operands) -> Tensor:
    x, axis = on.tensor(0), on.attribute("axis", -1)
    if on.attribute("p", 2) == 1:
        length = topi.sum(topi.abs(x), axis, keepdims=True)
    else:
        length = topi.norm(x, axis, keepdims=True)
    return topi.where(topi.equal(length, 0), 0, topi.divide(x, length))


def _of_shape(vector: Tensor, shape: tuple[int, ...]) -> Tensor:
    return vector if vector.shape == shape else topi.broadcast_to(vector, shape)
