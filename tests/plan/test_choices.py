import pytest

from ansorpy.plan.choices import all_plans, naive, plans
from ansorpy.rules import CPU, RELEASED_CPU
from ansorpy.sketch import derive
from ansorpy.state.state import Attached, Inlined, Root
from ansorpy.target import Target
from ansorpy.topi.suites import LIBRARY
from ansorpy.topi.workloads import attention

TARGET = Target(cores=2)


@pytest.mark.parametrize("name", LIBRARY)
def test_every_sketch_of_every_builder_has_a_plan(name: str) -> None:
    sketches = derive(LIBRARY[name](), TARGET, CPU).sketches
    for sketch in sketches[:24]:
        assert plans(sketch, TARGET, limit=2), sketch


@pytest.mark.parametrize(("tokens", "depth"), [(29, 1), (1, 29), (17, 16)])
def test_an_operand_that_is_never_whole_is_not_packed(tokens: int, depth: int) -> None:
    dag = attention(tokens, tokens, depth)
    for sketch in derive(dag, TARGET, CPU).sketches:
        assert plans(sketch, TARGET), sketch


def test_the_naive_plan_has_no_choices_and_no_tile() -> None:
    plan = naive(LIBRARY["matmul_relu"](), TARGET)
    assert plan.choices == ()
    assert {size.role for size in plan.sizes} <= {"unroll"}


def test_plans_of_a_sketch_differ_and_stay_within_the_limit() -> None:
    sketch = derive(LIBRARY["conv2d"](), TARGET, RELEASED_CPU).sketches[0]
    found = plans(sketch, TARGET, limit=10)
    assert len(found) == 10
    assert len({plan.choices for plan in found}) == 10


def test_a_fused_consumer_and_its_tiled_stage_share_their_lanes() -> None:
    for sketch in derive(LIBRARY["matmul_relu"](), TARGET, CPU).sketches[:2]:
        for plan in plans(sketch, TARGET):
            choice = dict(plan.choices)
            lane = {"i": "i0", "j": "i1"}[choice["C"].lane or ""]
            assert choice["relu"].lane == lane


def test_padding_is_tried_everywhere() -> None:
    sketches = derive(LIBRARY["conv2d"](), TARGET, RELEASED_CPU).sketches
    places = {
        type(dict(plan.choices)["pad"].location) for s in sketches for plan in plans(s, TARGET)
    }
    assert places == {Root, Attached, Inlined}


def test_one_core_runs_no_parallel_loops() -> None:
    sketch = derive(LIBRARY["matmul"](), Target(cores=1), CPU).sketches[0]
    for plan in plans(sketch, Target(cores=1)):
        assert all(choice.parallel == 0 for _, choice in plan.choices)


def test_a_task_with_many_sketches_shares_its_plans_among_them() -> None:
    sketches = derive(LIBRARY["attention"](), TARGET, RELEASED_CPU).sketches
    assert len(sketches) == 81
    found = all_plans(sketches, TARGET, limit=96)
    assert len(found) == 81
