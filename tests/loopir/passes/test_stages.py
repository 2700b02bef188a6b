"""Copies of the next step start before the statements of the present one, in another stage."""

from math import prod
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.expr.build import zero
from ansorpy.expr.expr import Binary, Expr, Select
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, LoopKind, Program, Scope, Stmt, Tile
from ansorpy.loopir.passes.stages import HELD, stages
from ansorpy.loopir.printer import stmt_text
from ansorpy.loopir.rewrite import nest, seq, walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v

LANES: Final = 8
WIDE: Final = (("t", LANES),)
ROOM: Final = 1 << 16  # bytes of shared memory
OWN: Final = 2  # elements of a thread


def place(extents: tuple[int, ...]) -> Expr:
    """Return the number of the step of a nest of loops."""
    total: Expr = v("k0")
    for number, extent in enumerate(extents[1:], 1):
        total = add(mul(total, c(extent)), v(f"k{number}"))
    return total


def product(
    extents: tuple[int, ...], rows: int = 3, computed: bool = False, masked: bool = False,
    tail: int = 0, own: int = OWN,
) -> Program:  # fmt: skip
    """O[i, t] = sum over steps of A[i, step] * B[step, w, 7 - t], both copied to scratch."""
    steps = prod(extents) + tail

    def body(step: Expr) -> Stmt:
        first: Expr = read("B", step, v("w"), v("t"))
        if computed:
            first = mul(first, first)
        if masked:
            first = Select(lt(add(step, v("t")), c(steps)), first, zero("float32"))
        near = Binary("sub", c(LANES - 1), v("t"))
        terms = mul(read("S", c(0)), read("T", v("w"), near))
        sums = store("O", (v("i"), v("w"), v("t")), terms, "sum")
        return seq(
            Tile((), (("t", 1),), store("S", (v("t"),), read("A", v("i"), step))),
            Tile((("w", own),), WIDE, store("T", (v("w"), v("t")), first)),
            Tile((("w", own),), WIDE, sums),
        )

    loops = nest(
        tuple((f"k{n}", c(extent)) for n, extent in enumerate(extents)), body(place(extents))
    )
    last = [body(c(prod(extents) + n)) for n in range(tail)]
    start = Tile((("w", own),), WIDE, store("O", (v("i"), v("w"), v("t")), zero("float32")))
    scratch = buffer("S", 1, scope=Scope.LOCAL), buffer("T", own, LANES, scope=Scope.LOCAL)
    inner = Alloc(scratch[0], Alloc(scratch[1], seq(start, loops, *last)))
    return program(
        (
            buffer("A", rows, steps, scope=Scope.INPUT),
            buffer("B", steps, own, LANES, scope=Scope.INPUT),
            buffer("O", rows, own, LANES, scope=Scope.OUTPUT),
        ),
        For("i", c(rows), inner, LoopKind.PARALLEL),
    )


def shapes(made: Program, scope: Scope) -> dict[str, tuple[int, ...]]:
    """Return the extents of the buffers of one scope that a program allocates."""
    found = [stmt.buffer for stmt in walk_stmt(made.phases[0].body) if isinstance(stmt, Alloc)]
    return {one.name: one.extents for one in found if one.scope is scope}


@given(
    extents=st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    computed=st.booleans(), masked=st.booleans(), tail=st.integers(0, 2),
)  # fmt: skip
def test_the_meaning_stays(
    extents: tuple[int, ...], computed: bool, masked: bool, tail: int
) -> None:
    before = product(extents, computed=computed, masked=masked, tail=tail)
    after = stages(before, ROOM)
    check(after, level="tiled")
    rng = np.random.default_rng(0)
    arrays = {b.name: rng.random(b.extents, np.float32) for b in before.buffers[:2]}
    np.testing.assert_array_equal(
        run(after, arrays, strict=True)["O"], run(before, arrays, strict=True)["O"]
    )
    staged = prod(extents) > 1
    assert (after != before) == staged
    names = {name: len(shape) for name, shape in shapes(after, Scope.LOCAL).items()}
    assert names == ({"S": 2, "T": 3} if staged else {"S": 1, "T": 2})


def test_a_step_starts_the_copies_of_the_next() -> None:
    after = stages(product((4,)), ROOM)
    (loop,) = [s for s in walk_stmt(after.phases[0].body) if isinstance(s, For) and s.var == "k0"]
    first, second, third = stmt_text(loop.body).splitlines()
    assert loop.extent == c(3)
    assert first == ("tile lane t:1 asynchronous: S[(k0 + 1) % 2, t] = A[i, (k0 + 1)]")
    assert second == ("tile w:2 lane t:8 asynchronous: T[(k0 + 1) % 2, w, t] = B[(k0 + 1), w, t]")
    assert third == ("tile w:2 lane t:8: O[i, w, t] += S[(k0 % 2), 0] * T[(k0 % 2), w, (7 - t)]")


def test_computed_elements_wait_in_registers() -> None:
    after = stages(product((4,), computed=True), ROOM)
    assert shapes(after, Scope.REGISTER) == {"T.next": (OWN, LANES)}
    (loop,) = [s for s in walk_stmt(after.phases[0].body) if isinstance(s, For) and s.var == "k0"]
    tiles = [stmt for stmt in walk_stmt(loop) if isinstance(stmt, Tile)]
    assert [tile.store.buffers for tile in tiles] == [("S",), ("T.next",), ("O",), ("T",)]
    assert [tile.asynchronous for tile in tiles] == [True, False, False, False]


def test_a_nest_of_loops_becomes_one() -> None:
    after = stages(product((2, 1, 3)), ROOM)
    loops = [s for s in walk_stmt(after.phases[0].body) if isinstance(s, For)]
    assert [(loop.var, loop.extent) for loop in loops] == [("i", c(3)), ("k0.all", c(5))]


def test_statements_after_the_loop_use_the_first_stage() -> None:
    after = stages(product((3,), tail=1), ROOM)
    tiles = [stmt for stmt in walk_stmt(after.phases[0].body) if isinstance(stmt, Tile)]
    assert [tile.store.index[0] for tile in tiles if tile.store.buffers == ("S",)] == [
        c(0), Binary("mod", add(v("k0"), c(1)), c(2)), c(0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("made", "room"),
    [
        (product((4,)), 2 * 4 * (1 + OWN * LANES) - 1),  # no room for two stages
        (product((4,), computed=True, own=HELD + 1), ROOM),  # more registers than a thread has
    ],
)
def test_a_loop_stays_without_room(made: Program, room: int) -> None:
    assert stages(made, room) == made


def test_scratch_that_another_statement_fills_has_one_stage() -> None:
    made = product((4,))
    other = Tile((), WIDE, store("T", (c(0), v("t")), zero("float32")))

    def filled(stmt: Stmt) -> Stmt:
        if isinstance(stmt, For) and stmt.var == "k0":
            return For(stmt.var, stmt.extent, seq(stmt.body, other))
        if isinstance(stmt, For):
            return For(stmt.var, stmt.extent, filled(stmt.body), stmt.kind)
        if isinstance(stmt, Alloc):
            return Alloc(stmt.buffer, filled(stmt.body))
        return seq(*map(filled, stmt.stmts)) if hasattr(stmt, "stmts") else stmt

    changed = program(made.buffers, filled(made.phases[0].body))
    assert stages(changed, ROOM) == changed
