"""Divisors and ordered factorisations: the space of tiles that divide exactly."""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

MOST_NUMBER: Final = 2**42  # above all extents of fused loops; 2^21 divisions take half a second
INNERMOST_LIMIT: Final = 64  # reference: Ansor as released, "max innermost split factor"


@lru_cache(maxsize=4096)
def prime_powers(number: int) -> tuple[tuple[int, int], ...]:
    """Return (prime, exponent) pairs of `number`, smallest prime first.

    Raises:
        ValueError: the number is not in 1 to 2^42.
    """
    if not 1 <= number <= MOST_NUMBER:
        raise ValueError(f"cannot factor {number}; expected 1 to {MOST_NUMBER}")
    powers: list[tuple[int, int]] = []
    prime = 2
    while prime * prime <= number:
        exponent = 0
        while number % prime == 0:
            number //= prime
            exponent += 1
        if exponent:
            powers.append((prime, exponent))
        prime += 1
    if number > 1:
        powers.append((number, 1))
    return tuple(powers)


@lru_cache(maxsize=4096)
def divisors(number: int) -> IntArray:
    """Return the divisors of `number`, ascending; read-only."""
    values = np.ones(1, np.int64)
    for prime, exponent in prime_powers(number):
        powers = prime ** np.arange(exponent + 1, dtype=np.int64)
        values = np.multiply.outer(values, powers).ravel()
    values = np.sort(values)
    values.setflags(write=False)
    return values


def _compositions(total: int, bins: int) -> IntArray:
    """Return every way to write `total` as `bins` ordered parts >= 0, shape (ways, bins)."""
    if bins == 1:
        return np.array([[total]], np.int64)
    blocks = []
    for first in range(total + 1):
        rest = _compositions(total - first, bins - 1)
        blocks.append(np.hstack([np.full((len(rest), 1), first, np.int64), rest]))
    return np.vstack(blocks)


@lru_cache(maxsize=256)
def factorizations(extent: int, parts: int, innermost: int = INNERMOST_LIMIT) -> IntArray:
    """Return all inner lengths of an exact split of `extent`, shape (ways, parts); read-only.

    A row holds the `parts` inner lengths, outermost first; their product divides `extent`, the
    quotient is the outer length, and the last is at most `innermost`. One row per way: 210 for
    extent 512 with 3 parts.
    """
    lengths = np.ones((1, parts), np.int64)
    for prime, exponent in prime_powers(extent):
        shares = _compositions(exponent, parts + 1)[:, 1:]
        powers = np.power(np.int64(prime), shares)
        lengths = (lengths[:, None, :] * powers[None, :, :]).reshape(-1, parts)
        lengths = lengths[lengths[:, -1] <= innermost]
    lengths.setflags(write=False)
    return lengths
