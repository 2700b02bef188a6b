"""Elements of copies are dealt out to the threads of a block, an edge as zeros."""

from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.expr.build import zero
from ansorpy.expr.expr import Expr, Read, Select
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, If, LoopKind, Program, Scope, Stmt, Store
from ansorpy.loopir.passes.share import share, threads_of
from ansorpy.loopir.rewrite import seq, walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v

ROW, COLUMN, T, U = v("i"), v("j"), v("t"), v("u")
ROWS: Final = 2


def copied(
    shape: tuple[int, int],
    part: tuple[int, int],
    threads: tuple[int, int],
    guard: Expr | None = None,
) -> Program:
    """Copy `part` of scratch of a shape by threads; each thread adds up all that was copied.

    Args:
        guard: condition without which an element is zero.
    """
    rows, columns = shape
    element: Expr = read("A", v("b"), ROW, COLUMN)
    if guard is not None:
        element = Select(guard, element, zero("float32"))
    copy: Stmt = store("S", (ROW, COLUMN), element)
    copy = For("i", c(part[0]), For("j", c(part[1]), copy, LoopKind.SHARE), LoopKind.SHARE)
    sums: Stmt = store("O", (v("b"), T, U), read("S", v("x"), v("y")), "sum")
    sums = For("x", c(part[0]), For("y", c(part[1]), sums))
    sums = seq(store("O", (v("b"), T, U), read("Z")), sums)
    for name, count in (("u", threads[1]), ("t", threads[0])):
        sums = For(name, c(count), sums, LoopKind.THREAD)
    scratch = buffer("S", rows, columns, scope=Scope.LOCAL)
    return program(
        (
            buffer("A", ROWS, rows, columns, scope=Scope.INPUT),
            buffer("Z", scope=Scope.INPUT),
            buffer("O", ROWS, *threads, scope=Scope.OUTPUT),
        ),
        For("b", c(ROWS), Alloc(scratch, seq(copy, sums)), LoopKind.PARALLEL),
    )


def loops(made: Program, kind: LoopKind) -> list[tuple[str, int]]:
    """Return the loops of one kind that fill scratch, outermost first."""
    found: list[tuple[str, int]] = []
    for stmt in walk_stmt(made.phases[0].body):
        if isinstance(stmt, For) and stmt.kind is kind and stmt.var.startswith(("i", "j")):
            found.append((stmt.var, int(stmt.extent.value)))  # type: ignore[union-attr]
    return found


@given(
    shape=st.tuples(st.integers(1, 6), st.integers(1, 6)),
    cut=st.tuples(st.integers(0, 2), st.integers(0, 2)),
    threads=st.tuples(st.integers(1, 3), st.integers(1, 4)),
)
def test_the_meaning_stays(
    shape: tuple[int, int], cut: tuple[int, int], threads: tuple[int, int]
) -> None:
    part = max(1, shape[0] - cut[0]), max(1, shape[1] - cut[1])
    before = copied(shape, part, threads)
    after = share(before)
    check(after, level="bound")
    assert not loops(after, LoopKind.SHARE)
    rng = np.random.default_rng(0)
    arrays = {"A": rng.random((ROWS, *shape), np.float32), "Z": np.zeros((), np.float32)}
    np.testing.assert_array_equal(
        run(after, arrays, strict=True)["O"], run(before, arrays, strict=True)["O"]
    )


@pytest.mark.parametrize(
    ("shape", "threads", "lanes", "own"),
    [
        ((8, 8), (2, 8), [("i.t", 8), ("j.t", 2)], [("j.w", 4)]),  # 16 groups of 4
        ((8, 8), (2, 2), [("i.t", 2), ("j.t", 2)], [("i.r", 4), ("j.w", 4)]),
        ((4, 6), (2, 3), [("j.t", 6)], [("i.r", 4)]),  # rows of 6 are not aligned
        ((3, 5), (2, 2), [("j.t", 4)], [("j.r", 4)]),  # 15 elements of 4 threads: by a quotient
        ((5, 5), (4, 4), [("i.t", 3), ("j.t", 5)], [("i.r", 2)]),  # one of 16 threads idles
        ((4, 24), (4, 4), [("i.t", 2), ("j.t", 6)], [("i.r", 2), ("j.w", 4)]),  # 4 of 16 idle
        ((16, 96), (16, 8), [("i.t", 16), ("j.t", 8)], [("j.r", 3), ("j.w", 4)]),  # none idles
    ],
)
def test_elements_are_dealt_out_to_neighbours(
    shape: tuple[int, int],
    threads: tuple[int, int],
    lanes: list[tuple[str, int]],
    own: list[tuple[str, int]],
) -> None:
    after = share(copied(shape, shape, threads))
    assert loops(after, LoopKind.THREAD) == lanes
    assert loops(after, LoopKind.UNROLL) == own


def test_an_edge_is_zero() -> None:
    after = share(copied((4, 8), (3, 8), (2, 4)))
    first = next(s for s in walk_stmt(after.phases[0].body) if isinstance(s, Store))
    (value,) = first.values
    assert isinstance(value, Select)
    assert value.cond == lt(v("i.t"), c(3))


@pytest.mark.parametrize(("row", "wide"), [(lt(ROW, c(2)), 4), (lt(COLUMN, c(5)), 1)])
def test_a_padded_operand_has_one_condition(row: Expr, wide: int) -> None:
    """Neighbours move together if the condition does not part them."""
    before = copied((4, 8), (3, 8), (2, 4), guard=row)
    after = share(before)
    first = next(s for s in walk_stmt(after.phases[0].body) if isinstance(s, Store))
    (value,) = first.values
    assert isinstance(value, Select)
    assert isinstance(value.then, Read)
    assert dict(loops(after, LoopKind.UNROLL)).get("j.w", 1) == wide
    arrays = {
        "A": np.random.default_rng(0).random((ROWS, 4, 8), np.float32),
        "Z": np.zeros((), np.float32),
    }
    np.testing.assert_array_equal(run(after, arrays)["O"], run(before, arrays)["O"])


def test_a_condition_of_all_stores_to_scratch_is_dropped() -> None:
    """Points of C beyond the edge are never read, and all places are there."""
    cond = lt(add(mul(v("b"), c(4)), T), c(6))
    copy = For("i", c(4), store("S", (ROW,), read("A", ROW)), LoopKind.SHARE)
    sums = If(cond, store("C", (T,), read("S", T)))
    give = If(cond, store("O", (add(mul(v("b"), c(4)), T),), read("C", T)))
    body = seq(
        copy,
        For("t", c(4), sums, LoopKind.THREAD),
        For("t", c(4), give, LoopKind.THREAD),
    )
    scratch = [buffer(name, 4, scope=Scope.LOCAL) for name in ("C", "S")]
    made = program(
        (buffer("A", 4, scope=Scope.INPUT), buffer("O", 6, scope=Scope.OUTPUT)),
        For("b", c(2), Alloc(scratch[0], Alloc(scratch[1], body)), LoopKind.PARALLEL),
    )
    after = share(made)
    kept = [stmt.then for stmt in walk_stmt(after.phases[0].body) if isinstance(stmt, If)]
    assert [one.buffers for one in kept if isinstance(one, Store)] == [("O",)]
    arrays = {"A": np.arange(4, dtype=np.float32)}
    np.testing.assert_array_equal(run(after, arrays)["O"], [0, 1, 2, 3, 0, 1])


def test_threads_are_those_of_the_widest_nest() -> None:
    assert threads_of(copied((4, 4), (4, 4), (3, 5)).phases[0].body) == 15
