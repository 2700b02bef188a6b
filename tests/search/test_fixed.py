"""A search with given sizes."""

import numpy as np

from ansorpy.cost.model import ForTask
from ansorpy.cost.roofline import RooflineModel
from ansorpy.plan.choices import all_plans
from ansorpy.population import legal, sample
from ansorpy.rules import CPU
from ansorpy.search.fixed import best_with
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.topi import workloads

TARGET = Target(cores=1, vector_bits=512)
PLAN = all_plans(derive(workloads.matmul(64, 64, 64), TARGET, CPU).sketches, TARGET, 1)[0]


def best(sizes: dict[str, int]) -> tuple[tuple[int, ...], float] | None:
    model, rng = ForTask(RooflineModel(TARGET), ""), np.random.default_rng(0)
    rows = [tuple(map(int, row)) for row in sample(PLAN, 4, rng)]
    return best_with(PLAN, sizes, rows, model, rng, TARGET)


def test_the_best_row_has_the_given_sizes() -> None:
    name = next(size.name for size in PLAN.sizes if size.multiple_of > 1)
    scores = set()
    for value in (TARGET.lanes("float32"), 2 * TARGET.lanes("float32")):
        found = best({name: value})
        assert found is not None
        row, score = found
        assert row[PLAN.column[name]] == value
        assert legal(PLAN, np.array([row])).all()
        scores.add(score)
    assert len(scores) == 2
    assert max(scores) <= best({})[1]  # type: ignore[index]


def test_sizes_that_no_row_has_give_none() -> None:
    name = next(size.name for size in PLAN.sizes if size.multiple_of > 1)
    assert best({name: TARGET.lanes("float32") + 1}) is None
