"""A phase has as many tasks as repay their calls."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, LoopKind, Program, Scope, Stmt
from ansorpy.loopir.passes.normalize_parallel import normalize_parallel
from ansorpy.loopir.rewrite import map_stmt, walk_stmt
from ansorpy.te.dims import Dim
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


def ceil(part: int) -> Expr:
    return Binary("floordiv", add(v("~N"), c(part - 1)), c(part))


@pytest.mark.parametrize(
    ("most", "axis", "parallel", "serial"),
    [
        ((4, 128), 0, [v("~N"), c(64)], [2]),
        ((40, 6), 0, [v("~N"), c(6)], []),
        ((4, 300), 1, [c(4), ceil(5)], [5]),
        ((4, 60), 1, [c(4), v("~N")], []),
    ],
)
def test_a_call_has_no_task_beyond_its_size(
    most: tuple[int, int], axis: int, parallel: list[Expr], serial: list[int]
) -> None:
    """Extents are of dims; a group of tasks has a guard."""
    dim, base = Dim("N", 1, most[axis]), doubled(*most)
    (phase,) = base.phases

    def sized(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.var == "ij"[axis]:
            return replace(stmt, extent=dim.var)
        return stmt

    body = map_stmt(phase.body, sized)
    made = normalize_parallel(replace(base, phases=(replace(phase, body=body),), dims=(dim,)))
    assert extents(made, LoopKind.PARALLEL) == parallel
    assert extents(made, LoopKind.SERIAL) == [c(n) for n in serial]
    a = np.random.default_rng(0).random(most, np.float32)
    for size in (1, 2, most[axis] // 2 + 1, most[axis]):
        part = tuple(slice(size if k == axis else None) for k in range(2))
        wanted = np.full(most, np.nan, np.float32)
        wanted[part] = 2 * a[part]
        np.testing.assert_array_equal(run(made, {"A": a}, {"~N": size})["B"], wanted)
