"""Trigonometric and hyperbolic functions, composed of the functions of `te`.

Each form avoids differences of nearly equal numbers and overflows of parts of the result.
Source: Muller, Elementary Functions (2016), sections 1.3 and 11.4, and the identities of half
arguments.
"""

from math import log, nan

from ansorpy import te
from ansorpy.expr.dtypes import LARGEST
from ansorpy.topi.elementwise import unary

LEAST = 1e-9  # below it asinh(x) and atanh(x) are x, in float64 too
LARGE = 1e9  # above it asinh(x) and acosh(x) are log(2 * x), in float64 too


def _asin(x: te.Scalar) -> te.Scalar:
    return te.atan(x / te.sqrt((1 - x) * (1 + x)))


def _acos(x: te.Scalar) -> te.Scalar:
    return te.atan(te.sqrt((1 - x) / (1 + x))) * 2


def _exp_of_half(x: te.Scalar) -> te.Scalar:
    """Return e**(|x| / 2); its square may overflow, half of the square does so with the result."""
    return te.exp(te.abs(x) * 0.5)


def _cosh(x: te.Scalar) -> te.Scalar:
    root = _exp_of_half(x)
    return root * 0.5 * root + 0.5 / (root * root)


def _sinh(x: te.Scalar) -> te.Scalar:
    root, half = _exp_of_half(x), te.tanh(x * 0.5)
    size = root * 0.5 * root - 0.5 / (root * root)
    large = te.select(x < 0, -size, size)
    return te.select(te.abs(x) < 1, half * 2 / (1 - half * half), large)


def _odd(x: te.Scalar, size: te.Scalar) -> te.Scalar:
    """Return `size` with the sign of `x`; `x` itself, -0.0 too, where |x| is small."""
    return te.select(te.abs(x) > LEAST, te.select(x < 0, -size, size), x)


def _log_of_double(x: te.Scalar, usual: te.Scalar) -> te.Scalar:
    limit = min(LARGE, LARGEST[x.dtype])
    return te.select(x > limit, te.log(x) + log(2), usual)


def _asinh(x: te.Scalar) -> te.Scalar:
    size = te.abs(x)
    square = size * size
    return _odd(x, _log_of_double(size, te.log1p(size + square / (te.sqrt(square + 1) + 1))))


def _acosh(x: te.Scalar) -> te.Scalar:
    above = x - 1
    usual = te.log1p(above + te.sqrt(above * (above + 2)))
    return te.select(x >= 1, _log_of_double(x, usual), te.const(nan, x.dtype))


def _atanh(x: te.Scalar) -> te.Scalar:
    size = te.abs(x)
    return _odd(x, te.log1p(size * 2 / (1 - size)) * 0.5)


tan = unary("tan", lambda x: te.sin(x) / te.cos(x), "Return the tangent of angles.")
asin = unary("asin", _asin, "Return the angle in [-pi / 2, pi / 2] whose sine is x.")
acos = unary("acos", _acos, "Return the angle in [0, pi] whose cosine is x.")
sinh = unary("sinh", _sinh, "Return the hyperbolic sine of floats.")
cosh = unary("cosh", _cosh, "Return the hyperbolic cosine of floats.")
asinh = unary("asinh", _asinh, "Return the inverse of the hyperbolic sine.")
acosh = unary("acosh", _acosh, "Return the inverse of the hyperbolic cosine; NaN below 1.")
atanh = unary("atanh", _atanh, "Return the inverse of the hyperbolic tangent.")
