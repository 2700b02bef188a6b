"""Goldens of one candidate at every level, and the errors of lowering."""

import pytest

from ansorpy.errors import LoweringError
from ansorpy.loopir.printer import text
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.lower import lower
from ansorpy.plan.plan import Plan, StageChoice
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.state.state import Attached, Root, State
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads
from tests.conftest import Golden

TARGET = Target(cores=2)


def first_plan(dag: Dag, sketch: int, **wanted: str | tuple[str, ...] | None) -> Plan:
    """Return the most promising plan whose first tiled stage has the wanted choices."""
    for plan in plans(derive(dag, TARGET, CPU).sketches[sketch], TARGET):
        if all(
            getattr(choice, name) == value
            for name, value in wanted.items()
            for stage, choice in plan.choices
            if stage == "C"
        ):
            return plan
    raise AssertionError(f"no plan with {wanted}")


def row_of(plan: Plan, **sizes: int) -> list[int]:
    """Return a row: named values (dots as underscores), the smallest legal ones elsewhere."""
    return [
        sizes.get(
            size.name.replace(".", "_"),
            size.values[0] if size.values else size.multiple_of,
        )
        for size in plan.sizes
    ]


def test_golden_symbolic(golden: Golden) -> None:
    plan = first_plan(workloads.matmul_relu(21, 37, 11), 1, lane="j", pack=("B",))
    golden.check(text(plan.program))


def test_golden_tiled_where_sizes_do_not_divide(golden: Golden) -> None:
    plan = first_plan(workloads.matmul_relu(21, 37, 11), 1, lane="j", pack=("B",))
    row = row_of(plan, C_i_1=2, C_i_3=4, C_j_3=16, C_k_1=11)
    golden.check(text(bind(plan, row, TARGET)))


def test_golden_tiled_where_sizes_divide(golden: Golden) -> None:
    plan = first_plan(workloads.matmul_relu(64, 64, 64), 1, lane="j", pack=())
    row = row_of(plan, C_i_1=2, C_i_3=8, C_j_3=32, C_k_1=64, C_unroll=64)
    golden.check(text(bind(plan, row, TARGET)))


def test_dividing_sizes_leave_no_guard_and_no_mask() -> None:
    plan = first_plan(workloads.matmul_relu(64, 64, 64), 1, lane="j", pack=("B",))
    row = row_of(plan, C_i_1=2, C_i_2=2, C_i_3=8, C_j_1=2, C_j_3=32, C_k_1=64)
    shown = text(bind(plan, row, TARGET))
    assert " if " not in shown
    assert "min(" not in shown


def test_a_row_of_the_wrong_length_is_refused() -> None:
    plan = first_plan(workloads.matmul_relu(8, 16, 4), 1)
    with pytest.raises(LoweringError, match="a row of 1 values; expected 8, one per size"):
        bind(plan, [1], TARGET)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        (StageChoice(Attached("relu", "z"), 0), "stage 'relu' has no loop 'z'"),
        (StageChoice(Root(), 0, "z"), "cannot vectorize 'C': it has no axis 'z'"),
        (StageChoice(Root(), 3), "cannot run 1 more loops of 'C' in parallel: not serial"),
        (StageChoice(Root(), 0, "j", ("C",)), "cannot pack 'C' for 'C'"),
    ],
    ids=["loop", "lane", "parallel", "pack"],
)
def test_choices_that_do_not_fit_are_refused(choice: StageChoice, message: str) -> None:
    state = State.naive(workloads.matmul_relu(8, 16, 4))
    with pytest.raises(LoweringError, match=message):
        lower(state, (("C", choice),), TARGET)
