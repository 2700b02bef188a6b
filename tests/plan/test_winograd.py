"""Winograd sketches as loops: the same numbers as the convolution, wherever tiles end.

Each convolution is compiled with tiles of 2 or of 4 outputs by turns, a row of every plan;
`make test-all` compiles both, two rows of every plan.
"""

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.loader import build, load
from ansorpy.loopir.interp import run
from ansorpy.measure.verify.cases import Case, make_cases
from ansorpy.measure.verify.check import compare_all, verify
from ansorpy.measure.verify.reformulated import reformulated
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU, WINOGRAD2, WINOGRAD4
from ansorpy.sketch import derive
from ansorpy.state.state import Inlined, State
from ansorpy.state.steps import Winograd, meaning
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv1d, conv2d, conv2d_bias_relu, conv2d_nhwc, conv3d
from tests.night import night

NARROW = Target(cores=1, vector_bits=128, registers=16)  # four lanes: small sizes have tails
SAME = Window(padding=1)
DAGS = {
    "even": lambda: conv2d(1, 8, 8, 8, 8, 3, SAME),
    "odd": lambda: conv2d(1, 5, 7, 9, 6, 3, SAME),
    "valid": lambda: conv2d(2, 3, 11, 6, 5, 3),
    "double": lambda: conv2d(1, 4, 6, 7, 5, 3, SAME, dtype="float64"),
    "bias relu": lambda: conv2d_bias_relu(1, 4, 9, 7, 5, 3, SAME, constant_weights=True),
    "nhwc": lambda: conv2d_nhwc(1, 7, 6, 5, 6, 3, SAME),
    "one dimension": lambda: conv1d(3, 6, 13, 5, 3, SAME),
    "three dimensions": lambda: conv3d(1, 3, 4, 5, 6, 4, 3, SAME),
    "dilated": lambda: conv2d(1, 5, 9, 8, 6, 3, Window(padding=2, dilation=2)),
    "dilated bias relu": lambda: conv2d_bias_relu(1, 4, 13, 12, 5, 3, Window(1, 3, 3)),
    "constant": lambda: conv2d(1, 6, 8, 5, 7, 3, SAME, constant_weights=True),
}


def sketch_of(dag: Dag, outputs: int, target: Target = NARROW) -> State:
    rules = {2: WINOGRAD2, 4: WINOGRAD4}[outputs]
    (found,) = (
        sketch
        for sketch in derive(dag, target, (*rules, *CPU)).sketches
        if any(isinstance(step, Winograd) for step in sketch.steps)
    )
    return found


def cases_of(dag: Dag, state: State) -> tuple[Case, ...]:
    return reformulated(make_cases(dag, 0), meaning(state))


def drawn(plan: Plan, count: int) -> list[tuple[int, ...]]:
    rows = sample(plan, count, np.random.default_rng(0))
    return [tuple(map(int, row)) for row in rows]


FEW = [
    ("odd", 4),
    ("dilated", 2),
    ("nhwc", 2),
    ("one dimension", 4),
    ("bias relu", 2),
]  # interpreting is slow
BY_TURNS = [(name, 4 - 2 * (k % 2), 1) for k, name in enumerate(DAGS)]
BOTH = [(name, m, 2) for name in DAGS for m in (2, 4) if (name, m) != ("three dimensions", 4)]


@pytest.mark.parametrize(("name", "outputs"), FEW)
def test_every_plan_means_the_convolution(name: str, outputs: int) -> None:
    dag = DAGS[name]()
    sketch = sketch_of(dag, outputs)
    case = cases_of(dag, sketch)[0]
    found = plans(sketch, NARROW)
    assert found
    for plan in found:
        for row in drawn(plan, 1):
            program = bind(plan, row, NARROW)
            assert compare_all(case, run(program, case.inputs).__getitem__, program.by_name) is None


@pytest.mark.parametrize(("name", "outputs", "rows"), night([*BY_TURNS, *BOTH], BY_TURNS))
def test_compiled_plans_pass_every_check(name: str, outputs: int, rows: int) -> None:
    dag = DAGS[name]()
    sketch = sketch_of(dag, outputs)
    cases = cases_of(dag, sketch)
    for plan in plans(sketch, NARROW):
        for row in drawn(plan, rows):
            built = build(bind(plan, row, NARROW), Target())
            assert verify(load(built), built.buffers, cases, {}) is None, (plan.choices, row)


def test_weights_that_are_constant_are_transformed_ahead() -> None:
    for name, ahead in (("constant", True), ("odd", False)):
        dag = DAGS[name]()
        for plan in plans(sketch_of(dag, 2), NARROW):
            marks = {phase.name: phase.ahead for phase in plan.program.phases}
            assert marks["conv.weights1"] is ahead
            assert not marks["conv"]
            packed = marks.get("conv.products.conv.weights1.pack", ahead)
            assert packed is ahead


def test_data_and_products_live_within_the_blocks_of_the_output() -> None:
    (plan, *_) = plans(sketch_of(DAGS["even"](), 4), NARROW)
    whole = {buffer.name for buffer in plan.program.buffers}
    assert whole.isdisjoint({"conv.data0", "conv.data1", "conv.products", "conv.output0"})


def test_a_convolution_goes_into_the_stage_that_takes_it_element_by_element() -> None:
    sketch = sketch_of(DAGS["bias relu"](), 2)
    assert isinstance(sketch.stage("conv").location, Inlined)
    assert str(sketch.stage("conv.products").location) == "at relu.i1.0"


def test_a_convolution_with_two_readers_hosts_itself() -> None:
    x, w = te.placeholder((4, 10, 10), "x"), te.placeholder((4, 4, 3, 3), "w")
    c, i, j = te.reduce_axis((0, 4), "c"), te.reduce_axis((0, 3), "i"), te.reduce_axis((0, 3), "j")
    conv = te.compute(
        (4, 8, 8), lambda f, h, v: te.sum(x[c, h + i, v + j] * w[f, c, i, j], (c, i, j)), "conv"
    )
    up = te.compute((4, 8, 8), lambda f, h, v: te.exp(conv[f, h, v]), "up")
    dag = te.dag(te.compute((4, 8, 8), lambda f, h, v: up[f, h, v] + conv[f, h, v], "both"))
    sketch = sketch_of(dag, 2)
    assert str(sketch.stage("conv.products").location) == "at conv.f.0"
    case = cases_of(dag, sketch)[0]
    plan = plans(sketch, NARROW)[0]
    (row,) = drawn(plan, 1)
    program = bind(plan, row, NARROW)
    assert compare_all(case, run(program, case.inputs).__getitem__, program.by_name) is None


def test_the_sizes_that_a_row_may_choose_are_few() -> None:
    """Everything that has one good value has it: vectors, tiles of outputs, squares."""
    (plan, *_) = plans(sketch_of(DAGS["even"](), 4), NARROW)
    assert {size.name for size in plan.sizes} == {
        "conv.h.1", "conv.w.1", "conv.f.1", "conv.products.h_tile.1", "conv.products.w_tile.1",
        "conv.products.f.1", "conv.products.unroll",
    }  # fmt: skip
