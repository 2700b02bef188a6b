"""Tiles written from the outline of another one: the same code, and fewer texts."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from ansorpy.codegen import llvm_ir
from ansorpy.codegen.outline import lifted, outline
from ansorpy.codegen.tile_text import Scoped, TileText, tile_text
from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Expr, Read, Var
from ansorpy.loopir.nodes import For, Program, Scope, Seq, Store, Tile
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu, layer_norm, matmul_relu
from tests.codegen.programs import add, buffer, c, mul, program, read, store
from tests.codegen.running import run_llvm

DAGS: tuple[Callable[[], Dag], ...] = (
    lambda: matmul_relu(33, 64, 48),
    lambda: conv2d_bias_relu(1, 8, 10, 10, 16, 3, Window(padding=1)),
    lambda: layer_norm(20, 48),
)


def programs(dag: Dag, count: int) -> Iterator[Program]:
    """Yield random candidates of random plans."""
    target, rng = Target(), np.random.default_rng(5)
    plans = list(all_plans(derive(dag, target, CPU).sketches, target))
    for number in rng.integers(0, len(plans), count):
        for row in sample(plans[number], 1, rng):
            try:
                yield bind(plans[number], row.tolist(), target)
            except LoweringError:
                continue


@pytest.mark.parametrize("dag", DAGS)
def test_same_code_as_from_texts_of_their_own(
    dag: Callable[[], Dag], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [0]

    def counted(tile: Tile, scope: Scoped) -> TileText:
        texts[0] += 1
        return tile_text(tile, scope)

    monkeypatch.setattr(llvm_ir, "tile_text", counted)
    found = list(programs(dag(), 6))
    shared = [llvm_ir.module_text(program, Target()) for program in found]
    few, texts[0] = texts[0], 0
    monkeypatch.setattr(llvm_ir, "outline", lambda tile, held: None)
    assert [llvm_ir.module_text(program, Target()) for program in found] == shared
    assert few <= texts[0]


def test_unrolled_copies_share_a_text(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Tile] = []

    def noted(tile: Tile, scope: Scoped) -> TileText:
        asked.append(tile)
        return tile_text(tile, scope)

    monkeypatch.setattr(llvm_ir, "tile_text", noted)
    buffers = [buffer("A", "float32", (8,)), buffer("C", "float32", (1,), Scope.OUTPUT)]
    copies = [
        Tile((), (), store("C", [c(0)], read("A", add(mul(Var("k"), 4), c(i))), "sum"))
        for i in range(4)
    ]
    start = Tile((), (), store("C", [c(0)], c(0.0, "float32")))
    body = Seq((start, For("k", c(2), Seq(tuple(copies)))))
    numbers = np.arange(8, dtype=np.float32)
    found = run_llvm(program(buffers, body), {"A": numbers})["C"]
    assert found[0] == numbers.sum()
    # One to start with; and C[0] and A[4 k + 0] have the same constant in the first copy only.
    assert len(asked) == 3


def one(*indices: Expr) -> Tile:
    value = Binary("mul", Read("A", indices, "float32"), Read("r", (Var("u"),), "float32"))
    return Tile((("u", 4),), (), Store(("C",), (add(Var("u"), c(7)),), (value,), "sum"))


def held(name: str) -> bool:
    return name == "r"


def test_equal_constants_have_one_name() -> None:
    tiles = [one(add(mul(Var("k"), 4), c(n)), add(Var("u"), c(m))) for n, m in ((1, 2), (3, 3))]
    found = [outline(tile, held) for tile in tiles]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].numbers == (7, 1, 2)
    assert found[1].numbers == (7, 3)
    assert found[0].key != found[1].key
    store = lifted(tiles[1], found[1], held).store
    assert str(store.index[0]) == "(u + #0)"
    assert str(store.values[0]) == "(A[((k * 4) + #1), (u + #1)] * r[u])"


def test_what_divides_has_no_outline() -> None:
    assert outline(one(Binary("floordiv", add(Var("k"), c(1)), c(2))), held) is None
    assert outline(one(mul(Var("k"), Var("j"))), held) is None
