"""Trigonometric and hyperbolic functions of floats that are compositions of others."""

from collections.abc import Callable
from functools import reduce
from math import pi
from typing import Final

from ansorpy import te
from ansorpy.te.tensor import Tensor, elementwise
from ansorpy.topi.common import require_float
from ansorpy.topi.elementwise import UnaryOperator

# Coefficients of (atan(x) - x) / x^3 as a quotient of polynomials of x^2, for |x| <= 0.66.
# Source: Cephes, atan.c.
_OVER: Final = (
    -0.8750608600031904, -16.157537187333652, -75.00855792314705, -122.88666844901361,
    -64.85021904942025,
)  # fmt: skip
_UNDER: Final = (
    1.0, 24.858464901423062, 165.02700983169885, 432.88106049129027, 485.3903996359137,
    194.5506571482614,
)  # fmt: skip
_MIDDLE, _LARGE = 0.66, 2.414213562373095  # tan(3 pi / 8)
SMALL: Final = 0.125  # below, hyperbolic functions are series: no cancellation


def _unary(name: str, fn: Callable[[te.Scalar], te.Scalar], doc: str) -> UnaryOperator:
    def apply(data: Tensor, *, name: str = name) -> Tensor:
        return elementwise(fn, data, name=name)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = f"{doc}\n\nRaises:\n    SpecError: the dtype is not a float."
    return apply


def _polynomial(x: te.Scalar, coefficients: tuple[float, ...]) -> te.Scalar:
    """Return the sum of coefficients[i] * x^(n - 1 - i)."""
    first, *rest = (te.const(one, x.dtype) for one in coefficients)
    return reduce(lambda total, one: total * x + one, rest, first)


def _series(x: te.Scalar, *coefficients: float) -> te.Scalar:
    """Return x + x^3 * (coefficients[0] + coefficients[1] * x^2 + ...)."""
    square = x * x
    return x + x * square * _polynomial(square, coefficients[::-1])


def atan(data: Tensor, *, name: str = "atan") -> Tensor:
    """Return the arc tangent: two nodes, since an expression shares no parts.

    Raises:
        SpecError: the dtype is not a float.
    """
    require_float(data, f"compute {name}")

    def smaller(x: te.Scalar) -> te.Scalar:
        """Return a number up to 0.66 whose arc tangent differs by 0, pi / 4 or pi / 2."""
        size = te.abs(x)
        middle = te.select(size > _MIDDLE, (size - 1) / (size + 1), size)
        return te.select(size > _LARGE, -1 / size, middle)

    def angle(x: te.Scalar, part: te.Scalar) -> te.Scalar:
        square, size = part * part, te.abs(x)
        share = square * _polynomial(square, _OVER) / _polynomial(square, _UNDER)
        small = part + part * share
        found = te.select(
            size > _LARGE, small + pi / 2, te.select(size > _MIDDLE, small + pi / 4, small)
        )
        return te.select(x < 0, -found, found)

    return elementwise(angle, data, elementwise(smaller, data, name="part"), name=name)


def asin(data: Tensor, *, name: str = "asin") -> Tensor:
    """Return the arc sine.

    Raises:
        SpecError: the dtype is not a float.
    """
    require_float(data, f"compute {name}")
    tangent = elementwise(lambda x: x / te.sqrt((1 - x) * (1 + x)), data, name="tangent")
    return atan(tangent, name=name)


def acos(data: Tensor, *, name: str = "acos") -> Tensor:
    """Return the arc cosine, from 0 to pi.

    Raises:
        SpecError: the dtype is not a float.
    """
    require_float(data, f"compute {name}")
    half = atan(elementwise(lambda x: te.sqrt((1 - x) / (1 + x)), data, name="tangent"))
    return elementwise(lambda x: x * 2, half, name=name)


def _sinh(x: te.Scalar) -> te.Scalar:
    small = _series(x, 1 / 6, 1 / 120, 1 / 5040)
    return te.select(te.abs(x) < SMALL, small, (te.exp(x) - te.exp(-x)) * 0.5)


def _asinh(x: te.Scalar) -> te.Scalar:
    size = te.abs(x)
    large = te.log(size + te.sqrt(size * size + 1))
    small = _series(x, -1 / 6, 3 / 40, -15 / 336)
    return te.select(size < SMALL, small, te.select(x < 0, -large, large))


def _atanh(x: te.Scalar) -> te.Scalar:
    small = _series(x, 1 / 3, 1 / 5, 1 / 7, 1 / 9)
    return te.select(te.abs(x) < SMALL, small, te.log((1 + x) / (1 - x)) * 0.5)


tan = _unary("tan", lambda x: te.sin(x) / te.cos(x), "Return the tangent of angles in radians.")
sinh = _unary("sinh", _sinh, "Return the hyperbolic sine.")
cosh = _unary("cosh", lambda x: (te.exp(x) + te.exp(-x)) * 0.5, "Return the hyperbolic cosine.")
asinh = _unary("asinh", _asinh, "Return the inverse of the hyperbolic sine.")
acosh = _unary(
    "acosh", lambda x: te.log(x + te.sqrt((x - 1) * (x + 1))),
    "Return the inverse of the hyperbolic cosine, from 0 on.",
)  # fmt: skip
atanh = _unary("atanh", _atanh, "Return the inverse of the hyperbolic tangent.")
