"""Packs of a plan without the rest of its program."""

from collections.abc import Mapping

import numpy as np
import pytest

from ansorpy.errors import LoweringError
from ansorpy.frontends.tc.text import parse
from ansorpy.loopir.join import Ahead, packs_of
from ansorpy.measure.host import local_target
from ansorpy.plan.ahead import packs_of_row, raw_weights, sizes_ahead
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import all_plans
from ansorpy.population import sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive

TARGET = local_target(1)
TEXTS = {
    "product": "def f(float(M in 2..40, 48) A, const float(48, 64) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }",  # noqa: E501
    "convolution": "def f(float(N in 2..4, 4, 6, 6) X, const float(32, 4, 3, 3) W) -> (Y) { Y(n,k,i,j) +=! X(n,c,i+p,j+q) * W(k,c,p,q) where i in 0:4, j in 0:4 }",  # noqa: E501
}


@pytest.mark.parametrize("name", TEXTS)
def test_packs_are_those_of_the_whole_program_and_decided_by_the_told_sizes(name: str) -> None:
    (dag,) = parse(TEXTS[name])
    packed = 0
    for plan in all_plans(derive(dag, TARGET, CPU).sketches, TARGET, 8):
        known: dict[tuple[int, ...], Mapping[Ahead, int]] = {}
        for row in sample(plan, 6, np.random.default_rng(0)).tolist():
            try:
                found = packs_of(bind(plan, row, TARGET))
            except LoweringError:
                continue
            packed += len(found)
            assert packs_of_row(plan, row, TARGET) == found
            sizes = sizes_ahead(plan, row)
            assert all(row[plan.column[size]] == value for size, value in sizes.items())
            assert known.setdefault(tuple(sizes.values()), found) == found
    assert packed


def test_weights_that_no_phase_packs_count_as_they_are() -> None:
    (dag,) = parse(TEXTS["product"])
    for plan in all_plans(derive(dag, TARGET, CPU).sketches, TARGET, 8):
        row = plan.smallest_row
        packs = packs_of_row(plan, row, TARGET)
        raw = raw_weights(dag, packs)
        assert sum(raw.values()) == (0 if packs else 48 * 64 * 4)
        assert [buffer.name for _, (buffer,) in raw] == ([] if packs else ["B"])
