"""Sizes of trials as a matrix."""

from dataclasses import replace

import numpy as np
import pytest

from ansorpy.errors import SpecError
from ansorpy.plot.sized import VARIANT, sized_trials
from ansorpy.replay import plan_text
from ansorpy.result import Result
from tests.plot.samples import PLAN, PLANS, RESULT, TARGET, subject


def test_trials_are_rows_of_named_sizes() -> None:
    task = subject(trials=5, failed=2)
    found = Result((RESULT,), 9.0, "trials", (), {"mm": task.records}, TARGET).sizes()
    timed = [one for one in task.trials if one.best_s is not None]
    assert found.names == tuple(size.name for size in PLAN.sizes)
    assert found.values.tolist() == [list(one.row) for one in timed]
    np.testing.assert_array_equal(found.times_s, [one.best_s for one in timed])
    assert found.of == 5


def test_trials_with_other_sizes_are_left_out_and_plans_are_variants() -> None:
    names = {tuple(size.name for size in plan.sizes): plan for plan in PLANS}
    other = next(plan for own, plan in names.items() if own != tuple(s.name for s in PLAN.sizes))
    equal = next(
        plan for plan in PLANS
        if plan != PLAN and [s.name for s in plan.sizes] == [s.name for s in PLAN.sizes]
    )  # fmt: skip
    task = subject(trials=6, failed=0)
    records = list(task.records)
    records[0] = replace(records[0], plan=plan_text(other), row=(1,) * len(other.sizes))
    records[1] = replace(records[1], plan=plan_text(equal))
    records[2] = replace(records[2], plan="nonsense")
    found = sized_trials(replace(task, records=tuple(records)))
    assert found.names[-1] == VARIANT
    assert found.values[:, -1].tolist() == [1, 2, 2, 2]
    assert found.of == 6


def test_columns_of_one_value_are_dropped() -> None:
    task = subject(trials=6, failed=0)
    row = task.records[0].row
    same = tuple(replace(one, row=(*one.row[:1], *row[1:])) for one in task.trials)
    assert sized_trials(replace(task, records=same)).varied().names == (PLAN.sizes[0].name,)


def test_without_the_machine_sizes_have_no_names() -> None:
    with pytest.raises(SpecError, match="sizes of mm because its machine is not known; expected"):
        sized_trials(replace(subject(), target=None))
