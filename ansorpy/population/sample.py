"""Draw rows: the initial population, and fresh blood for later ones."""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Plan
from ansorpy.population.factor import INNERMOST_LIMIT, divisors, factorizations
from ansorpy.population.groups import Group, groups, value_columns
from ansorpy.population.legal import fit, legal

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_ROUNDS: Final = 12  # of drawing again what was illegal
_HOPELESS: Final = 3  # the round after which a plan without a legal row is given up
_SCARCE: Final = 0.2  # share of legal rows below which they are made, not found
_HALVINGS: Final = 8
_TABLE: Final = 65536  # extents up to here have their divisors in a table


def sample(plan: Plan, n: int, rng: np.random.Generator, exact: bool = False) -> IntArray:
    """Return legal rows of `plan`, int64 of shape (n, sizes), column order as plan.sizes.

    exact   every axis uniformly among its ordered factorisations, innermost at most 64; an
            axis that its lanes do not divide is rounded up to whole vectors first
    free    any inner sizes, log-uniform, leaning towards divisors, powers of two and even
            cuts (those leave small tails)

    Rows that break a condition of the plan are drawn again; where few are legal, free rows are
    halved into legality instead. After 12 rounds the missing ones repeat legal rows; where
    four rounds found none, the plan is taken to have none: shape (0, sizes).
    """
    kept: list[IntArray] = []
    missing, found, drawn, asked = n, 0, 0, n
    for tries in range(_ROUNDS):
        rows = draw(plan, asked, rng, exact)
        good = legal(plan, rows)
        drawn, found = drawn + asked, found + int(good.sum())
        kept.append(rows[good])
        if not exact and found < _SCARCE * drawn:
            kept.append(_halved(plan, rows[~good][:missing], rng))
        missing = n - sum(map(len, kept))
        if missing <= 0 or (missing == n and tries >= _HOPELESS):
            break
        # What was legal so far tells how many to draw for those that are missing.
        asked = min(drawn * missing // max(found, 1) + 64, 8 * n + 1024)
    rows = np.concatenate(kept)[:n]
    if 0 < len(rows) < n:
        rows = np.concatenate([rows, rows[rng.integers(0, len(rows), n - len(rows))]])
    return rows


def _halved(plan: Plan, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Return those of the illegal `rows` that halving random sizes makes legal.

    Limits of registers and scratch memory are kept by smaller tiles.
    """
    tiles = [i for i, size in enumerate(plan.sizes) if size.role == "tile" and size.extent > 1]
    kept = [rows[:0]]
    for _ in range(_HALVINGS):
        if not tiles or not len(rows):
            break
        at = np.arange(len(rows))
        for _ in range(2):
            column = np.array(tiles, np.int64)[rng.integers(0, len(tiles), len(rows))]
            rows[at, column] //= 2
        rows = fit(plan, rows)
        good = legal(plan, rows)
        kept.append(rows[good])
        rows = rows[~good]
    return np.concatenate(kept)


def draw(plan: Plan, n: int, rng: np.random.Generator, exact: bool = False) -> IntArray:
    """Return rows whose ranges are right; the conditions of the plan are not asked."""
    columns = np.ones((len(plan.sizes), n), np.int64)
    for group in groups(plan):
        draw_group(group, columns, rng, exact)
    for i in value_columns(plan):
        values = np.array(plan.sizes[i].values, np.int64)
        columns[i] = values[rng.integers(0, len(values), n)]
    return np.ascontiguousarray(columns.T)


def draw_group(
    group: Group, columns: IntArray, rng: np.random.Generator, exact: bool = False
) -> None:
    """Overwrite the columns of one axis (`columns` has shape (sizes, n))."""
    n = columns.shape[1]
    if exact:
        ways = _exact_ways(group)
        lengths = ways[rng.integers(0, len(ways), n)]
        for position, i in enumerate(group.columns):
            columns[i] = lengths[:, position]
        columns[group.columns[-1]] *= group.multiple_of
        return
    columns[list(group.columns)] = 1
    columns[group.columns[-1]] = group.multiple_of
    if group.units == 1:
        return
    columns[group.columns[-1]] *= log_uniform(np.full(n, group.units, np.int64), group.units, rng)
    room = -(-group.extent // columns[group.columns[-1]])
    for i in reversed(group.columns[:-1]):
        columns[i] = log_uniform(room, group.extent, rng)
        room = room // columns[i]


def log_uniform(room: IntArray, extent: int, rng: np.random.Generator) -> IntArray:
    """Draw a size in [1, room] per row, shape as `room`; no room is above `extent`.

    A third become the largest divisor of `extent` that is not larger, a third the power of two
    below; all others are cut evenly: the smallest size with as many blocks.
    """
    # In float32 as far as the numbers are small enough to be exact: it is twice as fast.
    kind = np.float32 if extent < 2**20 else np.float64
    left = room.astype(kind)
    chance = rng.random(len(room), kind)
    size = np.minimum(np.maximum(np.floor(np.exp(chance * np.log(left + 1))), 1), left)
    even = np.ceil(left / np.ceil(left / size))
    power = np.exp2(np.floor(np.log2(size)))
    known = divisors(extent)
    if extent <= _TABLE:
        divisor = _divisors_below(extent)[size.astype(np.int64)]
    else:
        divisor = known[np.searchsorted(known, size, side="right") - 1]
    style = rng.integers(0, 3, len(room), np.int8)
    drawn = np.where(style == 1, power, even)
    # A prime has no useful divisor: there the even cut stands in.
    np.copyto(drawn, divisor, where=(style == 0) & (2 * divisor > size), casting="same_kind")
    return np.asarray(drawn, np.int64)


@lru_cache(maxsize=256)
def _divisors_below(extent: int) -> npt.NDArray[np.float32]:
    """Return the largest divisor of `extent` that is at most i, for i = 0 ... extent."""
    known = divisors(extent)
    positions = np.searchsorted(known, np.arange(extent + 1), side="right") - 1
    return known[np.maximum(positions, 0)].astype(np.float32)


def _exact_ways(group: Group) -> IntArray:
    innermost = max(1, INNERMOST_LIMIT // group.multiple_of)
    return factorizations(group.units, len(group.columns), innermost)
