"""Crossover of the rows of one plan, and migration of rows to another plan."""

import numpy as np
import numpy.typing as npt

from ansorpy.plan.plan import Plan
from ansorpy.population.groups import groups, value_columns
from ansorpy.population.legal import fit, legal
from ansorpy.population.sample import draw, sample

IntArray = npt.NDArray[np.int64]


def crossover(plan: Plan, a: IntArray, b: IntArray, rng: np.random.Generator) -> IntArray:
    """Return children that take all tile sizes of an axis from `a`, or all from `b`; same shape.

    The tile sizes of one axis are never mixed, because only together they split the axis well.
    A child that breaks a condition of the plan is replaced by its parent in `a`.
    """
    children = a.copy()
    for columns in (*(g.columns for g in groups(plan)), *((i,) for i in value_columns(plan))):
        other = np.flatnonzero(rng.random(len(a)) < 0.5)
        children[other[:, None], columns] = b[other[:, None], columns]
    bad = ~legal(plan, children)
    children[bad] = a[bad]
    return children


def migrate(plan_from: Plan, rows: IntArray, plan_to: Plan, rng: np.random.Generator) -> IntArray:
    """Return the rows as rows of `plan_to`: columns of the same name keep their values.

    Columns that `plan_from` lacks are drawn at random, values out of range are moved into range,
    and a row that still breaks a condition of `plan_to` is replaced by a random sample. Returns
    fewer rows only if `plan_to` has no legal row at all.
    """
    found = [plan_from.column.get(size.name) for size in plan_to.sizes]
    if None in found:
        moved = draw(plan_to, len(rows), rng)
    else:
        moved = np.empty((len(rows), len(found)), np.int64)
    for i, source in enumerate(found):
        if source is not None:
            moved[:, i] = rows[:, source]
    moved = fit(plan_to, moved)
    good = legal(plan_to, moved)
    bad = np.flatnonzero(~good)
    if not len(bad):
        return moved
    fresh = sample(plan_to, len(bad), rng)
    if not len(fresh):
        return moved[good]
    moved[bad] = fresh
    return moved
