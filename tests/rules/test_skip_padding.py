"""SkipPadding: the products with zeros around a tensor are not computed, and the rest is right.

The first plan of each sketch; `make test-all` has two.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from ansorpy.codegen.loader import build, build_source, load
from ansorpy.codegen.numba_source import emit
from ansorpy.errors import StepError
from ansorpy.expr.expr import variables
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Program, Tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all, verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rewrites.padding import find_padding
from ansorpy.rules import CPU, RELEASED_CPU, SkipPadding
from ansorpy.sketch import derive
from ansorpy.state import steps
from ansorpy.state.state import State
from ansorpy.target import Target
from ansorpy.te.check import check
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import (
    Window,
    conv1d,
    conv2d,
    conv2d_bias_relu,
    conv2d_nhwc,
    conv3d,
    matmul,
    transposed_conv2d,
)
from tests.night import night

TARGET = Target(cores=2)
# cuts rows, too
TIGHT = (SkipPadding("SSRSRS", level=1, share=1 / 64, tile=6, strided=3), *RELEASED_CPU)
DAGS = {
    "same": conv2d(1, 3, 7, 7, 20, 3, Window(padding=1)),
    "odd sizes": conv2d(2, 3, 5, 9, 17, 3, Window(padding=1)),
    "strided": conv2d(1, 3, 9, 8, 16, 3, Window(stride=2, padding=1)),
    "dilated": conv2d(1, 2, 9, 7, 16, 3, Window(padding=2, dilation=2)),
    "wide": conv2d(1, 2, 4, 5, 16, 5, Window(padding=3)),
    "one row": conv1d(1, 3, 11, 16, 3, Window(padding=1)),
    "three": conv3d(1, 2, 3, 4, 5, 16, 3, Window(padding=1)),
    "last": conv2d_nhwc(1, 6, 7, 3, 18, 3, Window(padding=1)),
    "followed": conv2d_bias_relu(1, 3, 6, 5, 16, 3, Window(padding=1)),
    "transposed": transposed_conv2d(1, 2, 5, 6, 16, 4, stride=2, padding=1),
}
PADDED = {name: dag for name, dag in DAGS.items() if name not in ("transposed", "followed")}


def programs(
    dag: Dag, rules: tuple[object, ...] = CPU, rows: int = 1, most: int = 1
) -> Iterator[Program]:
    """Yield programs of the first plans of the sketches that leave the padding out."""
    for sketch in derive(dag, TARGET, rules).sketches:  # type: ignore[arg-type]
        if any(isinstance(step, steps.SkipPadding) for step in sketch.steps):
            for plan in plans(sketch, TARGET)[:most]:
                for row in sample(plan, rows, np.random.default_rng(1)):
                    yield bind(plan, row, TARGET)


@pytest.mark.parametrize("dag", DAGS.values(), ids=DAGS)
@pytest.mark.parametrize("rules", [CPU, TIGHT], ids=["whole rows", "cut rows"])
@pytest.mark.parametrize("most", night((1, 2), [1]))
def test_programs_are_right(dag: Dag, rules: tuple[object, ...], most: int) -> None:
    if rules is TIGHT and dag is DAGS["transposed"]:
        rules = (*CPU[:1], *TIGHT)
    cases = make_cases(dag, 0)[:1]
    found = list(programs(dag, rules, most=most))
    assert found
    for program in found:
        got = run(program, cases[0].inputs)
        failed = compare_all(cases[0], got.__getitem__, program.by_name)
        assert failed is None, failed.message


@pytest.mark.parametrize("dag", PADDED.values(), ids=PADDED)
@pytest.mark.parametrize("most", night((1, 2), [1]))
def test_no_product_meets_the_padding(dag: Dag, most: int) -> None:
    """With infinite weights one product with a zero would give a NaN."""
    ones = {p.name: np.ones(p.shape, p.dtype) for p in dag.placeholders}
    ones["W"] *= np.inf
    for program in programs(dag, most=most):
        (got,) = (run(program, ones)[name] for name in dag.outputs)
        assert np.all(got == np.inf)


@pytest.mark.parametrize("source", [False, True], ids=["llvm", "numba"])
def test_compiled_code_is_right(source: bool) -> None:
    dag = DAGS["odd sizes"]
    program = next(programs(dag, TIGHT))
    built = build_source(emit(program, TARGET), TARGET) if source else build(program, TARGET)
    failed = verify(load(built), program.buffers, make_cases(dag, 0), constants(dag))
    assert failed is None, failed.message


@pytest.mark.parametrize("dag", PADDED.values(), ids=PADDED)
def test_the_step_keeps_the_meaning(dag: Dag) -> None:
    conv = dag.outputs[0]
    state = State.naive(dag).do(steps.SkipPadding(conv, "pad"))
    other = replace(dag, nodes=tuple(stage.node for stage in state.stages))
    check(other)
    rng = np.random.default_rng(0)
    inputs = {p.name: rng.standard_normal(p.shape).astype(p.dtype) for p in dag.placeholders}
    for a, b in zip(evaluate(dag, inputs), evaluate(other, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


def test_the_share_of_products_that_are_left_out() -> None:
    dag = DAGS["same"]
    found, _ = find_padding(dag.node("pad"), dag.node("conv"))
    assert found is not None
    assert found.share == pytest.approx(1 - (19 / 21) ** 2)
    assert [[axis.name for axis in one] for one in found.dimensions] == [["h"], ["w"]]
    assert [axis.name for axis in found.others] == ["f"]


def masked(program: Program) -> list[Tile]:
    """Return the tiles of a program that leave out some of their points."""
    every = [stmt for phase in program.phases for stmt in walk_stmt(phase.body)]
    return [stmt for stmt in every if isinstance(stmt, Tile) and stmt.mask is not None]


@pytest.mark.parametrize(
    ("dag", "places"),
    [
        (conv2d(1, 3, 7, 7, 32, 3, Window(padding=1)), {28, 21}),
        (conv2d_nhwc(1, 7, 7, 3, 32, 3, Window(padding=1)), {7}),
    ],
    ids=["neighbours", "far apart"],
)
def test_strided_positions_make_small_tiles(dag: Dag, places: set[int]) -> None:
    """Pixels of NHWC are as far apart as there are channels: the tile has more filters instead."""
    found, _ = find_padding(dag.node("pad"), dag.node("conv"))
    assert found is not None
    assert found.strided is (places == {7})
    for program in programs(dag):
        tiles = masked(program)
        assert tiles
        assert {prod(n for name, n in t.dims if ":f." not in name) for t in tiles} == places


def test_masks_are_known_when_the_code_is_written() -> None:
    """A tile of whole rows needs no condition that is asked while it runs."""
    for program in programs(conv2d(1, 3, 7, 7, 16, 3, Window(padding=1))):
        every = [stmt for phase in program.phases for stmt in walk_stmt(phase.body)]
        tiles = [stmt for stmt in every if isinstance(stmt, Tile)]
        assert any(tile.hints.reload for tile in tiles)
        for tile in tiles:
            points = {name for name, _ in (*tile.dims, *((tile.lane,) if tile.lane else ()))}
            assert tile.mask is None or variables(tile.mask) <= points


def test_unpadded_stages_are_refused() -> None:
    with pytest.raises(StepError, match="'A' is an input"):
        State.naive(matmul(4, 4, 4)).do(steps.SkipPadding("C", "A"))


def test_released_rules_keep_the_padding() -> None:
    for sketch in derive(DAGS["same"], TARGET, RELEASED_CPU).sketches:
        assert "pad" in sketch.index
