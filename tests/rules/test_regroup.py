"""SplitPhases and SplitGroups: equal meaning, fewer products, and stores without a copy.

Two plans of each sketch; `make test-all` has four.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from ansorpy.errors import StepError
from ansorpy.loopir.interp import run
from ansorpy.measure.verify.cases import make_cases
from ansorpy.measure.verify.check import compare_all
from ansorpy.oracle.reference import evaluate
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.population import sample
from ansorpy.rules import CPU, RELEASED_CPU
from ansorpy.sketch import derive
from ansorpy.state import steps
from ansorpy.state.state import State
from ansorpy.target import Target
from ansorpy.te.check import check
from ansorpy.te.dag import Compute, Dag
from ansorpy.topi.workloads import Window, conv2d, conv2d_bias_relu, matmul, transposed_conv2d
from tests.night import night

TARGET = Target(cores=2)
TRANSPOSED = [
    (4, 2, 1, 4, 3), (3, 2, 1, 3, 2), (3, 2, 0, 2, 3), (5, 3, 2, 3, 2), (2, 3, 0, 3, 3),
    (4, 4, 0, 3, 2), (5, 3, 1, 2, 2), (3, 3, 2, 3, 3), (1, 2, 0, 3, 2),
]  # fmt: skip


def transposed(kernel: int, stride: int, padding: int, height: int, width: int) -> Dag:
    return transposed_conv2d(1, 2, height, width, 3, kernel, stride=stride, padding=padding)


def with_nodes_of(dag: Dag, state: State) -> Dag:
    """Return the Dag that the stages of a state make up."""
    return replace(dag, nodes=tuple(stage.node for stage in state.stages))


def same_meaning(dag: Dag, other: Dag) -> None:
    check(other)
    rng = np.random.default_rng(0)
    inputs = {p.name: rng.standard_normal(p.shape).astype(p.dtype) for p in dag.placeholders}
    for a, b in zip(evaluate(dag, inputs), evaluate(other, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sizes", TRANSPOSED, ids=str)
def test_phases_have_the_meaning_of_the_whole(sizes: tuple[int, ...]) -> None:
    dag = transposed(*sizes)
    state = State.naive(dag).do(steps.SplitPhases("conv", "spread"))
    same_meaning(dag, with_nodes_of(dag, state))


def test_phases_leave_out_the_zeros() -> None:
    dag = transposed(4, 2, 1, 8, 8)
    state = State.naive(dag).do(steps.SplitPhases("conv", "spread"))
    old, new = dag.node("conv"), state.stage("conv_phases").node
    assert isinstance(old, Compute)
    assert isinstance(new, Compute)
    assert new.points * 4 == old.points


@pytest.mark.parametrize("groups", [2, 3, 6])
def test_groups_have_the_meaning_of_the_whole(groups: int) -> None:
    dag = conv2d(1, 6, 5, 4, 12, 3, Window(padding=1, groups=groups))
    state = State.naive(dag).do(steps.SplitGroups("conv"))
    same_meaning(dag, with_nodes_of(dag, state))


def test_stages_without_groups_or_phases_are_refused() -> None:
    naive = State.naive(matmul(4, 4, 4))
    with pytest.raises(StepError, match="C divides none of its axes"):
        naive.do(steps.SplitGroups("C"))
    conv = State.naive(conv2d(1, 2, 4, 4, 2, 3, Window(padding=1)))
    with pytest.raises(StepError, match="pad holds no zeros between its elements"):
        conv.do(steps.SplitPhases("conv", "pad"))


def every_kind(dag: Dag, most: int) -> Iterator[tuple[int, str | None]]:
    """Interpret rows of some plans of every sketch; yield (phases, mistake or None)."""
    cases = make_cases(dag, 0)[:1]
    for sketch in derive(dag, TARGET, CPU).sketches:
        for plan in plans(sketch, TARGET)[:most]:
            for row in sample(plan, 1, np.random.default_rng(1)):
                program = bind(plan, row, TARGET)
                got = run(program, cases[0].inputs)
                failed = compare_all(cases[0], got.__getitem__, program.by_name)
                yield len(program.phases), None if failed is None else failed.message


@pytest.mark.parametrize(
    "dag",
    [
        transposed(4, 2, 1, 4, 3),
        transposed(3, 2, 0, 2, 3),
        transposed(5, 3, 2, 3, 2),
        conv2d(1, 4, 5, 4, 8, 3, Window(padding=1, groups=2)),
        conv2d_bias_relu(1, 4, 5, 4, 8, 3, Window(padding=1, stride=2, groups=4)),
    ],
    ids=["even", "ragged", "stride 3", "groups", "groups, bias, relu"],
)
@pytest.mark.parametrize("most", night((2, 4), [2]))
def test_programs_are_right(dag: Dag, most: int) -> None:
    found = list(every_kind(dag, most))
    assert found
    assert {wrong for _, wrong in found} == {None}


def test_the_copy_is_dropped_if_every_element_has_one_destination() -> None:
    dag = conv2d(1, 4, 6, 16, 32, 3, Window(groups=2))
    for sketch in derive(dag, TARGET, CPU).sketches:
        for plan in plans(sketch, TARGET):
            assert "conv_groups" not in {b.name for b in plan.program.buffers}
            assert "conv" not in {phase.name for phase in plan.program.phases}


def test_a_copy_of_a_part_is_made() -> None:
    dag = transposed(3, 2, 0, 2, 3)  # 5 rows, of which one phase has 3 and one has 2
    plan = plans(derive(dag, TARGET, CPU).sketches[-1], TARGET)[0]
    assert "conv" in {phase.name for phase in plan.program.phases}


def test_operands_read_by_groups_and_backwards_are_packed() -> None:
    for dag in (transposed(4, 2, 1, 4, 3), conv2d(1, 4, 5, 4, 8, 3, Window(groups=2))):
        found = {
            tensor
            for sketch in derive(dag, TARGET, CPU).sketches
            for plan in plans(sketch, TARGET)
            for _, choice in plan.choices
            for tensor in choice.pack
        }
        assert "W" in found


def test_released_rules_split_neither_groups_nor_phases() -> None:
    dag = transposed(4, 2, 1, 4, 3)
    sketches = derive(dag, TARGET, RELEASED_CPU).sketches
    assert all("conv_phases" not in sketch.index for sketch in sketches)
