"""Rows that the threads of a block keep in registers."""

import numpy as np
import pytest

from ansorpy.codegen.simt.writer import simt_code
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import Alloc, Program, Scope, Tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.plan.plan import Plan
from ansorpy.plan.threads import ROW_REGISTERS, THREADS
from ansorpy.population import sample
from ansorpy.population.legal import legal
from ansorpy.rules import CUDA
from ansorpy.sketch import derive
from ansorpy.target import cuda_target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import layer_norm, matmul, reduce_rows, softmax

GPU = cuda_target("sm_90")


def plans(dag: Dag) -> tuple[Plan, ...]:
    return all_plans(derive(dag, GPU, CUDA).sketches, GPU)


def row_of(plan: Plan, **values: int) -> tuple[int, ...]:
    """Return the smallest row, some sizes given."""
    return tuple(
        values.get(size.name.rsplit(".", 1)[-1], least)
        for size, least in zip(plan.sizes, plan.smallest_row, strict=True)
    )


def scopes(program: Program) -> list[Scope]:
    return [
        part.buffer.scope
        for phase in program.phases
        for part in walk_stmt(phase.body)
        if isinstance(part, Alloc)
    ]


def threads(plan: Plan) -> tuple[int, ...]:
    return next((size.values for size in plan.sizes if size.name == THREADS), ())


@pytest.mark.parametrize(
    ("columns", "values"),
    [
        (17, (32,)),
        (128, (32, 64, 128)),
        (3000, (64, 128, 256, 512, 1024)),
        (65536, (1024,)),
    ],
)
def test_the_threads_of_a_row_have_64_elements_at_most(
    columns: int, values: tuple[int, ...]
) -> None:
    assert {threads(plan) for plan in plans(softmax(4, columns))} == {values}


def test_tiles_of_a_fixed_number_of_lanes_leave_no_choice() -> None:
    assert {threads(plan) for plan in plans(matmul(64, 64, 64))} == {()}
    assert all(len(threads(plan)) == 6 for plan in plans(reduce_rows(64, 4096)))


@pytest.mark.parametrize("columns", [32, 100, 4096, 60000])
def test_a_row_is_read_once_and_stays_in_registers(columns: int) -> None:
    for plan in plans(softmax(8, columns)):
        program = bind(plan, row_of(plan, threads=max(threads(plan))), GPU)
        assert set(scopes(program)) == {Scope.REGISTER}
        (phase,) = program.phases
        tiles = [part for part in walk_stmt(phase.body) if isinstance(part, Tile)]
        assert sum("X[" in str(tile.store.values[0]) for tile in tiles) == 1


def test_rows_that_exceed_the_registers_are_no_legal_candidates() -> None:
    """A row of layer_norm with its scale and shift: three registers for every element."""
    (*_, plan) = plans(layer_norm(8, 4096))
    counts = {n: 3 * 4096 // n for n in threads(plan)}
    rows = np.array([row_of(plan, threads=n) for n in counts])
    assert [bool(fits) for fits in legal(plan, rows)] == [
        n <= ROW_REGISTERS for n in counts.values()
    ]
    assert {n <= ROW_REGISTERS for n in counts.values()} == {True, False}


@pytest.mark.parametrize("dag", [softmax(7, 83), layer_norm(7, 83)], ids=lambda dag: dag.name)
def test_a_kept_row_has_the_meaning_of_the_dag(dag: Dag) -> None:
    rng = np.random.default_rng(0)
    (case, *_) = make_cases(dag, 0)
    for plan in plans(dag):
        for row in sample(plan, 4, rng):
            program = bind(plan, tuple(map(int, row)), GPU)
            with np.errstate(all="ignore"):
                got = run(program, case.inputs)
            assert compare_all(case, got.__getitem__, program.by_name) is None


def test_rows_of_a_warp_share_a_block() -> None:
    (plan, *_) = plans(softmax(10, 32))
    (launch,) = simt_code(bind(plan, row_of(plan), GPU), GPU).launches
    assert (launch.blocks, launch.threads) == (3, 128)
    (plan, *_) = plans(softmax(10, 64))
    (launch,) = simt_code(bind(plan, row_of(plan, threads=64), GPU), GPU).launches
    assert (launch.blocks, launch.threads) == (10, 64)
