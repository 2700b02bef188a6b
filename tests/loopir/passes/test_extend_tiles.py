"""A tile of sums has as many iterations of its reduction as it may have."""

import numpy as np
import pytest

from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, Program, Scope, Stmt, Tile
from ansorpy.loopir.passes.extend_tiles import extend_tiles
from ansorpy.loopir.rewrite import seq, walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import buffer, c, lt, mul, program, read, store, v

THREADS = 2


def product(sums: int, depth: int, masked: bool = False, shared: bool = True) -> Program:
    """C[u, t] += A[u, k] * B[k, t], summed over k by threads t, each with `sums` sums.

    Args:
        shared: whether A and B are read from copies in scratch.
    """
    k, t, u = v("k"), v("t"), v("u")
    names = ("SA", "SB") if shared else ("A", "B")
    terms = mul(read(names[0], u, k), read(names[1], k, t))
    mask = lt(u, c(sums - 1)) if masked else None
    lanes = (("t", THREADS),)
    total: Stmt = Tile((("u", sums),), lanes, store("C", (u, t), terms, "sum"), mask)
    total = For("k", c(depth), total)
    if shared:
        copies = (
            Tile((("u", sums), ("k", depth)), (), store("SA", (u, k), read("A", u, k))),
            Tile((("k", depth),), lanes, store("SB", (k, t), read("B", k, t))),
        )
        total = seq(*copies, total)
        for name, shape in (("SA", (sums, depth)), ("SB", (depth, THREADS))):
            total = Alloc(buffer(name, *shape, scope=Scope.LOCAL), total)
    return program(
        (
            buffer("A", sums, depth, scope=Scope.INPUT),
            buffer("B", depth, THREADS, scope=Scope.INPUT),
            buffer("C", sums, THREADS, scope=Scope.OUTPUT),
        ),
        total,
    )


@pytest.mark.parametrize(
    ("sums", "depth", "inside", "outside"),
    [
        (72, 16, 8, 2),  # 16 * 72 exceeds 1024
        (64, 16, 16, 0),
        (100, 12, 6, 2),  # the largest divisor within 1024 / 100
        (100, 11, 0, 11),  # 11 is a prime: no part of it fits
        (1000, 4, 0, 4),
    ],
)
def test_iterations_move_into_the_tile(sums: int, depth: int, inside: int, outside: int) -> None:
    before = product(sums, depth)
    after = extend_tiles(before)
    check(after, level="tiled")
    stmts = list(walk_stmt(after.phases[0].body))
    (tile,) = [stmt for stmt in stmts if isinstance(stmt, Tile) and stmt.store.combiner]
    assert dict(tile.dims).get("k.u", 0) == inside
    assert [stmt.extent for stmt in stmts if isinstance(stmt, For)] == [c(outside)] * bool(outside)
    rng = np.random.default_rng(0)
    arrays = {
        "A": rng.random((sums, depth), np.float32),
        "B": rng.random((depth, THREADS), np.float32),
    }
    np.testing.assert_array_equal(run(after, arrays)["C"], run(before, arrays)["C"])


@pytest.mark.parametrize("before", [product(8, 4, masked=True), product(8, 4, shared=False)])
def test_tiles_with_masks_and_operands_in_global_memory_stay(before: Program) -> None:
    assert extend_tiles(before) == before
