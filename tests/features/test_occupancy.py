"""Cache occupancy of an iteration, compared with the lines and pages of its addresses."""

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest

from ansorpy.features.access import touched
from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.occupancy import Occupancy
from ansorpy.features.walk import walk
from ansorpy.plan.plan import Plan
from tests.features.hand import tiled_plan

LINE, PAGE, WAYS = 64, 4096, 8


def value(builder: ColumnBuilder, of: ColumnValue, row: Sequence[int]) -> float:
    out = np.empty((1, 1), np.float32)
    builder.program([of]).run(np.array([row], np.float64).T.copy(), out)
    return float(out[0, 0])


def occupied(plan: Plan, row: Sequence[int], size_bytes: int) -> float:
    """Cache occupancy of an iteration of the loop around the innermost reduction."""
    made = walk(plan.program, plan.sizes)
    (update,) = (s for s in made.statements if s.store.combiner)
    loop = next(loop for loop in update.loops if loop.var == "k0")
    return value(made.builder, Occupancy(touched(made), size_bytes).per_iteration(loop), row)


def walked(n: int, rows: int, columns: int, depth: int) -> tuple[int, dict[str, Counter[int]]]:
    """Return the bytes of all lines, and how many of A and of B lie at every place of a page."""
    a = {4 * (n * i + k) // LINE for i in range(rows) for k in range(depth)}
    b = {4 * (n * k + j) // LINE for k in range(depth) for j in range(columns)}
    local = -(-4 * rows * columns // LINE)
    sets = {
        name: Counter(line % (PAGE // LINE) for line in lines)
        for name, lines in (("A", a), ("B", b))
    }
    return LINE * (len(a) + len(b) + local), sets


# Rows of 1024 floats are 4096 bytes apart, of 512 floats half of that: one set, or two.
@pytest.mark.parametrize("n", [1024, 512, 1040])
@pytest.mark.parametrize("rows", [4, 8, 16])
@pytest.mark.parametrize("depth", [16, 64])
def test_lines_are_those_of_the_addresses_and_pile_up_at_their_places(
    n: int, rows: int, depth: int
) -> None:
    plan = tiled_plan(n)
    columns = 32
    sizes = {"C.i.1": 1, "C.i.2": 1, "C.i.3": rows, "C.j.1": 1, "C.j.2": 1, "C.j.3": columns}
    row = [sizes.get(size.name, depth if size.name == "C.k.1" else 0) for size in plan.sizes]
    line_bytes, sets = walked(n, rows, columns, depth)
    assert occupied(plan, row, 1 << 40) == pytest.approx(line_bytes, rel=1e-6)
    expected = LINE * (rows * columns // 16)
    for counts in sets.values():
        plain, most = LINE * counts.total(), max(counts.values())
        expected += most * PAGE if n != 1040 and most > WAYS else plain
    assert occupied(plan, row, WAYS * PAGE) == pytest.approx(expected, rel=1e-6)
