"""Every builder's plans: rows can be sampled, mutated and described.

The first plan of each sketch; `make test-all` has two.
"""

import numpy as np
import pytest

from ansorpy.features import NAMES, extract
from ansorpy.plan.choices import naive, plans
from ansorpy.population import legal, mutate, sample
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.topi.suites import SUITE_SMALL
from tests.night import night

TARGET = Target(cores=2)


@pytest.mark.parametrize("name", SUITE_SMALL)
@pytest.mark.parametrize("limit", night((1, 2), [1]))
def test_plans_of_a_builder_have_legal_rows_and_finite_features(name: str, limit: int) -> None:
    dag = SUITE_SMALL[name]()
    rng = np.random.default_rng(0)
    described = 0
    for sketch in derive(dag, TARGET, CPU).sketches[:4]:
        for plan in plans(sketch, TARGET, limit=limit):
            rows = sample(plan, 16, rng)
            if not len(rows):
                continue
            children = mutate(plan, rows, rng)
            assert legal(plan, children).all()
            features = extract(plan, children, TARGET)
            assert features.shape[2] == len(NAMES)
            assert np.isfinite(features).all()
            assert (features >= 0).all()
            described += 1
    assert described > 0


@pytest.mark.parametrize("name", SUITE_SMALL)
def test_the_naive_plan_has_one_row_without_columns(name: str) -> None:
    plan = naive(SUITE_SMALL[name](), TARGET)
    rows = sample(plan, 3, np.random.default_rng(0))
    assert rows.shape[1] == len(plan.sizes)
    assert np.isfinite(extract(plan, rows, TARGET)).all()
