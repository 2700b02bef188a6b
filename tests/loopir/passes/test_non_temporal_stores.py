"""Outputs that fill the last cache go past it, and nothing else does."""

import pytest

from ansorpy.loopir.nodes import Program, Scope, Stmt, Tile
from ansorpy.loopir.passes.non_temporal_stores import non_temporal_stores
from ansorpy.loopir.rewrite import seq, walk_stmt
from ansorpy.target import Target
from tests.loopir.build import add, buffer, program, read, store, v

LANES = (("l", 16),)
AVX512 = ("avx512f", "fma")


def set_to_input(**changes: object) -> Tile:
    """C[l] = X[l]."""
    return Tile((), LANES, store("C", (v("l"),), read("X", v("l"))), **changes)  # type: ignore[arg-type]


def writes(*tiles: Stmt, scope: Scope = Scope.OUTPUT) -> Program:
    """Tiles that write 64 bytes of C, and some of D."""
    buffers = buffer("X", 16, scope=Scope.INPUT), buffer("C", 16, scope=scope)
    return program((*buffers, buffer("D", 4, scope=Scope.OUTPUT)), seq(*tiles))


def streamed(made: Program, l3_bytes: int = 64, features: tuple[str, ...] = AVX512) -> list[bool]:
    """Return which tiles go past the caches."""
    after = non_temporal_stores(made, Target(l3_bytes=l3_bytes, features=features))
    parts = [part for phase in after.phases for part in walk_stmt(phase.body)]
    return [part.hints.non_temporal for part in parts if isinstance(part, Tile)]


@pytest.mark.parametrize(("l3_bytes", "expected"), [(64, True), (85, True), (86, False)])
def test_an_output_above_three_quarters_of_the_cache_has_non_temporal_stores(
    l3_bytes: int, expected: bool
) -> None:
    assert streamed(writes(set_to_input()), l3_bytes) == [expected]


def test_vectors_shorter_than_a_line_keep_normal_stores() -> None:
    assert streamed(writes(set_to_input()), features=("avx2", "fma")) == [False]
    assert streamed(writes(set_to_input()), features=()) == [False]


def test_outputs_that_are_read_again_keep_normal_stores() -> None:
    reader = Tile((), (), store("D", (v("j"),), read("C", v("j"))))
    assert streamed(writes(set_to_input(), reader)) == [False, False]
    step = Tile((), LANES, store("C", (v("l"),), read("X", v("l")), "sum"))
    assert streamed(writes(set_to_input(), step)) == [False, False]
    own = Tile((), LANES, store("C", (v("l"),), add(read("C", v("l")), read("X", v("l")))))
    assert streamed(writes(own)) == [False]


def test_intermediates_and_scalars_keep_normal_stores() -> None:
    assert streamed(writes(set_to_input(), scope=Scope.GLOBAL)) == [False]
    scalar = Tile((), (), store("C", (v("j"),), read("X", v("j"))))
    assert streamed(writes(scalar)) == [False]
