"""Mutation of every row of a population: tile sizes, unroll budgets, vector counts, row blocks."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Plan
from ansorpy.population.factor import INNERMOST_LIMIT, divisors
from ansorpy.population.groups import Group, groups
from ansorpy.population.legal import fit, legal
from ansorpy.population.sample import draw_group

IntArray = npt.NDArray[np.int64]

# Neighbours drawn per row in each pass; later passes treat the rows without a legal neighbour and
# draw several at once, because few passes over large matrices are the fastest.
_TRIES: Final = (1, 3, 6)


@dataclass(frozen=True, slots=True)
class Weights:
    """Relative frequency of each kind of mutation; a kind without a column in the plan has none.

    `tile` and `unroll` are released Ansor's (0.90, 0.04); `vector` and `rows` are ours.
    Ansor's other two mutations, of compute location (0.05) and parallel granularity (0.01), move
    a row to another plan: see ansorpy.search.evolve.
    """

    tile: float = 0.90
    unroll: float = 0.04
    vector: float = 0.04
    rows: float = 0.04

    @property
    def total(self) -> float:
        """The sum of all weights."""
        return self.tile + self.unroll + self.vector + self.rows


def mutate(
    plan: Plan,
    rows: IntArray,
    rng: np.random.Generator,
    exact: bool = False,
    weights: Weights | None = None,
) -> IntArray:
    """Return one legal neighbour per row, in the shape of `rows`; deterministic by `rng`.

    A mutation that changes nothing or breaks a condition is drawn again; after ten draws the row
    stays as it is. `rows` must be legal.
    """
    children = rows.copy()
    steps = _steps(plan, exact, weights or Weights())
    if not steps or not len(rows):
        return children
    share = np.cumsum([weight for weight, _ in steps])
    todo = np.arange(len(rows))
    for tries in _TRIES:
        parent = np.repeat(todo, tries)
        kind = np.searchsorted(share, rng.random(len(parent)) * share[-1], side="right")
        trial = rows[parent]
        for which, (_, step) in enumerate(steps):
            mine = np.flatnonzero(kind == which)
            if len(mine):
                trial[mine] = step(plan, trial[mine], rng)
        trial = trial if exact else fit(plan, trial)
        good = (trial != rows[parent]).any(axis=1) & legal(plan, trial)
        children[parent[good]] = trial[good]
        done = np.zeros(len(rows), np.bool_)
        done[parent[good]] = True
        todo = todo[~done[todo]]
        if not len(todo):
            break
    return children


Move = Callable[[Plan, IntArray, np.random.Generator], IntArray]


def _steps(plan: Plan, exact: bool, weights: Weights) -> list[tuple[float, Move]]:
    roles = {size.role for size in plan.sizes if size.role == "tile" or len(size.values) > 1}
    every: tuple[tuple[str, float, Move], ...] = (
        ("tile", weights.tile, _move_divisor if exact else _change_tile),
        ("unroll", weights.unroll, partial(_redraw, "unroll")),
        ("vector", weights.vector, partial(_redraw, "vector")),
        ("rows", weights.rows, partial(_redraw, "rows")),
    )
    return [(weight, step) for role, weight, step in every if role in roles and weight > 0]


def _redraw(role: str, plan: Plan, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Draw another value for one column of the role, in every row."""
    found = [i for i, size in enumerate(plan.sizes) if size.role == role and len(size.values) > 1]
    picked = rng.integers(0, len(found), len(rows))
    for which, column in enumerate(found):
        mine = np.flatnonzero(picked == which)
        values = np.array(plan.sizes[column].values, np.int64)
        present = np.argmax(rows[mine, column][:, None] == values[None, :], axis=1)
        other = (present + rng.integers(1, len(values), len(mine))) % len(values)
        rows[mine, column] = values[other]
    return rows


def _movable(plan: Plan) -> list[Group]:
    return [group for group in groups(plan) if group.units > 1]


def _change_tile(plan: Plan, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Change one tile size (x2, /2, +-1 step, a factor moved within its axis), or draw an axis."""
    tiles = [(group, i) for group in _movable(plan) for i in group.columns]
    if not tiles:
        return rows
    n = len(rows)
    at = np.arange(n)
    picked = rng.integers(0, len(tiles), n)
    column = np.array([i for _, i in tiles], np.int64)[picked]
    step = np.array([plan.sizes[i].multiple_of for _, i in tiles], np.int64)[picked]
    kind = rng.integers(0, 8, n)
    value = rows[at, column]
    # A factor moves to the next tile size of the axis, cyclically.
    partner = np.array([_next(group, i) for group, i in tiles], np.int64)[picked]
    factor = np.where(rng.random(n) < 0.7, 2, rng.integers(2, 6, n))
    moving = (kind >= 5) & (partner != column)
    rows[at[moving], partner[moving]] *= factor[moving]
    up, down = value * 2, value // 2
    moved = value // factor
    rows[at, column] = np.select(
        [kind <= 1, kind == 2, kind == 3, kind == 4], [up, down, value + step, value - step], moved
    )
    fresh = np.flatnonzero(rng.random(n) < 0.05)
    return _new_axis(rows, fresh, [tiles[i][0] for i in picked[fresh]], rng)


def _next(group: Group, column: int) -> int:
    return group.columns[(group.columns.index(column) + 1) % len(group.columns)]


def _new_axis(
    rows: IntArray, which: IntArray, owners: list[Group], rng: np.random.Generator
) -> IntArray:
    """Draw all tile sizes of one axis again in the rows `which`."""
    for group in dict.fromkeys(owners):
        mine = which[[owner == group for owner in owners]]
        columns = np.ascontiguousarray(rows[mine].T)
        draw_group(group, columns, rng)
        rows[mine] = columns.T
    return rows


def _move_divisor(plan: Plan, rows: IntArray, rng: np.random.Generator) -> IntArray:
    """Move a random divisor from one part of an axis to another, as released Ansor does.

    The lengths, the outermost included, are put in random order; the first length above 1 gives
    a divisor above 1 to the length after it in that order. The innermost length stays at most 64.
    """
    axes = _movable(plan)
    if not axes:
        return rows
    picked = rng.integers(0, len(axes), len(rows))
    for which, group in enumerate(axes):
        mine = np.flatnonzero(picked == which)
        if len(mine):
            rows[mine] = _moved(group, rows[mine], rng)
    return rows


def _moved(group: Group, rows: IntArray, rng: np.random.Generator) -> IntArray:
    columns = list(group.columns)
    inner = rows[:, columns]
    inner[:, -1] //= group.multiple_of
    outer = group.units // inner.prod(axis=1, keepdims=True)
    lengths = np.hstack([outer, inner])
    n, parts = lengths.shape
    at = np.arange(n)
    order = np.argsort(rng.random((n, parts)), axis=1)
    first = np.argmax(np.take_along_axis(lengths, order, axis=1) > 1, axis=1)
    source = order[at, first]
    taker = order[at, (first + 1) % parts]
    factor = _random_divisor(lengths[at, source], group.units, rng)
    lengths[at, source] //= factor
    lengths[at, taker] *= factor
    good = lengths[:, -1] <= max(1, INNERMOST_LIMIT // group.multiple_of)
    lengths[:, -1] *= group.multiple_of
    rows[np.flatnonzero(good)[:, None], columns] = lengths[good, 1:]
    return rows


def _random_divisor(values: IntArray, whole: int, rng: np.random.Generator) -> IntArray:
    """Return a divisor above 1 of every value (all divide `whole`); 1 for the value 1."""
    known = divisors(whole)
    table = np.ones((len(known), len(known)), np.int64)
    counts = np.ones(len(known), np.int64)
    for row, value in enumerate(known):
        own = divisors(int(value))[1:]
        counts[row] = max(1, len(own))
        table[row, : len(own)] = own
    at = np.searchsorted(known, values)
    picked: IntArray = table[at, rng.integers(0, counts[at])]
    return picked
