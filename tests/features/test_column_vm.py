"""The machine of columns against NumPy, operation by operation and in programs."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest

from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.features.column_vm import OPERATIONS, ROWS, instruction, run

MEANING: Final[dict[str, Callable[..., Any]]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
    "min": np.minimum, "max": np.maximum, "floor": np.floor, "abs": np.absolute,
    "log2": np.log2, "lt": np.less, "le": np.less_equal, "gt": np.greater,
    "ge": np.greater_equal, "eq": np.equal, "ne": np.not_equal,
    "and": np.logical_and, "or": np.logical_or, "not": np.logical_not,
    "where": lambda test, then, other: np.where(test != 0, then, other),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("rows", [1, 7, 8, 100, ROWS])
def test_an_operation_is_that_of_numpy(name: str, rows: int) -> None:
    rng = np.random.default_rng(rows)
    count = OPERATIONS[name]
    columns = np.where(
        rng.random((6, ROWS)) < 0.5, rng.integers(-3, 4, (6, ROWS)), rng.normal(0, 1e3, (6, ROWS))
    )
    if name == "log2":
        columns = np.abs(columns) + 1e-3
    with np.errstate(all="ignore"):
        expected = MEANING[name](*columns[:count])
    before = columns.copy()
    run(np.array([instruction(name, 4, *range(count))], np.int32), columns, rows)
    np.testing.assert_allclose(
        columns[4, :rows], expected[:rows], rtol=1e-15 if name == "log2" else 0
    )
    np.testing.assert_array_equal(columns[[0, 1, 2, 3, 5]], before[[0, 1, 2, 3, 5]])


@pytest.mark.parametrize(
    ("program", "shape", "rows"),
    [
        ([(0, 6, 0, 0, 0)], (6, ROWS), 8),  # no such column
        ([(0, -1, 0, 0, 0)], (6, ROWS), 8),
        ([(99, 0, 0, 0, 0)], (6, ROWS), 8),  # no such operation
        ([(0, 0, 0, 0, 0)], (6, ROWS - 8), 8),
        ([(0, 0, 0, 0, 0)], (6, ROWS), ROWS + 1),
    ],
)
def test_an_access_beyond_the_columns_is_refused(
    program: list[tuple[int, ...]], shape: tuple[int, int], rows: int
) -> None:
    with pytest.raises(ValueError, match=r"program|columns|rows"):
        run(np.array(program, np.int32), np.zeros(shape), rows)


@pytest.mark.parametrize("seed", range(30))
def test_a_column_program_computes_the_recorded_operations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3 * ROWS))
    columns = rng.integers(1, 60, (3, n)).astype(np.float64)
    builder = ColumnBuilder([("a", None), ("b", None), ("c", None)])
    values: list[tuple[ColumnValue, Any]] = [
        (value, columns[i]) for i, value in enumerate(builder.column.values())
    ]
    values += [(builder.const(k), np.full(n, float(k))) for k in (0, 1, 3)]
    kinds = [name for name in OPERATIONS if name not in ("div", "log2")]
    with np.errstate(all="ignore"):
        for _ in range(60):
            name = str(rng.choice(kinds))
            chosen = [values[int(rng.integers(len(values)))] for _ in range(OPERATIONS[name])]
            recorded, known = [v for v, _ in chosen], [x for _, x in chosen]
            value = builder.where(*recorded) if name == "where" else builder.apply(name, *recorded)
            number = np.minimum(np.asarray(MEANING[name](*known), np.float64), 1e9)
            values.append((value.at_most(1e9), number))
    picked = [values[i] for i in rng.permutation(len(values))[:20]]
    out = np.empty((20, n), np.float32)
    builder.program([value for value, _ in picked]).run(columns, out)
    np.testing.assert_array_equal(out, np.array([x for _, x in picked], np.float32))
