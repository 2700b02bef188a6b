"""The functions of scalars: operands, meaning and accuracy of each, in one table.

A new function is an entry of this table, a generator in `codegen.simd.functions` and a name in
`te`; the checks, the oracle, the interpreter, the features and the frontends read the table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ansorpy.expr.dtypes import FLOATS, INTS, NUMBERS, UNIT_ROUNDOFF

FloatArray = npt.NDArray[np.float64]

TRANSCENDENTAL_ROUNDOFFS: Final = 16  # 8 machine epsilons
TF32_PRECISION: Final = 11  # bits of a tf32 number: 10 of the mantissa, and the first one


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of one scalar; its result has the dtype of the argument.

    Args:
        meaning: the function of NumPy arrays; floats are float64.
        text: the call in numba source, of a float64 scalar.
        doc: the first line of the docstring in `te`.
        operands: dtypes of the argument.
        roundoffs: largest error of a kernel, in unit roundoffs of the result; 0 if it is exact.
        slope: error of the result per error of the argument; None: the function is monotone.
        whole: the result is a whole number, and equal to an argument that is one.
        keeps: whole numbers up to this magnitude are their own results.
    """

    meaning: Callable[[Any], Any]
    text: str
    doc: str = ""
    operands: tuple[str, ...] = FLOATS
    roundoffs: int = TRANSCENDENTAL_ROUNDOFFS
    slope: float | None = None
    whole: bool = False
    keeps: int = 0


@dataclass(frozen=True, slots=True)
class BinaryFunction:
    """A function of two floats of one dtype; `oracle.error_bounds` has the rule of its error.

    Args:
        meaning: the function of NumPy arrays; floats are float64.
        text: the call in numba source, of float64 scalars.
        doc: the first line of the docstring in `te`.
    """

    meaning: Callable[[Any, Any], Any]
    text: str
    doc: str


def _erf(x: FloatArray) -> FloatArray:
    from scipy.special import erf  # here, because few Dags need SciPy

    out: FloatArray = erf(x)
    return out


def _sigmoid(x: FloatArray) -> FloatArray:
    small = np.exp(-np.abs(x))  # never overflows
    return np.where(x >= 0, 1.0, small) / (1.0 + small)


def _pow(x: FloatArray, y: FloatArray) -> FloatArray:
    # NumPy takes a root where one exponent of 0.5 is for all, and sqrt(-inf) is NaN.
    return np.where(np.isneginf(x) & (y == 0.5), np.inf, np.power(x, y))


def _rounding(meaning: Callable[[Any], Any], doc: str) -> ScalarFunction:
    return ScalarFunction(meaning, f"np.{meaning.__name__}({{}})", doc, roundoffs=0, whole=True)


def _numpy(meaning: Callable[[Any], Any], doc: str, slope: float | None = None) -> ScalarFunction:
    return ScalarFunction(meaning, f"np.{meaning.__name__}({{}})", doc, slope=slope)


FUNCTIONS: Final[Mapping[str, ScalarFunction]] = {
    "neg": ScalarFunction(np.negative, "(-{})", "", NUMBERS, 0, 1.0),
    "not": ScalarFunction(np.logical_not, "(not {})", "", ("bool",), 0, 1.0),
    "bitnot": ScalarFunction(np.invert, "(~{})", "", INTS, 0, 1.0),
    "abs": ScalarFunction(np.abs, "abs({})", "The absolute value.", NUMBERS, 0, 1.0),
    "floor": _rounding(np.floor, "The largest whole number not above x, in the dtype of x."),
    "ceil": _rounding(np.ceil, "The smallest whole number not below x, in the dtype of x."),
    "exp": _numpy(np.exp, "e to the power of x."),
    "log": _numpy(np.log, "The natural logarithm."),
    "log1p": _numpy(np.log1p, "The natural logarithm of 1 + x."),
    "tanh": _numpy(np.tanh, "The hyperbolic tangent."),
    "erf": ScalarFunction(_erf, "math.erf({})", "The error function."),
    "sqrt": ScalarFunction(np.sqrt, "np.sqrt({})", "The square root.", roundoffs=2),
    "rsqrt": ScalarFunction(
        lambda x: 1.0 / np.sqrt(x), "(1.0 / np.sqrt({}))", "One over the square root."
    ),
    "sigmoid": ScalarFunction(_sigmoid, "(1.0 / (1.0 + np.exp(-{})))", "1 / (1 + exp(-x))."),
    "round": _rounding(
        np.rint, "The nearest whole number, of two the even one, in the dtype of x."
    ),
    "trunc": _rounding(np.trunc, "The whole number next to x towards zero, in the dtype of x."),
    "sin": _numpy(np.sin, "The sine of an angle in radians.", slope=1.0),
    "cos": _numpy(np.cos, "The cosine of an angle in radians.", slope=1.0),
    "atan": _numpy(np.arctan, "The angle from -pi / 2 to pi / 2 whose tangent is x."),
    # A kernel rounds or not: rounding is an error of the kernel, as everywhere, and not the value.
    "tf32": ScalarFunction(
        np.positive,
        "(+{})",
        "x, which a kernel may round to the 11 bits that tensor cores of float32 take.",
        ("float32",),
        roundoffs=round(2.0**-TF32_PRECISION / UNIT_ROUNDOFF["float32"]),
        slope=1.0,
        keeps=2**TF32_PRECISION,
    ),
}

BINARY_FUNCTIONS: Final[Mapping[str, BinaryFunction]] = {
    "pow": BinaryFunction(_pow, "({} ** {})", "`a` to the power of `b`."),
    "fmod": BinaryFunction(
        np.fmod, "np.fmod({}, {})", "a - trunc(a / b) * b, exact, with the sign of `a`."
    ),
}
