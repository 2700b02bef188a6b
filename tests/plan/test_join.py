"""Joined plans: rows, texts, and programs that are right for every size."""

import json
from itertools import pairwise

import numpy as np
import pytest

from ansorpy.errors import RecordError
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.measure.values import decode, encode
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.plan.join import join_plans, rows_of
from ansorpy.plan.plan import Plan, RangePlan
from ansorpy.population import legal, sample
from ansorpy.replay import check_row, plan_from_text, plan_text
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.te.dag import Dag
from ansorpy.te.dims import in_range, ranges_of
from tests.plan.test_dims import fault

TEXT = "def f(float(M in 1..40, 33) A, const float(33, 20) B, float(20) b) -> (C) { T(i,j) +=! A(i,k) * B(k,j) C(i,j) = fmax(T(i,j) + b(j), 0) }"  # noqa: E501
TARGET = local_target(1)


def joined(seed: int) -> tuple[Dag, Plan, tuple[int, ...]]:
    """Return a random joined plan with a row."""
    (dag,) = parse(TEXT)
    rng = np.random.default_rng(seed)
    parts: list[RangePlan] = []
    row: list[int] = []
    for sizes in ranges_of(dag, 4):
        plans = all_plans(derive(in_range(dag, sizes), TARGET, CPU).sketches, TARGET, 8)
        plan = plans[rng.integers(len(plans))]
        parts.append(RangePlan(sizes, plan))
        row += map(int, sample(plan, 1, rng)[0])
    return dag, join_plans(parts), tuple(row)


@pytest.mark.parametrize("seed", range(4))
def test_a_joined_plan_is_right_for_every_size(seed: int) -> None:
    dag, plan, row = joined(seed)
    program = bind(plan, row, TARGET)
    for size in (1, 2, 3, 7, 8, 9, 10, 23, 39, 40):
        assert fault(dag, program, {"M": size}, seed, native=True) == ""
    for size in (1, 5, 29):
        assert fault(dag, program, {"M": size}, seed, native=False) == ""


@pytest.mark.parametrize("seed", range(3))
def test_a_text_and_bytes_give_the_same_plan(seed: int) -> None:
    dag, plan, row = joined(seed)
    again = plan_from_text(dag, TARGET, plan_text(plan))
    assert plan_text(again) == plan_text(plan)
    assert again.sizes == plan.sizes
    assert bind(again, row, TARGET) == bind(plan, row, TARGET)
    assert bind(decode(encode(plan)), row, TARGET) == bind(plan, row, TARGET)


def test_a_row_is_legal_if_the_row_of_each_part_is() -> None:
    _, plan, row = joined(0)
    check_row(plan, row)
    for part, own in rows_of(plan, row):
        check_row(part.plan, own)
    rng = np.random.default_rng(0)
    for _ in range(40):
        other = tuple(max(0, n + int(rng.integers(-1, 2))) for n in row)
        each = [legal(p.plan, np.array([own]))[0] for p, own in rows_of(plan, other)]
        assert legal(plan, np.array([other]))[0] == all(each)


def test_a_row_of_another_length_is_refused() -> None:
    _, plan, row = joined(0)
    with pytest.raises(RecordError, match=f"has {len(row) - 1} sizes, expected {len(row)}"):
        check_row(plan, row[:-1])


@pytest.mark.parametrize("change", ["one", "none", "other", "nested", "form"])
def test_a_text_of_other_ranges_is_refused(change: str) -> None:
    dag, plan, _ = joined(0)
    obj = json.loads(plan_text(plan))
    parts = obj["parts"]
    match change:
        case "one":
            obj["parts"] = parts[:1]
        case "none":
            obj["parts"] = []
        case "other":
            parts[0][2], parts[1][1] = 2, 3
        case "nested":
            parts[-1][3] = json.loads(plan_text(plan))
        case _:
            parts[0] = 7
    with pytest.raises(RecordError):
        plan_from_text(dag, TARGET, json.dumps(obj))


def test_sizes_have_names_of_their_own() -> None:
    _, plan, _ = joined(0)
    names = [size.name for size in plan.sizes]
    assert len(set(names)) == len(names)
    assert {size.name for size in plan.parts[-1].plan.sizes} <= set(names)
    assert all(one.sizes.high + 1 == two.sizes.low for one, two in pairwise(plan.parts))
