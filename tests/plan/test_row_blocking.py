"""Row blocking, and blocks within a block.

Every plan has one row of sizes; `make test-all` draws three.
"""

import numpy as np
import pytest

from ansorpy.loopir.interp import run
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.state.state import Attached
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import layer_norm, matmul_relu, softmax
from tests.night import night

TARGET = Target(cores=2)


def plans_of(dag: Dag) -> tuple[Plan, ...]:
    return all_plans(derive(dag, TARGET, CPU).sketches, TARGET)


def test_rows_are_in_blocks_where_reductions_are_computed_inside_of_them() -> None:
    found = [plan for plan in plans_of(softmax(64, 48)) if "softmax.rows" in plan.column]
    assert found
    for plan in found:
        places = [choice.location for _, choice in plan.choices]
        assert Attached("softmax", "i") in places
        assert plan.sizes[plan.column["softmax.rows"]].values == (1, 2, 4)


def test_a_block_has_no_more_rows_than_there_are() -> None:
    sizes = [size for plan in plans_of(softmax(2, 48)) for size in plan.sizes]
    assert {size.values for size in sizes if size.role == "rows"} == {(1, 2)}


def test_a_tiled_stage_has_tiles_and_no_blocks_of_rows() -> None:
    sizes = [size for plan in plans_of(matmul_relu(64, 64, 64)) for size in plan.sizes]
    assert not [size for size in sizes if size.role == "rows"]


@pytest.mark.parametrize("dag", [softmax(7, 19), layer_norm(19, 29)], ids=["softmax", "layer_norm"])
@pytest.mark.parametrize("rows", night((1, 3), [1]))
def test_blocks_of_rows_and_blocks_inside_of_blocks_are_right(dag: Dag, rows: int) -> None:
    """Sizes that nothing divides: of the last block's rows only those that are there are read."""
    rng = np.random.default_rng(7)
    (case, *_) = make_cases(dag, 7)
    for plan in plans_of(dag):
        for row in sample(plan, rows, rng):
            program = bind(plan, tuple(int(value) for value in row), TARGET)
            got = run(program, dict(case.inputs))
            failed = compare_all(case, got.__getitem__, program.by_name)
            assert failed is None, (failed, plan.choices, row)
