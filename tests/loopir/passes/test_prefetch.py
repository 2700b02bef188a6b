"""The lines prefetched while a block is used are exactly the lines of the next block.

Every pair of passes and vectors has one form and order of the blocks; `make test-all` has
all of them.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from math import prod

import pytest

from ansorpy.expr.expr import Const, Expr, reads, variables
from ansorpy.expr.intervals import simplify
from ansorpy.loopir.nodes import For, LoopKind, Prefetch, Program, Scope, Seq, Stmt, Tile
from ansorpy.loopir.passes.prefetch import prefetch
from ansorpy.loopir.rewrite import map_stmt, nest, seq, substitute_stmt, walk_stmt
from ansorpy.target import CpuTarget
from tests.loopir.build import add, buffer, c, lt, mul, program, read, store, v
from tests.night import night

STEPS = 5
PASSES = [(1,), (2,), (3,), (4,), (7,), (2, 2)]
VECTORS = (1, 2, 3, 4)
BLOCKS = [(4,), (3, 2), (2, 3)]
TARGET = CpuTarget(l3_bytes=64)


def used_again(
    passes: tuple[int, ...] = (3,),
    vectors: int = 2,
    blocks: tuple[int, ...] = (4,),
    swapped: bool = False,
) -> Program:
    """C[f, 16 u + l] += X[block, k, 16 u + l] * W[k, f]: all passes j read the same block.

    The loops over blocks are in the order in which they lie in memory, unless `swapped`.
    """
    block: Expr = c(0)
    order = [*enumerate(blocks)]
    for number, count in reversed(order) if swapped else order:
        block = add(mul(block, c(count)), v(f"p{number}"))
    place = add(mul(v("u"), c(16)), v("l"))
    value = mul(read("X", block, v("k"), place), read("W", v("k"), v("f")))
    one = Tile((("f", 8), ("u", vectors)), (("l", 16),), store("C", (v("f"), place), value, "sum"))
    loops = [(f"p{n}", c(count)) for n, count in enumerate(blocks)]
    loops += [(f"j{n}", c(count)) for n, count in enumerate(passes)]
    buffers = (
        buffer("X", prod(blocks), STEPS, 16 * vectors, scope=Scope.INPUT),
        buffer("W", STEPS, 8, scope=Scope.GLOBAL),
        buffer("C", 8, 16 * vectors, scope=Scope.OUTPUT),
    )
    return program(buffers, nest((*loops, ("k", c(STEPS))), one))


def fetched(made: Program) -> list[Prefetch]:
    return [p for phase in made.phases for p in walk_stmt(phase.body) if isinstance(p, Prefetch)]


def run(stmt: Stmt) -> Iterator[Tile | Prefetch]:
    """Yield tiles and prefetches in order of execution, with the loops unrolled."""
    match stmt:
        case For(var=var, extent=Const(value=count), body=body):
            for number in range(int(count)):
                yield from run(substitute_stmt(body, {var: c(number)}))
        case Seq(stmts=stmts):
            for part in stmts:
                yield from run(part)
        case Tile() | Prefetch():
            yield stmt
        case _:
            raise AssertionError(stmt)


def number(expr: Expr) -> int:
    assert not variables(expr)
    found = simplify(expr, {})
    assert isinstance(found, Const)
    return int(found.value)


@pytest.mark.parametrize(
    ("passes", "vectors", "blocks", "swapped"),
    night(
        product(PASSES, VECTORS, BLOCKS, (False, True)),
        {
            (passes, vectors, BLOCKS[(i + vectors) % 3], bool((i + vectors // 2) % 2))
            for i, passes in enumerate(PASSES)
            for vectors in VECTORS
        },
    ),
)
def test_the_next_block_is_prefetched_during_the_current_one(
    passes: tuple[int, ...], vectors: int, blocks: tuple[int, ...], swapped: bool
) -> None:
    made = prefetch(used_again(passes, vectors, blocks, swapped), TARGET)
    at = -1
    lines: list[set[int]] = []
    came: list[set[int]] = []
    size = STEPS * 16 * vectors
    for part in run(made.phases[0].body):
        if isinstance(part, Tile):
            block, k, _ = next(r.indices for r in reads(part.store.values[0]) if r.tensor == "X")
            if number(block) != at:
                at = number(block)
                lines.append(set())
                came.append(set())
            start = at * size + number(k) * 16 * vectors
            lines[-1] |= {start + 16 * line for line in range(vectors)}
        else:
            came[-1].add(number(part.offset))
    assert len(lines) == prod(blocks)
    for ahead, wanted in zip(came, lines[1:], strict=False):
        assert ahead == wanted


def test_inputs_that_fit_the_last_level_cache_are_not_prefetched() -> None:
    made = used_again()
    bytes_of_x = 4 * STEPS * 32 * 4
    assert fetched(prefetch(made, CpuTarget(l3_bytes=bytes_of_x * 4 // 3)))
    assert prefetch(made, CpuTarget(l3_bytes=bytes_of_x * 4 // 3 + 4)) is made


def test_data_used_once_or_by_another_task_is_not_prefetched() -> None:
    assert not fetched(prefetch(used_again(passes=()), TARGET))
    (phase,) = used_again().phases
    assert isinstance(phase.body, For)
    body = replace(phase.body, kind=LoopKind.PARALLEL)
    apart = replace(used_again(), phases=(replace(phase, body=body),))
    assert not fetched(prefetch(apart, TARGET))


def test_two_blocks_have_to_fit_into_the_second_cache() -> None:
    block_bytes = STEPS * 32 * 4
    assert fetched(prefetch(used_again(), replace(TARGET, l2_bytes=2 * block_bytes)))
    assert not fetched(prefetch(used_again(), replace(TARGET, l2_bytes=2 * block_bytes - 1)))


def changed(change: Callable[[Tile], Stmt]) -> Program:
    """Return the sample with another tile."""
    made = used_again()
    (phase,) = made.phases
    body = map_stmt(phase.body, lambda one: change(one) if isinstance(one, Tile) else one)
    return replace(made, phases=(replace(phase, body=body),))


def test_a_tile_with_little_to_do_fetches_nothing() -> None:
    assert fetched(prefetch(changed(lambda one: one), TARGET))
    slim = changed(lambda one: replace(one, dims=(("f", 1), one.dims[1])))
    assert not fetched(prefetch(slim, TARGET))


def test_tiles_that_read_the_same_lines_fetch_them_once() -> None:
    assert len(fetched(prefetch(changed(lambda one: one), TARGET))) == 1
    assert len(fetched(prefetch(changed(lambda one: seq(one, one)), TARGET))) == 1


def test_masked_tiles_are_left_alone() -> None:
    assert not fetched(prefetch(changed(lambda one: replace(one, mask=lt(v("l"), c(9)))), TARGET))
