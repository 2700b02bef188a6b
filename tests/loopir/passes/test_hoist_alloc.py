"""Scratch is allocated once per task, with room for all of its uses."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, LoopKind, Program, Scope, Seq, Stmt, Tile
from ansorpy.loopir.passes.hoist_alloc import hoist_alloc
from ansorpy.loopir.rewrite import seq, walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import add, buffer, c, mul, program, read, store, v

K, T = v("k"), v("t")


def pieces(lanes: int, steps: int, tail: int, scope: Scope = Scope.LOCAL) -> Program:
    """O[b, n] = A[n] by way of scratch that every step allocates, and the tail a shorter one."""

    def by_way(count: int, step: Stmt | None, place: int) -> Stmt:
        del step
        at = add(mul(K, c(lanes)), T) if place < 0 else add(c(place), T)
        wide = (("t", count),)
        fill = Tile((), wide, store("S", (T,), read("A", at)))
        give = Tile((), wide, store("O", (v("b"), at), read("S", T)))
        return Alloc(buffer("S", count, scope=scope), seq(fill, give))

    body: Stmt = For("k", c(steps), by_way(lanes, None, -1))
    if tail:
        body = seq(body, by_way(tail, None, lanes * steps))
    total = lanes * steps + tail
    return program(
        (buffer("A", total, scope=Scope.INPUT), buffer("O", 2, total, scope=Scope.OUTPUT)),
        For("b", c(2), body, LoopKind.PARALLEL),
    )


@given(lanes=st.integers(1, 5), steps=st.integers(1, 4), tail=st.integers(0, 4))
def test_scratch_is_allocated_once_with_room_for_all(lanes: int, steps: int, tail: int) -> None:
    before = pieces(lanes, steps, tail)
    after = hoist_alloc(before)
    check(after, level="tiled")
    arrays = {"A": np.arange(lanes * steps + tail, dtype=np.float32)}
    np.testing.assert_array_equal(
        run(after, arrays, strict=True)["O"], run(before, arrays, strict=True)["O"]
    )
    task = after.phases[0].body
    assert isinstance(task, For)
    assert isinstance(task.body, Alloc)
    assert task.body.buffer.extents == (max(lanes, tail),)
    assert sum(isinstance(stmt, Alloc) for stmt in walk_stmt(task)) == 1


def test_registers_stay_in_their_loops() -> None:
    made = pieces(4, 3, 2, Scope.REGISTER)
    assert hoist_alloc(made) == made


def test_registers_of_the_name_of_scratch_get_another_name() -> None:
    near, far = pieces(4, 3, 0), pieces(4, 3, 2, Scope.REGISTER)
    task, other = near.phases[0].body, far.phases[0].body
    assert isinstance(task, For)
    assert isinstance(other, For)
    both = program(far.buffers, For("b", c(2), Seq((task.body, other.body)), LoopKind.PARALLEL))
    after = hoist_alloc(both)
    check(after, level="tiled")
    arrays = {"A": np.arange(14, dtype=np.float32)}
    np.testing.assert_array_equal(
        run(after, arrays, strict=True)["O"], run(both, arrays, strict=True)["O"]
    )
    found = [stmt.buffer for stmt in walk_stmt(after.phases[0].body) if isinstance(stmt, Alloc)]
    assert [(one.name, one.scope) for one in found] == [
        ("S", Scope.LOCAL), ("S.held", Scope.REGISTER), ("S.held", Scope.REGISTER),
    ]  # fmt: skip
