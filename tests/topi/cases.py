"""One case per operator: its drawn arguments, and the NumPy formula that it has to equal.

A case draws shapes, dtypes and arguments. It returns the result, the inputs, and the formula of
their arrays, floats as float64.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import scipy.special
from numpy.typing import NDArray

from ansorpy import te, topi

Array = NDArray[Any]
Draw = np.random.Generator
Case = tuple[te.Tensor | Sequence[te.Tensor], Sequence[te.Tensor], Callable[..., Any]]

FLOATS: Final = ("float32", "float64")
SIGNED: Final = (*FLOATS, "int8", "int16", "int32", "int64")
NUMBERS: Final = (*SIGNED, "uint8", "uint16", "uint32", "uint64")
ANY: Final = (*NUMBERS, "bool")
INTS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def shape(rng: Draw, low: int, high: int) -> tuple[int, ...]:
    """Draw a shape of `low` to `high` axes."""
    return tuple(map(int, rng.choice((1, 2, 3, 5, 7), int(rng.integers(low, high + 1)))))


def tensor(
    rng: Draw, extents: Sequence[int], dtypes: Sequence[str] = FLOATS, name: str = "X"
) -> te.Tensor:
    """Return an input of a drawn dtype."""
    return te.placeholder(extents, name, str(rng.choice(dtypes)))


def narrowed(rng: Draw, extents: tuple[int, ...]) -> tuple[int, ...]:
    """Draw a shape that broadcasts to `extents`."""
    cut = extents[int(rng.integers(len(extents) + 1)) :]
    return tuple(1 if rng.integers(3) == 0 else extent for extent in cut)


def some_axes(rng: Draw, rank: int) -> tuple[int, ...]:
    """Draw one or more axes, some of them counted from the last."""
    count = int(rng.integers(1, rank + 1))
    return tuple(int(a) - rank * int(rng.integers(2)) for a in rng.permutation(rank)[:count])


def unary(
    operator: Callable[..., te.Tensor], want: Callable[[Array], Any],
    dtypes: Sequence[str] = FLOATS,
) -> Callable[[Draw], Case]:  # fmt: skip
    """Return the case of an operator of one tensor."""

    def case(rng: Draw) -> Case:
        x = tensor(rng, shape(rng, 0, 4), dtypes)
        return operator(x), (x,), want

    return case


def binary(
    operator: Callable[..., te.Tensor], want: Callable[[Array, Array], Any],
    dtypes: Sequence[str] = NUMBERS,
) -> Callable[[Draw], Case]:  # fmt: skip
    """Return the case of an operator of two tensors, either of them the narrower one."""

    def case(rng: Draw) -> Case:
        extents, dtype = shape(rng, 0, 4), (str(rng.choice(dtypes)),)
        shapes = [extents, narrowed(rng, extents)]
        rng.shuffle(shapes)
        a, b = (tensor(rng, s, dtype, name) for s, name in zip(shapes, "AB", strict=True))
        return operator(a, b), (a, b), want

    return case


def gate(x: Array) -> Array:
    return np.asarray(np.clip(x + 3, 0, 6) / 6)


def elu(x: Array) -> Array:
    return np.where(x >= 0, x, np.expm1(x))


def logaddexp(x: Array) -> Array:
    return np.logaddexp(0, x)


UNARY: Final = {
    "log1p": unary(topi.log1p, np.log1p),
    "abs": unary(topi.abs, np.abs, SIGNED),
    "acos": unary(topi.acos, np.arccos),
    "acosh": unary(
        lambda x: topi.acosh(topi.add(topi.abs(x), 1.25)), lambda x: np.arccosh(np.abs(x) + 1.25)
    ),
    "asin": unary(topi.asin, np.arcsin),
    "asinh": unary(lambda x: topi.asinh(topi.multiply(x, 4)), lambda x: np.arcsinh(4 * x)),
    "atan": unary(lambda x: topi.atan(topi.multiply(x, 4)), lambda x: np.arctan(4 * x)),
    "atanh": unary(lambda x: topi.atanh(topi.multiply(x, 0.75)), lambda x: np.arctanh(0.75 * x)),
    "bitwise_not": unary(topi.bitwise_not, np.invert, INTS),
    "ceil": unary(topi.ceil, np.ceil),
    "celu": unary(lambda x: topi.celu(x, 2.0), lambda x: np.where(x >= 0, x, 2 * np.expm1(x / 2))),
    "cos": unary(topi.cos, np.cos),
    "elu": unary(topi.elu, elu),
    "cosh": unary(topi.cosh, np.cosh),
    "erf": unary(topi.erf, scipy.special.erf),
    "exp": unary(topi.exp, np.exp),
    "floor": unary(topi.floor, np.floor),
    "hard_sigmoid": unary(topi.hard_sigmoid, gate),
    "hard_swish": unary(topi.hard_swish, lambda x: x * gate(x)),
    "isnan": unary(lambda x: topi.isnan(topi.log(x)), lambda x: np.isnan(np.log(x))),
    "leaky_relu": unary(topi.leaky_relu, lambda x: np.where(x >= 0, x, 0.01 * x)),
    "log": unary(topi.log, np.log),
    "logical_not": unary(topi.logical_not, np.logical_not, ("bool",)),
    "mish": unary(topi.mish, lambda x: x * np.tanh(logaddexp(x))),
    "negative": unary(topi.negative, np.negative, SIGNED),
    "reciprocal": unary(topi.reciprocal, np.reciprocal),
    "relu": unary(topi.relu, lambda x: np.maximum(x, 0), NUMBERS),
    "relu6": unary(topi.relu6, lambda x: np.clip(x, 0, 6), NUMBERS),
    "round": unary(lambda x: topi.round(x * 3), lambda x: np.rint(x * 3)),
    "rsqrt": unary(topi.rsqrt, lambda x: x**-0.5),
    "sigmoid": unary(topi.sigmoid, scipy.special.expit),
    "sign": unary(topi.sign, np.sign, SIGNED),
    "sin": unary(topi.sin, np.sin),
    "silu": unary(topi.silu, lambda x: x * scipy.special.expit(x)),
    "softplus": unary(topi.softplus, logaddexp),
    "softsign": unary(topi.softsign, lambda x: x / (1 + np.abs(x))),
    "sqrt": unary(topi.sqrt, np.sqrt),
    "square": unary(topi.square, np.square, NUMBERS),
    "sinh": unary(topi.sinh, np.sinh),
    "tan": unary(topi.tan, np.tan),
    "tanh": unary(topi.tanh, np.tanh),
    "trunc": unary(lambda x: topi.trunc(x * 3), lambda x: np.trunc(x * 3)),
}
BINARY: Final = {
    "add": binary(topi.add, np.add),
    "bitwise_and": binary(topi.bitwise_and, np.bitwise_and, INTS),
    "bitwise_or": binary(topi.bitwise_or, np.bitwise_or, INTS),
    "bitwise_xor": binary(topi.bitwise_xor, np.bitwise_xor, INTS),
    "left_shift": binary(topi.left_shift, np.left_shift, INTS),
    "right_shift": binary(topi.right_shift, np.right_shift, INTS),
    "divide": binary(topi.divide, np.divide, FLOATS),
    "equal": binary(topi.equal, np.equal, ANY),
    "greater": binary(topi.greater, np.greater),
    "greater_equal": binary(topi.greater_equal, np.greater_equal),
    "less": binary(topi.less, np.less),
    "less_equal": binary(topi.less_equal, np.less_equal),
    "logical_and": binary(topi.logical_and, np.logical_and, ("bool",)),
    "logical_or": binary(topi.logical_or, np.logical_or, ("bool",)),
    "logical_xor": binary(topi.logical_xor, np.logical_xor, ("bool",)),
    "maximum": binary(topi.maximum, np.maximum),
    "minimum": binary(topi.minimum, np.minimum),
    "multiply": binary(topi.multiply, np.multiply),
    "not_equal": binary(topi.not_equal, np.not_equal, ANY),
    "power": binary(topi.power, np.power, FLOATS),
    "subtract": binary(topi.subtract, np.subtract),
}


def floor_divide(rng: Draw) -> Case:
    x, divisor = tensor(rng, shape(rng, 0, 3), ("int32", "int64", "int8")), int(rng.integers(1, 9))
    return topi.floor_divide(x, divisor), (x,), lambda x: x // divisor


def mod(rng: Draw) -> Case:
    if rng.integers(2):
        made, tensors, _ = binary(topi.mod, np.mod, SIGNED)(rng)
        return made, tensors, lambda a, b: np.where(b == 0, 0, np.mod(a, b)).astype(a.dtype)
    x, divisor = tensor(rng, shape(rng, 0, 3), ("int32", "int64", "int8")), int(rng.integers(1, 9))
    return topi.mod(x, divisor), (x,), lambda x: x % divisor


def truncating(
    operator: Callable[..., te.Tensor], want: Callable[[Array, Array], Any],
    dtypes: Sequence[str] = ("int8", "int32", "int64"),
) -> Callable[[Draw], Case]:  # fmt: skip
    """Return the case of a division that rounds towards zero, by divisors of both signs."""

    def case(rng: Draw) -> Case:
        x, divisor = tensor(rng, shape(rng, 0, 3), dtypes), int(rng.integers(1, 9))
        divisor = -divisor if rng.integers(2) else divisor
        return operator(x, divisor), (x,), lambda x: want(x, np.array(divisor, x.dtype))

    return case


def quotient(a: Array, b: Array) -> Any:
    return np.trunc(a / b).astype(a.dtype)


def isinf(rng: Draw) -> Case:
    x, (positive, negative) = tensor(rng, shape(rng, 0, 3)), rng.integers(2, size=2).astype(bool)
    big = topi.multiply(topi.multiply(x, 1e30), 1e30) if x.dtype == "float32" else x
    made = topi.isinf(topi.divide(big, 0.0), positive=bool(positive), negative=bool(negative))

    def want(x: Array) -> Any:
        return (x > 0) & positive | (x < 0) & negative

    return made, (x,), want


def cast(rng: Draw) -> Case:
    x, dtype = tensor(rng, shape(rng, 0, 3), ANY), str(rng.choice(("float32", "int64", "bool")))
    return topi.cast(x, dtype), (x,), lambda x: x.astype(dtype)


def clip(rng: Draw) -> Case:
    x = tensor(rng, shape(rng, 0, 3), SIGNED)
    low, high = (-1, 1) if rng.integers(2) else (0, None)
    return topi.clip(x, low, high), (x,), lambda x: np.clip(x, low, high)


def where(rng: Draw) -> Case:
    extents, dtype = shape(rng, 0, 4), (str(rng.choice(ANY)),)
    condition = tensor(rng, narrowed(rng, extents), ("bool",), "C")
    a, b = tensor(rng, extents, dtype, "A"), tensor(rng, narrowed(rng, extents), dtype, "B")
    return topi.where(condition, a, b), (condition, a, b), np.where


def bias_add(rng: Draw) -> Case:
    extents = shape(rng, 1, 4)
    axis = int(rng.integers(len(extents)))
    x = tensor(rng, extents, NUMBERS)
    bias = te.placeholder((extents[axis],), "bias", x.dtype)
    return topi.bias_add(x, bias, axis), (x, bias), lambda x, b: x + along(b, axis, x.ndim)


def gelu(rng: Draw) -> Case:
    x, approximate = tensor(rng, shape(rng, 0, 3)), bool(rng.integers(2))

    def want(x: Array) -> Array:
        if approximate:
            inner = (2 / np.pi) ** 0.5 * (x + 0.044715 * x**3)
            return np.asarray(0.5 * x * (1 + np.tanh(inner)))
        return x * 0.5 * (1 + np.asarray(scipy.special.erf(x / 2**0.5)))

    return topi.gelu(x, approximate=approximate), (x,), want


def along(vector: Array, axis: int, rank: int) -> Array:
    """Return a vector with the axes that make it broadcast along `axis`."""
    return vector.reshape([-1 if n == axis else 1 for n in range(rank)])


def reduction(
    operator: Callable[..., te.Tensor], want: Callable[..., Any], dtypes: Sequence[str] = NUMBERS,
    rank: int = 0,
) -> Callable[[Draw], Case]:  # fmt: skip
    """Return the case of a reduction over one, several or all axes."""

    def case(rng: Draw) -> Case:
        x = tensor(rng, shape(rng, max(rank, 1), 4), dtypes)
        axis = None if rng.integers(4) == 0 else some_axes(rng, len(x.shape))
        keep = bool(rng.integers(2))

        def formula(x: Array) -> Array:
            return np.asarray(want(x, axis=axis, keepdims=keep)).astype(x.dtype)

        return operator(x, axis, keepdims=keep), (x,), formula

    return case


def position(
    operator: Callable[..., te.Tensor], want: Callable[..., Any]
) -> Callable[[Draw], Case]:
    """Return the case of an index of an extreme element, with equal elements."""

    def case(rng: Draw) -> Case:
        x = tensor(rng, shape(rng, 1, 4), ("int8", "float32"))
        axis = None if rng.integers(4) == 0 else int(rng.integers(len(x.shape)))
        keep = bool(rng.integers(2))
        last = bool(rng.integers(2))
        coarse = x if x.dtype != "int8" else topi.floor_divide(x, 3)

        def formula(x: Array) -> Any:
            values = x // 3 if x.dtype.kind == "i" else x
            if not last:
                return want(values, axis=axis, keepdims=keep)
            count = values.size if axis is None else values.shape[axis]
            return count - 1 - want(np.flip(values, axis), axis=axis, keepdims=keep)

        return operator(coarse, axis, keepdims=keep, select_last_index=last), (x,), formula

    return case


def norm(x: Array, axis: Any, keepdims: bool) -> Any:
    return np.sqrt(np.sum(x * x, axis=axis, keepdims=keepdims))


def matmul(rng: Draw) -> Case:
    n, m, k = (int(e) for e in rng.choice((1, 2, 3, 5, 7), 3))
    batch = shape(rng, 0, 2)
    ta, tb = bool(rng.integers(2)), bool(rng.integers(2))
    a = tensor(rng, (*narrowed(rng, batch), *((k, n) if ta else (n, k))), NUMBERS, "A")
    b = te.placeholder((*batch, *((m, k) if tb else (k, m))), "B", a.dtype)

    def want(a: Array, b: Array) -> Array:
        a, b = (v.astype("i4") if v.dtype in ("i1", "u1") else v for v in (a, b))
        a, b = a.swapaxes(-1, -2) if ta else a, b.swapaxes(-1, -2) if tb else b
        return np.asarray(np.matmul(a, b))

    return topi.matmul(a, b, transpose_a=ta, transpose_b=tb), (a, b), want


def dense(rng: Draw) -> Case:
    *lead, k = shape(rng, 1, 4)
    units = int(rng.integers(1, 6))
    x = tensor(rng, (*lead, k))
    w = te.placeholder((units, k), "W", x.dtype)
    if rng.integers(2):
        return topi.dense(x, w), (x, w), lambda x, w: x @ w.T
    bias = te.placeholder((units,), "bias", x.dtype)
    return topi.dense(x, w, bias), (x, w, bias), lambda x, w, b: x @ w.T + b
