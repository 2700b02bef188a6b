"""A register tile is written without the masks that all its readers have, and no others."""

import numpy as np
import pytest

from ansorpy.expr.expr import Const, Expr, Read, Select
from ansorpy.expr.products import conjunction
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, For, Program, Scope, Tile
from ansorpy.loopir.passes.drop_masks import drop_masks
from ansorpy.loopir.rewrite import seq, walk_stmt
from ansorpy.loopir.verify import check
from tests.loopir.build import add, buffer, c, f32, lt, mul, program, read, store, v

PLACE = add(mul(v("n"), c(16)), v("l"))


def row_sums(
    written: Expr | None,
    looked_at: Expr | None,
    *,
    columns: int = 24,
    dtype: str = "float32",
    vectors: int = 2,
    weight: Expr | None = None,
    weights: int = 5,
) -> Program:
    """C[j] = sum over k of X[k, j] * W[k] in a register tile.

    Args:
        written: the mask of every accumulation.
        looked_at: the mask of the tile that stores the sums.
        columns: the columns of X; a load of more columns is out of bounds.
    """
    lanes, dims = (("l", 16),), (("n", 2),)
    weight = read("W", v("k"), dtype=dtype) if weight is None else weight
    product = mul(read("X", v("k"), PLACE, dtype=dtype), weight)
    zero = f32(0.0) if dtype == "float32" else Const(0, dtype)
    body = seq(
        Tile(dims, lanes, store("acc", (v("n"), v("l")), zero)),
        For("k", c(5), Tile(dims, lanes, store("acc", (v("n"), v("l")), product, "sum"), written)),
        Tile(
            dims, lanes, store("C", (PLACE,), read("acc", v("n"), v("l"), dtype=dtype)), looked_at
        ),
    )
    return program(
        (
            buffer("X", 5, columns, scope=Scope.INPUT, dtype=dtype),
            buffer("W", weights, scope=Scope.INPUT, dtype=dtype),
            buffer("C", 24 if looked_at else 32, scope=Scope.OUTPUT, dtype=dtype),
        ),
        Alloc(buffer("acc", vectors, 16, scope=Scope.REGISTER, dtype=dtype), body),
    )


def sum_of(made: Program) -> Tile:
    """Return the tile that sums."""
    tiles = [s for phase in made.phases for s in walk_stmt(phase.body) if isinstance(s, Tile)]
    (found,) = (tile for tile in tiles if tile.store.combiner)
    return found


def same(a: Program, b: Program, columns: int = 24, weights: int = 5) -> bool:
    rng = np.random.default_rng(0)
    arrays = {"X": rng.random((5, columns), np.float32), "W": rng.random(weights, np.float32)}
    arrays["W"][2] = np.inf  # 0 * inf, in lanes that idle
    with np.errstate(invalid="ignore"):
        return bool(np.array_equal(run(a, arrays)["C"], run(b, arrays)["C"]))


def test_a_mask_equal_to_that_of_the_reader_is_dropped() -> None:
    before = row_sums(lt(PLACE, c(24)), lt(PLACE, c(24)))
    after = drop_masks(before)
    check(after, level="tiled")
    assert sum_of(before).mask is not None
    assert sum_of(after).mask is None
    assert same(before, after)


def test_loads_keep_the_mask_and_invariant_loads_have_none() -> None:
    (value,) = sum_of(drop_masks(row_sums(lt(PLACE, c(24)), lt(PLACE, c(24))))).store.values
    selects = [part for part in (value.a, value.b) if isinstance(part, Select)]  # type: ignore[union-attr]
    assert [part.then for part in selects] == [read("X", v("k"), PLACE)]


def test_a_condition_of_a_load_is_joined_with_the_mask() -> None:
    mask = lt(PLACE, c(24))
    before = row_sums(mask, mask)
    inside = Select(lt(c(0), PLACE), read("X", v("k"), PLACE), f32(0.0))
    tile = sum_of(before)
    (phase,) = before.phases
    with_select = program(before.buffers, _replaced(phase.body, tile, mul(inside, f32(2.0))))
    after = drop_masks(with_select)
    (value,) = sum_of(after).store.values
    assert isinstance(value.a.then, Read)  # type: ignore[union-attr]  # one select, not two
    assert same(with_select, after)


def _replaced(body: object, tile: Tile, value: Expr) -> Alloc:
    assert isinstance(body, Alloc)
    init, loop, last = body.body.stmts  # type: ignore[union-attr]
    new = Tile(tile.dims, tile.lanes, store("acc", tile.store.index, value, "sum"), tile.mask)
    return Alloc(body.buffer, seq(init, For(loop.var, loop.extent, new), last))  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "before",
    [
        row_sums(lt(PLACE, c(24)), None),  # all is looked at
        row_sums(lt(PLACE, c(20)), lt(PLACE, c(24))),  # more is looked at
        row_sums(lt(c(16), PLACE), lt(c(16), PLACE)),  # nothing is read in the first vector
        row_sums(lt(PLACE, v("k")), lt(PLACE, c(24))),  # it moves from step to step
        row_sums(lt(PLACE, c(24)), lt(PLACE, c(24)), dtype="int32"),
        row_sums(lt(PLACE, c(24)), lt(PLACE, c(24)), vectors=1),  # the tile has no such places
        row_sums(
            lt(PLACE, c(24)), lt(PLACE, c(24)), weight=read("acc", v("n"), v("l"))
        ),  # registers are not loaded from memory
    ],
    ids=["no mask", "more", "late", "moving", "integers", "outside", "registers"],
)
def test_masks_that_differ_from_the_reader_stay(before: Program) -> None:
    assert drop_masks(before) == before


def test_invariant_loads_need_a_lane_on_which_all_conditions_hold() -> None:
    """X[k, j] * W[k] for j > k + 20: W has four elements, and nothing is summed for the fifth k."""
    beyond = lt(add(v("k"), c(20)), PLACE)
    before = row_sums(conjunction([lt(PLACE, c(24)), beyond]), lt(PLACE, c(24)), weights=4)
    assert drop_masks(before) == before
    assert same(before, drop_masks(before), weights=4)
    early = lt(add(v("k"), c(3)), PLACE)  # the ninth lane satisfies both for any k
    before = row_sums(conjunction([lt(PLACE, c(24)), early]), lt(PLACE, c(24)))
    assert sum_of(drop_masks(before)).mask == early
    assert same(before, drop_masks(before))


@pytest.mark.parametrize("other", [0.0, 1.0])
def test_loads_within_a_select_keep_the_dropped_condition(other: float) -> None:
    beyond = lt(add(v("k"), c(20)), PLACE)
    weight = Select(beyond, mul(read("W", v("k")), f32(2.0)), f32(other))
    before = row_sums(lt(PLACE, c(24)), lt(PLACE, c(24)), weight=weight, weights=4)
    after = drop_masks(before)
    assert sum_of(after).mask is None
    assert same(before, after, weights=4)


def test_only_the_part_equal_to_the_mask_of_the_reader_is_dropped() -> None:
    odd = lt(v("k"), c(3))
    both = row_sums(conjunction([lt(PLACE, c(24)), odd]), lt(PLACE, c(24)))
    after = drop_masks(both)
    assert sum_of(after).mask == odd
    assert same(both, after)
