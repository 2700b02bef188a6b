"""A phase has as many tasks as repay their calls."""

import numpy as np
import pytest

from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, LoopKind, Program, Scope
from ansorpy.loopir.passes.normalize_parallel import normalize_parallel
from ansorpy.loopir.rewrite import walk_stmt
from tests.loopir.build import add, buffer, c, program, read, store, v


def doubled(rows: int, columns: int) -> Program:
    """Return B[i, j] = A[i, j] + A[i, j], both loops parallel."""
    a = read("A", v("i"), v("j"))
    body = store("B", (v("i"), v("j")), add(a, a))
    return program(
        (
            buffer("A", rows, columns, scope=Scope.INPUT),
            buffer("B", rows, columns, scope=Scope.OUTPUT),
        ),
        For("i", c(rows), For("j", c(columns), body, LoopKind.PARALLEL), LoopKind.PARALLEL),
    )


def extents(made: Program, kind: LoopKind) -> list[object]:
    found = (s for phase in made.phases for s in walk_stmt(phase.body))
    return [s.extent for s in found if isinstance(s, For) and s.kind is kind]


@pytest.mark.parametrize(
    ("rows", "columns", "parallel", "serial"),
    [
        (4, 64, [4, 64], []),  # as many as there may be
        (4, 128, [4, 64], [2]),
        (3, 400, [3, 80], [5]),
        (2, 509, [2, 509], []),  # prime: as it is
        (300, 6, [300, 6], []),  # the outer one is left alone, and alone it is too many
    ],
)
def test_tasks_are_grouped_along_the_innermost_parallel_loop(
    rows: int, columns: int, parallel: list[int], serial: list[int]
) -> None:
    made = normalize_parallel(doubled(rows, columns))
    assert extents(made, LoopKind.PARALLEL) == [c(n) for n in parallel]
    assert extents(made, LoopKind.SERIAL) == [c(n) for n in serial]
    a = np.random.default_rng(0).random((rows, columns), np.float32)
    np.testing.assert_array_equal(run(made, {"A": a})["B"], a + a)
