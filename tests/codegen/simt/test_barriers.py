"""Barriers stand where threads access elements of one another, and nowhere else."""

from dataclasses import replace
from typing import Final

import numpy as np
import pytest

from ansorpy.codegen.simt.writer import simt_code
from ansorpy.expr.expr import Binary, Expr, Read
from ansorpy.loopir.nodes import Alloc, For, If, Program, Scope, Seq, Stmt, Tile
from tests.codegen.simt.test_writer import GPU
from tests.emulation.log import LoggedKernel
from tests.emulation.report import Log
from tests.loopir.build import add, buffer, c, lt, mul, parallel, program, read, store, v

LANES: Final = 64
L, ROW, K = v("l"), v("i"), v("k")
WIDE: Final = (("l", LANES),)
TURNED: Final = Binary("sub", c(LANES - 1), L)


def kept(index: Expr = L, value: Expr | None = None) -> Tile:
    """Store to scratch, by default the element of the thread."""
    return Tile((), WIDE, store("s", (index,), value or read("A", ROW, L)))


def used(index: Expr = L, at: Expr = L) -> Tile:
    """Load from scratch."""
    return Tile((), WIDE, store("B", (ROW, at), read("s", index)))


def summed(out: str = "S", at: Expr = ROW) -> Tile:
    """Sum over the threads, by way of the exchange of a block."""
    return Tile((), WIDE, store(out, (at,), read("A", ROW, L), "sum"))


def two(stage: Expr, tile: Tile) -> Tile:
    """Return an access to scratch as one to a stage of it: to rows of all threads' elements."""

    def moved(expr: Expr) -> Expr:
        return (
            Read(expr.tensor, (stage, *expr.indices), expr.dtype)
            if (isinstance(expr, Read) and expr.tensor == "s2")
            else expr
        )

    one = tile.store
    index = (stage, *one.index) if one.buffers == ("s2",) else one.index
    return replace(tile, store=replace(one, index=index, values=tuple(map(moved, one.values))))


def staged(count: int, ahead: int, late: bool = False) -> Stmt:
    """Store a stage, `ahead` of that which all threads load in a step."""
    fill = Tile((), WIDE, store("s2", (L,), read("A", ROW, L)), asynchronous=late)
    load = Tile((), WIDE, store("B", (ROW, L), read("s2", TURNED)))
    after = Binary("mod", add(K, c(ahead)), c(count))
    first = [two(c(n), fill) for n in range(ahead)]
    body = [two(after, fill), two(Binary("mod", K, c(count)), load)]
    scratch = buffer("s2", count, LANES, scope=Scope.LOCAL)
    return Alloc(scratch, Seq((*first, loop(*body, extent=5))))


def built(*stmts: Stmt) -> Program:
    """Return a program of four blocks with scratch of four words per thread."""
    buffers = [
        buffer("A", 4, LANES),
        buffer("B", 4, 4 * LANES, scope=Scope.OUTPUT),
        buffer("S", 4, scope=Scope.OUTPUT),
    ]
    scratch = buffer("s", 4 * LANES, scope=Scope.LOCAL)
    return program(buffers, parallel("i", 4, Alloc(scratch, Seq(stmts))))


def log_of(prog: Program) -> Log:
    """Return the log of a program, with the barriers that it needs."""
    loaded = LoggedKernel(simt_code(prog, GPU))
    arrays = [np.zeros(one.extents, np.float32) for one in prog.buffers]
    return loaded.log([array.ctypes.data for array in arrays], remove=True)


def loop(*stmts: Stmt, extent: int = 3) -> For:
    """Return a loop over k."""
    return For("k", c(extent), Seq(stmts))


def fewer(index: Expr) -> Stmt:
    """Store by half of the threads, two times."""
    return loop(Tile((), (("l", 32),), store("s", (index,), read("A", ROW, L))), extent=2)


FIRST: Final = Tile((), (), store("S", (ROW,), read("A", ROW, c(0))))  # the first thread
ADDED: Final = replace(FIRST, store=replace(FIRST.store, combiner="sum"))
START: Final = Tile((), (), store("s", (c(0),), read("A", ROW, c(0))))
CASES: Final[dict[str, tuple[int, tuple[Stmt, ...]]]] = {
    "own element": (0, (kept(), used())),
    "own element, twice": (0, (loop(kept(), used()),)),
    "own elements of several": (
        0, (loop(kept(add(L, mul(K, LANES)))), loop(used(add(mul(K, LANES), L)))),
    ),
    "own element with a step": (0, (kept(mul(L, 4)), used(add(mul(L, 4), c(0))))),
    "element of another": (1, (kept(), used(TURNED))),
    "element beside": (1, (kept(), used(add(L, c(1))))),
    "other step": (1, (kept(mul(L, 2)), used(L))),
    "element of another, twice": (2, (loop(kept(), used(TURNED)),)),
    "before a loop": (1, (kept(), loop(used(TURNED, add(L, mul(K, LANES)))))),
    "one barrier for two": (1, (kept(), kept(add(L, c(LANES))), used(TURNED), used(TURNED))),
    "store after load": (2, (kept(), used(TURNED), kept())),
    "one thread": (1, (kept(), Tile((), (), store("S", (ROW,), read("s", c(5)))))),
    "store of one thread": (1, (Tile((), (), store("s", (c(5),), read("A", ROW, c(0)))), used())),
    "one thread and itself": (0, (FIRST, ADDED)),
    "first thread, its element": (0, (kept(), START, used())),
    "first thread, element of another": (
        2, (kept(), Tile((), (), store("s", (c(1),), read("A", ROW, c(0)))), used()),
    ),
    "a sum": (1, (summed(),)),
    "two sums": (3, (summed(), summed())),
    "sums of a loop": (2, (loop(summed()),)),
    "sum, then load": (2, (START, summed("s", c(0)), used(c(0)))),
    "fewer threads": (0, (kept(), fewer(L), used())),
    "fewer threads, other elements": (2, (kept(), fewer(add(L, mul(K, 32))), used())),
    "either side": (1, (kept(), If(lt(ROW, 2), used(TURNED), used()))),
    "two stages": (1, (staged(2, 1),)),
    "two stages that arrive late": (1, (staged(2, 1, late=True),)),
    "three stages": (1, (staged(3, 1),)),
    "three stages, two ahead": (1, (staged(3, 2),)),
    "a stage for each step": (1, (staged(2, 0),)),
    "after a side": (1, (If(lt(ROW, 2), kept(), kept(L, read("A", ROW, c(0)))), used(TURNED))),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_threads_wait_as_often_as_needed(name: str) -> None:
    expected, stmts = CASES[name]
    log = log_of(built(*stmts))
    assert log.races == ()
    waits = log.launches[0].waits
    assert len(waits) == expected
    assert all(wait.needed for wait in waits)


def test_a_barrier_that_a_loop_does_not_carry_stands_before_it() -> None:
    (launch,) = log_of(built(kept(), loop(used(TURNED, add(L, mul(K, LANES)))))).launches
    assert [wait.times for wait in launch.waits] == [4]  # once in each of 4 blocks
