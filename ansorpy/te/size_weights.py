"""Weights of the sizes of a dim: which sizes calls will have, and few sizes that stand for them.

`1..8: 0.9 + 512: 0.1` says that 9 of 10 calls have a size from 1 to 8, each as often, and the
others 512. Weights are relative; ranges may overlap, and their weights then add up.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from math import inf, log
from typing import Final

from ansorpy.errors import SpecError, quoted

MOST_PARTS: Final = 64  # weighted sizes and ranges of one dim
MOST_WEIGHT: Final = 1e12  # a limit, so that sums of weights are finite
GRID: Final = 64  # sizes that stand for the ranges of a dim before neighbours are merged

Part = tuple[int, int, float]  # least size, largest size, weight of both and all between
Weights = Mapping[int | str, float]  # by size, or by range as in "1..8"
Atom = tuple[int, float]  # size, weight


def parts_of(weights: Weights) -> tuple[Part, ...]:
    """Return weights by size or range as parts.

    Raises:
        SpecError: a key is neither a size nor a range.
    """
    return tuple((*_ends(sizes), weight) for sizes, weight in weights.items())


def _ends(sizes: int | str) -> tuple[int, int]:
    low, dots, high = str(sizes).partition("..")
    try:
        return int(low), int(high if dots else low)
    except ValueError:
        raise SpecError(
            f"cannot weight {quoted(sizes)}; expected a size, or a range such as '1..8'"
        ) from None


def sizes_text(low: int, high: int) -> str:
    """Return a size or a range as texts write it."""
    return str(low) if low == high else f"{low}..{high}"


def parts_text(parts: Sequence[Part]) -> str:
    """Return parts as texts write them."""
    return " + ".join(f"{sizes_text(low, high)}: {weight:g}" for low, high, weight in parts)


def checked(parts: Iterable[Sequence[float]], low: int, high: int, step: int) -> tuple[Part, ...]:
    """Return the parts of a distribution over the multiples of a step from `low` to `high`.

    Raises:
        SpecError: a part has other sizes, sizes are there twice, or a weight is no positive number.
    """
    found: list[Part] = []
    for least, most, weight in parts:
        sizes = f"{quoted(least)}..{quoted(most)}" if least != most else quoted(least)
        if not all(type(end) is int and low <= end <= high for end in (least, most)):
            raise SpecError(f"cannot weight {sizes}; expected sizes from {low} to {high}")
        if least % step or most % step or least > most:
            raise SpecError(
                f"cannot weight {sizes}; expected multiples of {step}, the smaller one first"
            )
        if type(weight) not in (int, float) or not 0 < weight < MOST_WEIGHT:
            raise SpecError(f"cannot weight {sizes} by {quoted(weight)}; expected a number above 0")
        found.append((int(least), int(most), float(weight)))
    if len(found) > MOST_PARTS:
        raise SpecError(f"cannot take {len(found)} weights; expected at most {MOST_PARTS}")
    places = [part[:2] for part in found]
    for place in places:
        if places.count(place) > 1:
            raise SpecError(f"cannot weight {sizes_text(*place)} twice; expected one weight")
    return tuple(sorted(found))


def shares(parts: Sequence[Part]) -> list[Part]:
    """Return parts with weights that add up to 1, for keys: 9 to 1 is 0.9 to 0.1."""
    total = sum(weight for _, _, weight in parts)
    return [(low, high, round(weight / total, 6)) for low, high, weight in parts]


def within(parts: Sequence[Part], low: int, high: int, step: int) -> tuple[Part, ...]:
    """Return the distribution of the sizes from `low` to `high`, which are multiples of the step.

    Its weights are shares of the weights of all sizes; () if they have none.
    """
    found = dict[tuple[int, int], float]()
    for first, last, weight in parts:
        ends = max(first, low), min(last, high)
        if ends[0] <= ends[1]:
            share = ((ends[1] - ends[0]) // step + 1) / ((last - first) // step + 1)
            found[ends] = found.get(ends, 0.0) + weight * share
    return tuple((*ends, weight) for ends, weight in sorted(found.items()))


def atoms(parts: Sequence[Part], step: int) -> list[Atom]:
    """Return sizes in rising order, with weights that add up to 1; of long ranges some sizes."""
    total, found = sum(weight for _, _, weight in parts), dict[int, float]()
    for low, high, weight in parts:
        count = (high - low) // step + 1
        grid = min(count, max(1, GRID // len(parts)))
        for k in range(grid):
            size = low + (2 * k + 1) * count // (2 * grid) * step  # the middle of the k-th share
            found[size] = found.get(size, 0.0) + weight / total / grid
    return sorted(found.items())


@dataclass(frozen=True, slots=True)
class Representative:
    """Sizes of the dims of a call, and the weight of all calls that they stand for."""

    sizes: tuple[int, ...]
    weight: float


def represented(dims: Sequence[Sequence[Atom]], most: int) -> list[Representative]:
    """Return at most `most` sizes that represent distributions, which grow together.

    Neighbours are merged that differ least, by the logarithm of their sizes and by weight (Ward,
    1963): to a kernel, 1 and 2 rows are as different as 256 and 512. A group is represented by its
    member closest to the mean.
    """
    groups = [[one] for one in _together(dims)]
    while len(groups) > most:
        costs = [_distance(*pair) for pair in pairwise(groups)]
        at = costs.index(min(costs))
        groups[at : at + 2] = [groups[at] + groups[at + 1]]
    return [Representative(_closest(group).sizes, _weight(group)) for group in groups]


def _together(dims: Sequence[Sequence[Atom]]) -> list[Representative]:
    """Return the sizes of all dims at equal quantiles."""
    ends = [[round(e, 9) for e in accumulate(weight for _, weight in of_dim)] for of_dim in dims]
    found, begin = list[Representative](), 0.0
    for end in sorted({end for of_dim in ends for end in of_dim}):
        places = [min(bisect_right(of_dim, begin), len(of_dim) - 1) for of_dim in ends]
        sizes = tuple(of_dim[place][0] for of_dim, place in zip(dims, places, strict=True))
        found.append(Representative(sizes, end - begin))
        begin = end
    return found


def _weight(group: Sequence[Representative]) -> float:
    return sum(one.weight for one in group)


def _mean(group: Sequence[Representative], of: int, scale: bool) -> float:
    """Return the weighted mean of the sizes of a dim, or of their logarithms."""
    total = sum(one.weight * (log(one.sizes[of]) if scale else one.sizes[of]) for one in group)
    return total / _weight(group)


def _distance(a: Sequence[Representative], b: Sequence[Representative]) -> float:
    """Return the rise of the weighted variance if two groups are merged."""
    dims = range(len(a[0].sizes))
    apart = sum((_mean(a, of, True) - _mean(b, of, True)) ** 2 for of in dims)
    return apart * _weight(a) * _weight(b) / (_weight(a) + _weight(b))


def _closest(group: Sequence[Representative]) -> Representative:
    means = [_mean(group, of, False) for of in range(len(group[0].sizes))]
    best, least = group[0], inf
    for one in group:
        far = sum(abs(log(size / mean)) for size, mean in zip(one.sizes, means, strict=True))
        if far < least:
            best, least = one, far
    return best
