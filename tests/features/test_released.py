"""Objects and bytes that stay with a plan once it is lowered and described.

Objects are counted while the garbage collector pauses, as it does in a proposal: a value that is
part of a cycle would stay, too.
"""

import gc
from collections import Counter
from collections.abc import Iterator

import numpy as np

from ansorpy.features.column_program import ColumnValue
from ansorpy.features.extract import Prepared
from ansorpy.plan.choices import plans
from ansorpy.rules import CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.topi.suites import SUITE_SMALL
from ansorpy.uncollected import uncollected
from tests.features.hand import tiled_plan

TARGET = Target(cores=2)


def alive() -> Counter[type]:
    """Return the number of our objects by type."""
    every = map(type, gc.get_objects())
    return Counter(
        kind for kind in every if str(getattr(kind, "__module__", "")).startswith("ansorpy.")
    )


def arrays(value: object, seen: set[int]) -> Iterator[np.ndarray]:
    """Yield the arrays that a value holds."""
    for part in gc.get_referents(value):
        if isinstance(part, type) or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, np.ndarray):
            yield part
        else:
            yield from arrays(part, seen)


def test_the_features_of_a_plan_hold_no_recorded_value() -> None:
    gc.collect()
    plan = tiled_plan()
    with uncollected():
        before = alive()[ColumnValue]
        prepared = Prepared(plan, TARGET)
        assert alive()[ColumnValue] == before
    assert prepared.steps > 100


def test_a_step_of_the_features_takes_at_most_ten_bytes() -> None:
    prepared = Prepared(tiled_plan(), TARGET)
    largest = max(arrays(prepared, set()), key=len)
    assert largest.shape == (prepared.steps, 5)
    assert largest.nbytes <= 10 * prepared.steps


def test_a_lowered_plan_leaves_nothing_to_the_garbage_collector() -> None:
    (sketch, *_) = derive(SUITE_SMALL["conv2d"](), TARGET, CPU).sketches

    def described() -> None:
        for plan in plans(sketch, TARGET, limit=4):
            Prepared(plan, TARGET)

    described()  # fills the caches of the process
    gc.collect()
    with uncollected():
        before = alive()
        described()
        assert alive() - before == Counter()
