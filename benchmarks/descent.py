"""Coordinate descent over positive numbers: constants of an analytic model that fit times."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

ROUNDS: Final = 20


def descended(
    start: Mapping[str, float],
    loss: Callable[[Mapping[str, float]], float],
    factors: Sequence[float],
    least_gain: float = 0.0,
) -> dict[str, float]:
    """Return numbers of smaller loss than `start`, or `start` if no step improves it.

    A step multiplies one number by one factor. It ends after ROUNDS passes over all numbers, or
    after a pass that gains `least_gain` or less.
    """
    best, least = dict(start), loss(start)
    for _ in range(ROUNDS):
        before = least
        for name in start:
            for factor in factors:
                tried = {**best, name: best[name] * factor}
                if (found := loss(tried)) < least:
                    best, least = tried, found
        if before - least <= least_gain:
            break
    return best
