"""Random expressions that carry a rough bound of their size, so that values stay tame."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ansorpy import te
from ansorpy.expr.dtypes import FLOATS

LARGE: Final = 1e3  # sizes above this are squashed before they are multiplied


@dataclass(frozen=True, eq=False, slots=True)
class Term:
    """A scalar and the size that its values hardly exceed."""

    scalar: te.Scalar
    size: float


_Make = tuple[Callable[[te.Scalar], te.Scalar], Callable[[float], float]]

FLOAT_FUNCTIONS: Final[tuple[_Make, ...]] = (
    (te.tanh, lambda size: 1.0),
    (lambda x: te.exp(te.tanh(x)), lambda size: 3.0),
    (lambda x: te.log(abs(x) + 1.0), lambda size: 1.0 + np.log1p(size)),
    (lambda x: te.sqrt(abs(x) + 0.5), lambda size: 1.0 + size**0.5),
    (lambda x: te.rsqrt(abs(x) + 0.5), lambda size: 1.5),
    (te.sigmoid, lambda size: 1.0),
    (te.erf, lambda size: 1.0),
    (te.floor, lambda size: size + 1),
    (te.ceil, lambda size: size + 1),
    (te.round, lambda size: size + 1),
    (te.trunc, lambda size: size),
    (te.sin, lambda size: 1.0),
    (te.cos, lambda size: 1.0),
    (te.atan, lambda size: 1.6),
    (lambda x: te.log1p(abs(x)), lambda size: float(np.log1p(size))),
    (lambda x: te.pow(te.sigmoid(x) + 0.5, 1.5), lambda size: 2.0),
    (lambda x: -abs(x), lambda size: size),
    (lambda x: te.fmod(x, 1.5), lambda size: 1.5),
    (lambda x: x * 0.75 - 0.25, lambda size: size + 1),
)
INT_FUNCTIONS: Final[tuple[_Make, ...]] = (
    (lambda x: -x, lambda size: size),
    (abs, lambda size: size),
    (lambda x: x * 3 + 1, lambda size: 3 * size + 1),
    (lambda x: x // 3, lambda size: size),
    (lambda x: (x % 7 << 1 | 1) ^ (~x >> 2 & 63), lambda size: 63.0),
    (lambda x: (~(x | 2) >> 1 & 13 ^ 5) << 1, lambda size: 30.0),
)
COMBINERS: Final[Mapping[str, Callable[..., te.Reduction]]] = {
    "sum": te.sum, "max": te.max, "min": te.min, "prod": te.prod,
}  # fmt: skip
ARGS: Final[Mapping[str, Callable[..., te.ArgReduction]]] = {
    "argmax": te.argmax, "argmin": te.argmin,
}  # fmt: skip


def as_dtype(term: Term, dtype: str) -> Term:
    """Return the value as `dtype`, clipped or reduced first where it may not fit."""
    source = term.scalar.dtype
    if source == dtype:
        return term
    if source in FLOATS and dtype not in FLOATS:
        kept = te.maximum(te.minimum(term.scalar, 100.0), -100.0)
        return Term(te.cast(kept, dtype), min(term.size, 100.0))
    if source not in FLOATS and dtype in FLOATS and term.size > LARGE:
        return Term(te.cast(term.scalar % 17, dtype), 17.0)
    return Term(te.cast(term.scalar, dtype), term.size)


def bent(rng: np.random.Generator, term: Term) -> Term:
    """Apply a function, or none."""
    table = FLOAT_FUNCTIONS if term.scalar.dtype in FLOATS else INT_FUNCTIONS
    if rng.random() < 0.4:
        return term
    make, size = table[int(rng.integers(len(table)))]
    return Term(make(term.scalar), size(term.size))


def small(term: Term) -> Term:
    """Squash a large term; integers may wrap."""
    if term.size <= LARGE:
        return term
    if term.scalar.dtype in FLOATS:
        return Term(te.tanh(term.scalar), 1.0)
    return Term(term.scalar % 101, 101.0)


def mixed(rng: np.random.Generator, a: Term, b: Term) -> Term:
    """Return a binary operation, or a select on a comparison."""
    a, b = small(a), small(b)
    x, y, largest = a.scalar, b.scalar, max(a.size, b.size)
    choice = int(rng.integers(8))
    if choice == 0:
        return Term(te.maximum(x, y), largest)
    if choice == 1:
        return Term(te.minimum(x, y), largest)
    if choice == 2:
        cond = x > y if rng.random() < 0.5 else te.any(x <= y, ~(y < 1))
        return Term(te.select(cond, x, y + 1), largest + 1)
    if choice == 3 and x.dtype in FLOATS:
        return Term(x / (abs(y) + 1.0), a.size)
    if choice <= 5:
        return Term(x * y, a.size * b.size)
    return Term(x + y if choice == 6 else x - y, a.size + b.size)
