"""StreamReduction: its condition, its loops, and equal results."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.loader import build, load
from ansorpy.loopir.interp import run
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all, verify
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU, RELEASED_CPU, Skip, StreamReduction
from ansorpy.sketch import derive
from ansorpy.state.rule import Verdict
from ansorpy.state.state import State
from ansorpy.target import Target
from ansorpy.te.dag import Attrs, Compute, Dag
from ansorpy.topi.workloads import (
    argmax,
    matmul,
    max_pool2d,
    reduce_all,
    reduce_columns,
    reduce_rows,
)
from tests.rules.cursors import at

RULE = StreamReduction()
NARROW = Target(cores=2, vector_bits=128, registers=16)  # rows of more than 32 floats


def batch_columns(batch: int, rows: int, columns: int) -> Dag:
    x = te.placeholder((batch, rows, columns), "X")
    k = te.reduce_axis((0, rows), "k")
    out = te.compute((batch, columns), lambda n, j: te.max(x[n, k, j], k), "out")
    return te.dag(out, "batch_columns")


def mean_image(count: int, height: int, width: int) -> Dag:
    x = te.placeholder((count, height, width), "X")
    k = te.reduce_axis((0, count), "k")
    total = te.compute((height, width), lambda h, w: te.sum(x[k, h, w], k), "total")
    return te.dag(te.compute((height, width), lambda h, w: total[h, w] / count, "mean"))


def channel_squares(count: int, height: int, width: int, channels: int) -> Dag:
    x = te.placeholder((count, height, width, channels), "X", "float64")
    n, h = te.reduce_axis((0, count), "n"), te.reduce_axis((0, height), "h")
    w = te.reduce_axis((0, width), "w")
    squares = te.compute(
        (channels,), lambda c: te.sum(x[n, h, w, c] * x[n, h, w, c], (n, h, w)), "squares"
    )
    return te.dag(squares, "channel_squares")


def column_argmax(rows: int, columns: int) -> Dag:
    x = te.placeholder((rows, columns), "X")
    k = te.reduce_axis((0, rows), "k")
    value, place = te.compute((columns,), lambda j: te.argmax(x[k, j], axis=k), "best")
    return te.dag((value, place), "column_argmax")


def distances(rows: int, columns: int) -> Dag:
    """The mean of every column is read, element-wise, before its deviations are summed."""
    x = te.placeholder((rows, columns), "X")
    k, q = te.reduce_axis((0, rows), "k"), te.reduce_axis((0, rows), "q")
    total = te.compute((columns,), lambda j: te.sum(x[k, j], k), "total")
    far = te.compute((columns,), lambda j: te.sum(abs(x[q, j] - total[j] / rows), q), "far")
    return te.dag(far, "distances")


def backwards(rows: int, columns: int) -> Dag:
    x = te.placeholder((rows, columns), "X")
    k = te.reduce_axis((0, rows), "k")
    back = te.compute((columns,), lambda j: te.sum(x[rows - 1 - k, columns - 1 - j], k), "out")
    return te.dag(back, "backwards")


STREAMED = [
    reduce_columns(20, 150),
    reduce_columns(64, 40, "prod", "float64"),
    reduce_columns(17, 70, "min", "int32"),
    batch_columns(3, 19, 45),
    mean_image(16, 7, 11),
    channel_squares(2, 5, 3, 37),
    column_argmax(21, 52),
    distances(18, 90),
]


@pytest.mark.parametrize("dag", STREAMED, ids=lambda d: d.name)
def test_every_row_of_every_plan_is_right(dag: Dag) -> None:
    cases = make_cases(dag, 3)
    rng = np.random.default_rng(7)
    for sketch in derive(dag, NARROW, (RULE, Skip())).sketches[:2]:
        for plan in plans(sketch, NARROW)[:2]:
            for row in sample(plan, 2, rng):
                program = bind(plan, row.tolist(), NARROW)
                with np.errstate(all="ignore"):
                    got = run(program, cases[0].inputs)
                failed = compare_all(cases[0], got.__getitem__, program.by_name)
                assert failed is None, (failed, plan.choices, row)
                assert verify(load(build(program, NARROW)), program.buffers, cases, {}) is None


def streamed(dag: Dag) -> list[str]:
    state = State.naive(dag)
    return [s.name for s in state.stages if RULE.condition(at(dag, s.name, NARROW)).name == "APPLY"]


@pytest.mark.parametrize("dag", STREAMED, ids=lambda d: d.name)
def test_the_rule_applies_beside_the_others(dag: Dag) -> None:
    assert streamed(dag)
    count = len(derive(dag, NARROW, RELEASED_CPU).sketches)
    assert len(derive(dag, NARROW, CPU).sketches) > count


def test_whole_rows_are_added_to_a_block_of_accumulators() -> None:
    cursor = at(channel_squares(2, 5, 3, 37), "squares", NARROW)
    (after,) = RULE.rewrite(cursor)
    loops = [loop.name for loop in after.state.stage("squares").loops]
    assert loops == ["c.0", "n", "h", "w.0", "c.1", "w.1", "c.2"]
    (after,) = RULE.rewrite(at(mean_image(16, 7, 11), "total", NARROW))
    loops = [loop.name for loop in after.state.stage("total").loops]
    assert loops == ["h.0", "w.0", "k.0", "h.1", "w.1", "k.1", "w.2"]
    (after,) = RULE.rewrite(at(batch_columns(3, 19, 45), "out", NARROW))
    assert after.state.stage("out").loops[0].name == "n"


@pytest.mark.parametrize(
    ("dag", "stage", "why"),
    [
        (reduce_rows(40, 400), "out", "its reads have no common row"),
        (argmax(40, 400), "out", "its reads have no common row"),
        (backwards(40, 400), "out", "its reads have no common row"),
        (max_pool2d(1, 2, 64, 64), "pool", "its reads have no common row"),
        (matmul(40, 40, 400), "C", "reuses"),
        (reduce_columns(8, 400), "out", "8 rows of 400"),
        (reduce_columns(400, 32), "out", "400 rows of 32"),
        (mean_image(16, 7, 11), "mean", "it has no reduce axis"),
        (mean_image(16, 7, 11), "X", "it has no reduce axis"),
        (reduce_all(40, 400), "out", "it has no reduce axis, or no kept axis"),
    ],
)
def test_the_refusal_of_a_stream_names_the_obstacle(dag: Dag, stage: str, why: str) -> None:
    cursor = at(dag, stage, NARROW)
    assert RULE.condition(cursor) is Verdict.SKIP
    assert why in RULE.explain(cursor).why


def test_an_axis_that_stays_whole_is_not_split() -> None:
    dag = reduce_columns(40, 400)
    node = dag.node("out")
    assert isinstance(node, Compute)
    whole = replace(node, attrs=Attrs(no_split_inner=("j",)))
    dag = replace(dag, nodes=tuple(whole if n is node else n for n in dag.nodes))
    assert RULE.condition(at(dag, "out", NARROW)) is Verdict.SKIP


def test_operands_read_once_are_packed_only_if_constant() -> None:
    def packed(dag: Dag) -> set[str]:
        sketch = derive(dag, NARROW, CPU).sketches[0]
        every = plans(sketch, NARROW)
        return {name for plan in every for _, choice in plan.choices for name in choice.pack}

    dag = reduce_columns(40, 400)
    assert packed(dag) == set()
    x, rest = dag.placeholders[0], dag.nodes[1:]
    assert packed(replace(dag, nodes=(replace(x, constant=True), *rest))) == {"X"}
