"""Draw rows: the initial population, and fresh blood for later ones."""

from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Plan
from ansorpy.population.factor import INNERMOST_LIMIT, divisors, factorizations
from ansorpy.population.groups import Group, groups, value_columns
from ansorpy.population.legal import legal

IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float64]

_ROUNDS: Final = 16  # of drawing again what was illegal


def sample(plan: Plan, n: int, rng: np.random.Generator, exact: bool = False) -> IntArray:
    """Return legal rows of `plan`, int64 of shape (n, sizes), column order as plan.sizes.

    exact   every axis uniformly among its ordered factorisations, innermost at most 64; an
            axis that its lanes do not divide is rounded up to whole vectors first
    free    any inner sizes, log-uniform, leaning towards divisors, powers of two and even
            cuts (those leave small tails)

    Rows that break a condition of the plan are drawn again. After 16 rounds the missing ones
    repeat legal rows; a plan in which no legal row was found answers shape (0, sizes).
    """
    kept: list[IntArray] = []
    missing, asked, found = n, n, 0
    for _ in range(_ROUNDS):
        rows = draw(plan, asked, rng, exact)
        rows = rows[legal(plan, rows)][:missing]
        kept.append(rows)
        found += len(rows)
        missing = n - found
        if missing <= 0:
            break
        # What was legal so far tells how many to draw for those that are missing.
        asked = min(max(4 * missing, 64), max(8 * n, 1024))
    rows = np.concatenate(kept)
    if missing > 0 and found:
        rows = np.concatenate([rows, rows[rng.integers(0, found, missing)]])
    return rows


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
    columns[group.columns[-1]] = group.multiple_of * log_uniform(
        np.full(n, group.units, np.int64), group.units, rng
    )
    covered = columns[group.columns[-1]]
    for i in reversed(group.columns[:-1]):
        room = -(-group.extent // covered)
        columns[i] = log_uniform(room, group.extent, rng)
        covered = covered * columns[i]


def log_uniform(room: IntArray, extent: int, rng: np.random.Generator) -> IntArray:
    """Draw a size in [1, room] per row, shape as `room`.

    A third become the largest divisor of `extent` that is not larger, a third the power of two
    below; all others are cut evenly: the smallest size with as many blocks.
    """
    size = np.exp(rng.random(len(room)) * np.log(room + 1.0)).astype(np.int64)
    size = np.clip(size, 1, room)
    style = rng.integers(0, 3, len(room))
    known = divisors(extent)
    divisor = known[np.searchsorted(known, size, side="right") - 1]
    power = np.exp2(np.floor(np.log2(size))).astype(np.int64)
    blocks = -(-room // size)
    even = -(-room // blocks)
    # A prime has no useful divisor: there the even cut stands in.
    divisor = np.where(2 * divisor > size, divisor, even)
    drawn: IntArray = np.where(style == 0, divisor, np.where(style == 1, power, even))
    return drawn


def _exact_ways(group: Group) -> IntArray:
    innermost = max(1, INNERMOST_LIMIT // group.multiple_of)
    return factorizations(group.units, len(group.columns), innermost)
