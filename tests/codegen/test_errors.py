"""Errors of a failed build name the reason and the source."""

import pickle

import pytest

from ansorpy.codegen.loader import Built, build, load
from ansorpy.codegen.numba_source import emit
from ansorpy.codegen.simd.parser import parse
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Binary
from ansorpy.loopir.nodes import Alloc, For, LoopKind, Scope, Stmt, Tile
from ansorpy.target import Target
from tests.codegen.programs import matmul
from tests.loopir.build import add, buffer, c, f32, program, read, store, v

L = v("l")
COPY = store("C", (L,), read("A", L))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (COPY, "not tiled"),
        (Tile((), (("l", 8),), store("C", (L,), read("X", L))), "no buffer 'X'"),
        (Tile((), (("l", 8),), store("C", (v("q"),), read("A", L))), "no loop binds 'q'"),
        (For("i", v("n"), Tile((), (("l", 8),), COPY), LoopKind.PARALLEL), "no loop binds 'n'"),
        (Alloc(buffer("s", 1 << 20, scope=Scope.LOCAL), Tile((), (("l", 8),), COPY)),
         "4194304 bytes of scratch; a task has 1048576"),
        (Tile((), (("l", 8),), store("C", (L,), read("A", L, dtype="int32"))), None),
    ],
)  # fmt: skip
def test_a_program_that_cannot_be_built_raises_a_build_error(body: Stmt, words: str | None) -> None:
    buffers = [buffer("A", 8), buffer("C", 8, scope=Scope.OUTPUT)]
    prog = program(buffers, body)
    if words is None:  # dtypes come from the buffers
        build(prog, Target())
        return
    with pytest.raises(BuildError, match=words):
        build(prog, Target())
    with pytest.raises(BuildError, match=words):
        emit(prog, Target())


def test_register_index_that_varies_at_run_time_is_refused() -> None:
    acc = buffer("acc", 4, 8, scope=Scope.REGISTER)
    tile = Tile((), (("l", 8),), store("acc", (v("i"), L), f32(0.0)))
    with pytest.raises(BuildError, match="chosen at run time"):
        build(program([], For("i", c(4), Alloc(acc, tile))), Target())


def test_mixed_dtypes_are_refused() -> None:
    value = Binary("add", read("A", L), read("B", L, dtype="int32"))
    buffers = [buffer("A", 8), buffer("B", 8, dtype="int32"),
               buffer("C", 8, scope=Scope.OUTPUT)]  # fmt: skip
    with pytest.raises(BuildError, match="int32 where float32 is due"):
        build(program(buffers, Tile((), (("l", 8),), store("C", (L,), value))), Target())


@pytest.mark.parametrize(
    "text",
    ["a[0] = __import__('os')", "a[0] = b.c", "a[0] = (lambda: 1)()", "a[0] = [1][0]",
     "a[0] -= b[0]", "import os", "a[0] = 'x'", "a[0] = b[0] < c[0] < d[0]", "a[0] = b[0] ** 2",
     "a[0] = eval('1')", "a[0], b[0] = argmax((b[0], a[0]), (c[0], 1))"],
)  # fmt: skip
def test_parser_accepts_listed_forms_of_python_only(text: str) -> None:
    with pytest.raises(ValueError, match="tile"):
        parse(text, types=dict.fromkeys("abcd", "float32*"))


def test_built_code_survives_a_pickle_and_damaged_code_is_refused() -> None:
    built = build(matmul(8, 48, 4), Target())
    again = pickle.loads(pickle.dumps(built))
    assert again == built
    assert load(again).phases == built.phases
    with pytest.raises(BuildError):
        load(Built((b"no object",), built.phases, built.buffers))


def test_offsets_are_printed_as_sums() -> None:
    i = v("i")
    copied = store("C", (i, add(L, c(1))), read("A", add(i, c(-1)), L))
    tile = Tile((), (("l", 8),), copied, Binary("ge", i, c(1)))
    buffers = [buffer("A", 7, 9), buffer("C", 7, 9, scope=Scope.OUTPUT)]
    prog = program(buffers, For("i", c(7), tile))
    assert "b1[i0 * 9 + l + 1] = b0[i0 * 9 + l - 9]" in emit(prog, Target()).source
