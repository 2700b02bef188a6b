"""Activation functions."""

from ansorpy import te, topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor, TensorOperand


@operator("Relu")
def _relu(on: Operands) -> Tensor:
    return topi.relu(on.tensor(0))


@operator("Sigmoid")
def _sigmoid(on: Operands) -> Tensor:
    return topi.sigmoid(on.tensor(0))


@operator("LeakyRelu", "alpha")
def _leaky_relu(on: Operands) -> Tensor:
    return topi.leaky_relu(on.tensor(0), on.attribute("alpha", 0.01))


@operator("Elu", "alpha")
def _elu(on: Operands) -> Tensor:
    return topi.elu(on.tensor(0), on.attribute("alpha", 1.0))


@operator("Celu", "alpha")
def _celu(on: Operands) -> Tensor:
    return topi.celu(on.tensor(0), on.attribute("alpha", 1.0))


@operator("Selu", "alpha", "gamma")
def _selu(on: Operands) -> Tensor:
    inner = topi.elu(on.tensor(0), on.attribute("alpha", 1.67326319217681884765625))
    return topi.multiply(inner, on.attribute("gamma", 1.05070102214813232421875))


@operator("HardSigmoid", "alpha", "beta")
def _hard_sigmoid(on: Operands) -> Tensor:
    return topi.hard_sigmoid(on.tensor(0), on.attribute("alpha", 0.2), on.attribute("beta", 0.5))


@operator("HardSwish")
def _hard_swish(on: Operands) -> Tensor:
    return topi.hard_swish(on.tensor(0))


@operator("Gelu", "approximate")
def _gelu(on: Operands) -> Tensor:
    return topi.gelu(on.tensor(0), approximate=on.attribute("approximate", "none") == "tanh")


@operator("Mish")
def _mish(on: Operands) -> Tensor:
    return topi.mish(on.tensor(0))


@operator("Softplus")
def _softplus(on: Operands) -> Tensor:
    return topi.softplus(on.tensor(0))


@operator("Softsign")
def _softsign(on: Operands) -> Tensor:
    return topi.softsign(on.tensor(0))


@operator("Swish", "alpha")
def _swish(on: Operands) -> Tensor:
    x, alpha = on.tensor(0), on.attribute("alpha", 1.0)
    return topi.silu(x) if alpha == 1.0 else topi.multiply(x, topi.sigmoid(topi.multiply(x, alpha)))


@operator("ThresholdedRelu", "alpha")
def _thresholded_relu(on: Operands) -> Tensor:
    x = on.tensor(0)
    return topi.where(topi.greater(x, on.attribute("alpha", 1.0)), x, 0)


@operator("PRelu")
def _prelu(on: Operands) -> Tensor:
    x = on.tensor(0)
    scaled = topi.multiply(x, on.operand(1, len(x.shape)))
    return topi.where(topi.greater_equal(x, 0), x, scaled)


@operator("Shrink", "lambd", "bias")
def _shrink(on: Operands) -> Tensor:
    x, limit, bias = on.tensor(0), on.attribute("lambd", 0.5), on.attribute("bias", 0.0)
    dtype = x.dtype
    x = x if dtype.startswith(("float", "bfloat")) else topi.cast(x, "float32")
    upper = topi.where(topi.greater(x, limit), topi.subtract(x, bias), 0)
    return topi.cast(topi.where(topi.less(x, -limit), topi.add(x, bias), upper), dtype)


@operator("Clip", "min", "max")
def _clip(on: Operands) -> Tensor:
    """Return min(max(x, low), high); the limits are inputs, or attributes before opset 11.

    An absent limit is the lowest or largest finite number, as the specification has it.
    """
    x = on.tensor(0)
    rank = len(x.shape)
    low, high = (
        _limit(on.operand(n, rank), x.dtype) if on.given(n)
        else te.const(on.attribute(name), x.dtype) if name in on.node.attrs
        else extreme(x.dtype)
        for n, name, extreme in ((1, "min", te.min_value), (2, "max", te.max_value))
    )  # fmt: skip
    return topi.minimum(topi.maximum(x, low), high)


def _limit(limit: TensorOperand, dtype: str) -> TensorOperand:
    """Return a limit in the dtype of the data; the version converter makes float32 of it."""
    return topi.cast(limit, dtype) if isinstance(limit, Tensor) else te.cast(limit, dtype)
