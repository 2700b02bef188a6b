"""Activation functions of networks, element by element, of float tensors."""

from collections.abc import Sequence
from math import pi, sqrt

from ansorpy import te
from ansorpy.te.tensor import Tensor, elementwise
from ansorpy.topi.common import require_float


def relu(data: Tensor, *, name: str = "relu") -> Tensor:
    """Return max(x, 0), in any dtype of numbers."""
    return elementwise(lambda x: te.maximum(x, 0), data, name=name)


def relu6(data: Tensor, *, name: str = "relu6") -> Tensor:
    """Return min(max(x, 0), 6), in any dtype of numbers."""
    return elementwise(lambda x: te.minimum(te.maximum(x, 0), 6), data, name=name)


def leaky_relu(data: Tensor, alpha: float = 0.01, *, name: str = "leaky_relu") -> Tensor:
    """Return x if x >= 0, else alpha * x."""
    require_float(data, "compute leaky_relu")
    return elementwise(lambda x: te.select(x >= 0, x, x * alpha), data, name=name)


def elu(data: Tensor, alpha: float = 1.0, *, name: str = "elu") -> Tensor:
    """Return x if x >= 0, else alpha * (exp(x) - 1)."""
    require_float(data, "compute elu")
    return elementwise(lambda x: te.select(x >= 0, x, (te.exp(x) - 1) * alpha), data, name=name)


def celu(data: Tensor, alpha: float = 1.0, *, name: str = "celu") -> Tensor:
    """Return x where x >= 0, else alpha * (exp(x / alpha) - 1), of floats (Barron, 2017)."""
    require_float(data, "compute celu")
    return elementwise(
        lambda x: te.select(x >= 0, x, (te.exp(x * (1 / alpha)) - 1) * alpha), data, name=name
    )


def sigmoid(data: Tensor, *, name: str = "sigmoid") -> Tensor:
    """Return 1 / (1 + exp(-x))."""
    return elementwise(te.sigmoid, data, name=name)


def hard_sigmoid(
    data: Tensor, alpha: float = 1 / 6, beta: float = 0.5, *, name: str = "hard_sigmoid"
) -> Tensor:
    """Return min(max(alpha * x + beta, 0), 1); the defaults are as in hard_swish."""
    require_float(data, "compute hard_sigmoid")
    return elementwise(lambda x: te.minimum(te.maximum(x * alpha + beta, 0), 1), data, name=name)


def silu(data: Tensor, *, name: str = "silu") -> Tensor:
    """Return x * sigmoid(x), which is also called swish."""
    return elementwise(lambda x: x * te.sigmoid(x), data, name=name)


def hard_swish(data: Tensor, *, name: str = "hard_swish") -> Tensor:
    """Return x * (min(max(x + 3, 0), 6) / 6) (Howard et al., MobileNetV3, 2019)."""
    require_float(data, "compute hard_swish")
    return elementwise(
        lambda x: x * (te.minimum(te.maximum(x + 3, 0), 6) * (1 / 6)), data, name=name
    )


def gelu(
    data: Tensor,
    *,
    approximate: bool = False,
    name: str = "gelu",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return x * Phi(x), Phi the normal distribution (Hendrycks and Gimpel, 2016).

    Args:
        approximate: replace the error function by tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)).
    """
    if approximate:
        factor = sqrt(2 / pi)
        return elementwise(
            lambda x: x * 0.5 * (te.tanh((x + x * x * x * 0.044715) * factor) + 1.0),
            data,
            name=name,
            axes=axes,
        )
    return elementwise(
        lambda x: x * 0.5 * (te.erf(x * sqrt(0.5)) + 1.0), data, name=name, axes=axes
    )


def _softplus(x: te.Scalar) -> te.Scalar:
    return te.maximum(x, 0) + te.log1p(te.exp(-te.abs(x)))


def softplus(data: Tensor, *, name: str = "softplus") -> Tensor:
    """Return log(1 + exp(x)), computed without overflow."""
    return elementwise(_softplus, data, name=name)


def softsign(data: Tensor, *, name: str = "softsign") -> Tensor:
    """Return x / (1 + |x|)."""
    return elementwise(lambda x: x / (te.abs(x) + 1), data, name=name)


def mish(data: Tensor, *, name: str = "mish") -> Tensor:
    """Return x * tanh(log(1 + exp(x))) (Misra, 2019)."""

    def body(x: te.Scalar) -> te.Scalar:
        return x * te.tanh(_softplus(x))

    return elementwise(body, data, name=name)
