"""InlineTranspose, and packing by blocks of registers: one copy, with the right values."""

import numpy as np
import pytest

from ansorpy import te
from ansorpy.codegen.loader import build, load
from ansorpy.loopir.interp import run
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all, verify
from ansorpy.measure.verify.inputs import constants
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU, InlineTranspose
from ansorpy.sketch import derive
from ansorpy.state.state import Inlined
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import transpose_batch_matmul
from tests.rules.cursors import at

TARGET = Target(cores=1)


def rows_of_both(n: int, m: int, depth: int, dtype: str = "float32") -> Dag:
    """Both operands lie along the sum: A[n, depth] B[m, depth]^T."""
    a, b = te.placeholder((n, depth), "A", dtype), te.placeholder((m, depth), "B", dtype)
    k = te.reduce_axis((0, depth), "k")
    out = te.compute((n, m), lambda i, j: te.sum(a[i, k] * b[j, k], axis=k), "C")
    return te.dag(out, "rows_of_both")


def test_a_transpose_is_inlined_into_readers_that_pack() -> None:
    for sketch in derive(transpose_batch_matmul(1, 128, 12, 64), TARGET, CPU).sketches:
        assert isinstance(sketch.stage("query_T").location, Inlined)
        assert isinstance(sketch.stage("value_T").location, Inlined)


def test_other_stages_are_left_alone() -> None:
    a = te.placeholder((4, 6), "A")
    turned = te.compute((6, 4), lambda i, j: a[j, i], "turned")
    same = te.compute((6, 4), lambda i, j: turned[i, j], "same")
    out = te.compute((6, 4), lambda i, j: same[i, j] + 1.0, "out")
    dag = te.dag(out, "no_reduction")
    rule = InlineTranspose()
    assert "needs no tiling" in rule.explain(at(dag, "turned")).why
    assert "is not a transpose" in rule.explain(at(dag, "same")).why
    assert "is not a transpose" in rule.explain(at(dag, "out")).why
    assert "it is an output" in rule.explain(at(te.dag(turned, "only"), "turned")).why


@pytest.mark.parametrize(
    "dag",
    [
        transpose_batch_matmul(2, 5, 3, 4),
        transpose_batch_matmul(1, 19, 2, 17),
        rows_of_both(3, 40, 35),
        rows_of_both(5, 17, 16, "float64"),
        rows_of_both(4, 7, 4),
    ],
    ids=["small", "ragged", "long rows", "float64", "short rows"],
)
def test_programs_are_right(dag: Dag) -> None:
    cases = make_cases(dag, 0)
    packed = 0
    for sketch in derive(dag, TARGET, CPU).sketches:
        for number, plan in enumerate(plans(sketch, TARGET)[:4]):
            (row,) = sample(plan, 1, np.random.default_rng(number))
            program = bind(plan, row, TARGET)
            packed += any(phase.name.endswith(".pack") for phase in program.phases)
            got = run(program, cases[0].inputs)
            failed = compare_all(cases[0], got.__getitem__, program.by_name)
            assert failed is None, failed
            if number == 0:
                loaded = load(build(program, TARGET))
                assert verify(loaded, program.buffers, cases, constants(dag)) is None
    assert packed
