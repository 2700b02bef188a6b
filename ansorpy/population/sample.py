"""Random rows of a plan: the initial population, and random rows of later iterations."""

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Plan
from ansorpy.population.factor import INNERMOST_LIMIT, divisors, factorizations
from ansorpy.population.groups import Group, groups, value_columns
from ansorpy.population.legal import fit, legal
from ansorpy.population.matrices import prefer_matrices
from ansorpy.population.powers import prefer_powers

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_ROUNDS: Final = 12  # draws of rows in place of illegal ones
_HOPELESS: Final = 3  # draws after which a plan without a legal row is given up
_SCARCE: Final = 0.2  # share of legal rows below which illegal rows are repaired by halving
_HALVINGS: Final = 8  # repairs of a row, each of two random tile sizes
_TABLE: Final = 65536  # largest extent whose divisors are looked up in a table


def sample(plan: Plan, n: int, rng: np.random.Generator, exact: bool = False) -> IntArray:
    """Return legal rows of `plan`, int64 of shape (n, sizes), column order as plan.sizes.

    exact   every axis uniformly among its ordered factorisations, innermost size at most 64; an
            axis that its lanes do not divide is rounded up to whole vectors first
    free    any inner sizes, log-uniform, with a preference for divisors, powers of two and even
            cuts, all of which leave small tails

    Rows that break a condition of the plan are drawn again; if few rows are legal, tile sizes of
    free rows are halved until they are. After 12 draws, legal rows are repeated to make up the
    number; if four draws found no legal row, the plan is taken to have none: shape (0, sizes).
    """
    kept: list[IntArray] = []
    missing, valid, drawn, asked = n, 0, 0, n
    for tries in range(_ROUNDS):
        rows = draw(plan, asked, rng, exact)
        good = legal(plan, rows)
        drawn, valid = drawn + asked, valid + int(good.sum())
        kept.append(rows[good])
        if not exact and valid < _SCARCE * drawn:
            kept.append(_halved(plan, rows[~good][:missing], rng))
        missing = n - sum(map(len, kept))
        if missing <= 0 or (missing == n and tries >= _HOPELESS):
            break
        # The share of legal rows so far tells how many to draw for the missing ones.
        asked = min(drawn * missing // max(valid, 1) + 64, 8 * n + 1024)
    rows = np.concatenate(kept)[:n]
    if 0 < len(rows) < n:
        rows = np.concatenate([rows, rows[rng.integers(0, len(rows), n - len(rows))]])
    return rows


def _halved(plan: Plan, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the illegal `rows` that become legal if random tile sizes are halved.

    Smaller tiles keep the limits of registers and scratch memory.
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
    """Return rows within range; the conditions of the plan are not evaluated."""
    columns = np.ones((len(plan.sizes), n), np.int64)
    for group in groups(plan):
        draw_group(group, columns, rng, exact)
    for i in value_columns(plan):
        values = np.array(plan.sizes[i].values, np.int64)
        columns[i] = values[rng.integers(0, len(values), n)]
    if not exact:
        prefer_powers(plan, columns, rng)
        prefer_matrices(plan, columns, rng)
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
    """Draw a size in [1, room] per row, in the shape of `room`; no room is above `extent`.

    A third of the sizes is rounded down to a divisor of `extent`, a third to a power of two, and
    a third to the smallest size that cuts the room into equally many blocks (an even cut).
    """
    # float32 is twice as fast; it is used if it represents all numbers exactly.
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
    # A divisor below half of the size is no use (a prime has none): keep the even cut.
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
