"""Functions of NumPy names, each with two signatures."""

from collections.abc import Callable
from typing import Any

import numpy as np

Function = Callable[..., Any]
Shape = tuple[int, ...]
FUNCTIONS: dict[str, tuple[Function, tuple[tuple[Shape, ...], ...]]] = {}


def entered(*signatures: tuple[Shape, ...]) -> Callable[[Function], Function]:
    def enter(function: Function) -> Function:
        FUNCTIONS[function.__name__] = function, signatures
        return function

    return enter


@entered(((4, 8), (8,), (8,)), ((2, 3, 5), (5,), (5,)))
def layer_norm(x: Any, g: Any, b: Any) -> Any:
    centred = x - x.mean(axis=-1, keepdims=True)
    variance = np.mean(centred**2, axis=-1, keepdims=True)
    return centred / np.sqrt(variance + 1e-5) * g + b


@entered(((4, 8),), ((2, 3, 5),))
def softmax(x: Any) -> Any:
    e = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


@entered(((4, 8), (8, 6), (6,), (6, 3)), ((1, 5), (5, 7), (7,), (7, 2)))
def mlp(x: Any, w1: Any, b1: Any, w2: Any) -> Any:
    return np.maximum(x @ w1 + b1, 0) @ w2


@entered(((2, 5, 4), (2, 6, 4), (2, 6, 3)), ((5, 4), (6, 4), (6, 3)))
def attention(q: Any, k: Any, v: Any) -> Any:
    s = q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5
    return softmax(s) @ v


@entered(((6,),), ((3, 4),))
def gelu(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(0.7978845608 * (x + 0.044715 * x**3)))


@entered(((6,),), ((3, 4),))
def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


@entered(((4, 6), (6,)), ((2, 3, 4), (4,)))
def rms_norm(x: Any, g: Any) -> Any:
    return x * (1 / np.sqrt(np.square(x).mean(-1, keepdims=True) + 1e-6)) * g


@entered(((4, 6),), ((2, 3, 4),))
def log_softmax(x: Any) -> Any:
    shifted = x - x.max(-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), -1, keepdims=True))


@entered(((4, 6),), ((3, 4),))
def masked(x: Any) -> Any:
    return np.where((x > 0) & ~(x > 1) | (x < -1), x, -x)


@entered(((4, 6),), ((2, 8),))
def clipped(x: Any) -> Any:
    return np.clip(x, -0.5, 0.5) + x.clip(0, None) + np.round(x * 4)


@entered(((4, 6),), ((2, 3, 4),))
def moments(x: Any) -> Any:
    return x.mean(), x.var(axis=0), np.std(x, axis=-1, ddof=1)


@entered(((4, 6),), ((2, 3, 4),))
def extremes(x: Any) -> Any:
    return {"max": x.max(0), "min": x.min(), "at": x.argmax(axis=-1), "low": np.argmin(x)}


@entered(((4, 6),), ((2, 8),))
def reshaped(x: Any) -> Any:
    return x.reshape(-1, 2).T.ravel(), np.expand_dims(x, (0, 2)).squeeze(0), x.flatten()


@entered(((4, 6, 2),), ((2, 8, 3),))
def sliced(x: Any) -> Any:
    return x[1], x[..., -1], x[:, ::2], x[::-1, 1:3, None], x[0, -1, 1:]


@entered(((4, 6, 2),), ((2, 8, 3),))
def permuted(x: Any) -> Any:
    return x.transpose(2, 0, 1) + 1, np.moveaxis(x, 0, -1) * 2, np.flip(x, 1), np.roll(x, 2, axis=1)


@entered(((4, 6), (4, 2)), ((2, 3), (2, 5)))
def joined(a: Any, b: Any) -> Any:
    return np.concatenate([a, b], axis=1), np.stack([a, a * 2], axis=-1), np.vstack([a, -a])


@entered(((4, 6),), ((2, 4),))
def divided(x: Any) -> Any:
    first, second = np.split(x, 2, axis=1)
    return [first * second, *np.array_split(x, 3, axis=1)]


@entered(((4, 6),), ((2, 4),))
def repeated(x: Any) -> Any:
    return np.tile(x, (2, 1)), np.repeat(x, 3, axis=0), np.broadcast_to(x, (3, *x.shape))


@entered(((4, 6),), ((3, 4),))
def padded(x: Any) -> Any:
    return np.pad(x, ((1, 2), (0, 1))), np.pad(x, 1, mode="edge"), np.pad(x, 1, mode="reflect")


@entered(((4, 6), (5, 6)), ((2, 3), (4, 3)))
def products(a: Any, b: Any) -> Any:
    return np.einsum("ij,kj->ik", a, b), np.inner(a, b), np.tensordot(a, b, ([1], [1]))


@entered(((6,), (6,)), ((4,), (4,)))
def vectors(a: Any, b: Any) -> Any:
    return np.dot(a, b), np.outer(a, b), a @ b


@entered(((4, 6),), ((3, 4),))
def waves(x: Any) -> Any:
    return np.sin(x) * np.cos(x) + np.arctan(x) + np.tanh(x)


@entered(((4, 6),), ((3, 4),))
def logarithms(x: Any) -> Any:
    y = np.abs(x) + 0.5
    return np.log(y) + np.log2(y) + np.log10(y) + np.log1p(y), np.expm1(x), np.exp2(x)


@entered(((4, 6),), ((3, 4),))
def powers(x: Any) -> Any:
    y = np.abs(x) + 0.5
    return y**2 + y**0.5 + 1 / y + np.reciprocal(y) + np.power(y, 1.5) + y**3


@entered(((4, 6),), ((3, 4),))
def steps(x: Any) -> Any:
    return np.floor(x) + np.ceil(x) + np.rint(x) + np.trunc(x) + np.sign(x)


@entered(((4, 6),), ((3, 4),))
def tests_of_elements(x: Any) -> Any:
    return np.any(x > 0, axis=0), np.all(x < 9), np.isnan(x), np.isfinite(x), np.logical_not(x)


@entered(((4, 6),), ((3, 4),))
def sums(x: Any) -> Any:
    return np.cumsum(x, axis=1), np.diff(x, axis=0), np.linalg.norm(x, axis=-1), np.prod(x, axis=0)


@entered(((5, 5),), ((3, 4),))
def triangles(x: Any) -> Any:
    return np.tril(x), np.triu(x, 1), x * np.eye(*x.shape, dtype=np.float32)


@entered(((4, 6),), ((3, 6),))
def gathered(x: Any) -> Any:
    return x[[2, 0, -1]], np.take(x, np.array([1, 5, 5]), axis=1), x[:, np.array([0, 2])]


@entered(((4, 6),), ((3, 4),))
def casts(x: Any) -> Any:
    whole = (x * 8).astype(np.int32)
    return whole + 1, whole.sum(), (whole % 3) + (whole // 3), whole / 2, (x > 0).sum(axis=1)


@entered(((4, 6), (6,)), ((3, 4), (1,)))
def filled(x: Any, y: Any) -> Any:
    return np.zeros_like(x) + y, np.full_like(x, 2) * x, np.ones_like(y) - y


@entered(((4, 6),), ((2, 3),))
def nested(x: Any) -> Any:
    rows = [row * n for n, row in enumerate(x)]
    return {"rows": tuple(rows), "number": 3, "total": sum(rows)}
