"""Lane axes of a GPU: the best candidate of a row operator touches the fewest sectors."""

import numpy as np
import pytest

from ansorpy.codegen.simt.launch import Launch
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, Program, Scope
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.population import sample
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads

GPU = cuda_target("sm_90")


def plans(dag: Dag) -> tuple[Plan, ...]:
    return all_plans(derive(dag, GPU, CUDA).sketches, GPU)


def lanes(plan: Plan) -> tuple[str | None, ...]:
    return tuple(choice.lane for _, choice in plan.choices)


@pytest.mark.parametrize(
    ("dag", "best"),
    [
        (workloads.reduce_rows(2000, 300), ("k",)),
        (workloads.reduce_columns(300, 2000), ("j",)),
        (workloads.reduce_columns(300, 4), ("j",)),
        (workloads.argmax(2000, 300), ("k",)),
        (workloads.max_pool2d(1, 8, 56, 56, 3, 2, 1), ("w",)),
    ],
    ids=lambda value: value.name if isinstance(value, Dag) else "",
)
def test_the_first_plan_runs_along_memory(dag: Dag, best: tuple[str, ...]) -> None:
    (first, *_) = plans(dag)
    assert lanes(first) == best


def split(dag: Dag) -> list[Plan]:
    """Return the plans whose reduction is divided among blocks."""
    return [plan for plan in plans(dag) if len(plan.choices) == 2]


SPLIT = {
    "rows": workloads.reduce_rows(3, 9001),
    "columns": workloads.reduce_columns(5003, 7),
    "all": workloads.reduce_all(70, 101),
    "argmax": workloads.argmax(2, 6007),
    "product": workloads.reduce_rows(2, 4099, "prod"),
}


@pytest.mark.parametrize("name", SPLIT)
def test_a_long_reduction_takes_two_launches_of_the_same_meaning(name: str) -> None:
    dag, rng = SPLIT[name], np.random.default_rng(1)
    found = split(dag)
    assert found
    (case, *_) = make_cases(dag, 0)
    for plan in found[:4]:
        (row,) = sample(plan, 1, rng)
        program = bind(plan, tuple(map(int, row)), GPU)
        assert len(simt_code(program, GPU).launches) == 2
        with np.errstate(all="ignore"):
            got = run(program, case.inputs)
        assert compare_all(case, got.__getitem__, program.by_name) is None


def test_parts_of_a_reduction_are_blocks_and_its_sums_stay_in_registers() -> None:
    (plan, *_) = split(workloads.reduce_rows(3, 900_000))
    sizes = {"out.k.1": 88, "out.rf.vec": 1024, "threads": 256}
    row = [
        sizes.get(size.name, least)
        for size, least in zip(plan.sizes, plan.smallest_row, strict=True)
    ]
    program = bind(plan, row, GPU)
    first, second = simt_code(program, GPU).launches
    assert first == Launch("phase0", 3 * 10, 256, 32)
    assert (second.blocks, second.threads) == (3, 128)
    assert scopes(program) == {Scope.REGISTER}


def scopes(program: Program) -> set[Scope]:
    return {
        part.buffer.scope
        for phase in program.phases
        for part in walk_stmt(phase.body)
        if isinstance(part, Alloc)
    }


@pytest.mark.parametrize("columns", [999, 1000, 1001])
def test_the_tail_of_a_row_has_the_threads_of_its_other_steps(columns: int) -> None:
    plan = next(p for p in plans(workloads.reduce_rows(4, columns)) if lanes(p) == ("k",))
    for row in sample(plan, 6, np.random.default_rng(0)):
        assert scopes(bind(plan, tuple(map(int, row)), GPU)) <= {Scope.REGISTER}
