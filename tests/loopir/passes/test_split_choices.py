"""Loops over joined values: an iteration within one part reads this part without a choice."""

import numpy as np
import pytest

from ansorpy import te, topi
from ansorpy.expr.expr import Select, walk
from ansorpy.loopir.interp import run
from ansorpy.loopir.nodes import For, Program
from ansorpy.loopir.passes.split_choices import MOST_PARTS
from ansorpy.loopir.rewrite import stores, walk_stmt
from ansorpy.plan.bind import passes
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target

ROWS = 3


def stages(extents: tuple[int, ...], seed: int = 0) -> dict[str, Program]:
    """Return the programs after each pass of a join of rows, in a drawn candidate."""
    parts = [te.placeholder((ROWS, n, 2), f"x{k}", "float32") for k, n in enumerate(extents)]
    dag = te.dag([topi.concat(parts, 1)], "join")
    target = Target(vector_bits=128, cores=2)
    rng = np.random.default_rng(seed)
    every = plans(derive(dag, target, CPU).sketches[0], target, 12)
    plan = every[int(rng.integers(len(every)))]
    (row,) = sample(plan, 1, rng)
    return dict(passes(plan, row, target))


@pytest.mark.parametrize("extents", [(9, 36), (5, 1, 3), (1,) * 70, (2,) * 33, (40, 2, 2, 40)])
@pytest.mark.parametrize("seed", range(2))
def test_split_loops_join_the_parts(extents: tuple[int, ...], seed: int) -> None:
    rng = np.random.default_rng(seed)
    arrays = [rng.random((ROWS, n, 2), np.float32) for n in extents]
    made = stages(extents, seed)
    for name in ("split_choices", "prefetch"):
        given = {f"x{k}": array for k, array in enumerate(arrays)}
        np.testing.assert_array_equal(run(made[name], given)["concat"], np.concatenate(arrays, 1))


def choices(program: Program) -> int:
    return sum(
        isinstance(expr, Select)
        for phase in program.phases
        for store in stores(phase.body)
        for value in store.values
        for expr in walk(value)
    )


def test_no_choice_is_left_where_a_tile_lies_in_one_part() -> None:
    made = stages((8, 16, 8))  # a loop over the rows of two elements
    assert choices(made["peel"]) > 0
    assert choices(made["split_choices"]) == 0


def test_the_code_of_many_parts_is_bounded() -> None:
    loops = [
        sum(isinstance(part, For) for phase in made.phases for part in walk_stmt(phase.body))
        for made in (stages((2,) * n)["split_choices"] for n in (MOST_PARTS, 2 * MOST_PARTS))
    ]
    assert max(loops) <= 4 * MOST_PARTS


def test_a_loop_of_a_reduction_stays_one_loop() -> None:
    """Its accumulators are promoted to registers around one loop."""
    x, y = (te.placeholder((4, n), name, "float32") for name, n in (("x", 8), ("y", 24)))
    dag = te.dag([topi.sum(topi.concat([x, y], 1), 1)], "sum")
    target = Target(vector_bits=128)
    for sketch in derive(dag, target, CPU).sketches:
        if any(stage.name.endswith(".rf") for stage in sketch.stages):
            continue  # parts of the sum are spatial there
        for plan in plans(sketch, target, 12):
            (row,) = sample(plan, 1, np.random.default_rng(0))
            made = dict(passes(plan, row, target))
            before, after = (
                [s for phase in made[name].phases for s in stores(phase.body) if s.combiner]
                for name in ("peel", "split_choices")
            )
            assert len(before) == len(after) > 0
