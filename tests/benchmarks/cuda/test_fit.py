"""The fit of the analytic model to rows whose times follow from known constants."""

import numpy as np
import pytest

from ansorpy.cost import simt
from ansorpy.cost.simt import LaunchFacts
from ansorpy.gpus import PRESETS
from benchmarks.cuda.fit import (
    CONSTANTS,
    Measured,
    error_of,
    fitted,
    ranking,
    seconds_of,
    spearman,
)

GPU = PRESETS["sm_90"]
BEFORE = {name: float(getattr(simt, name)) for name in CONSTANTS}
TRUE = {**BEFORE, "L2_BYTES_PER_CLOCK": 24.0, "LAUNCH_S": 4e-6, "SHARED_WAVE_CLOCKS": 2.0}


def facts(rng: np.random.Generator) -> LaunchFacts:
    instructions = float(rng.uniform(1e3, 1e5))
    return LaunchFacts(
        blocks=int(rng.integers(100, 5000)),
        threads=256,
        registers=64,
        shared_bytes=8192,
        instructions=instructions,
        multiply_adds=0.3 * instructions,
        shared_waves=float(rng.uniform(0, 0.6)) * instructions,
        sectors=float(rng.uniform(0, 0.8)) * instructions,
        memory_bytes=float(rng.uniform(1e5, 1e8)),
        stall_clocks=float(rng.uniform(0, 0.1)) * instructions,
    )


def rows(count: int) -> list[Measured]:
    rng = np.random.default_rng(0)
    made = [(facts(rng),) for _ in range(count)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in TRUE.items():
            patch.setattr(simt, name, value)
        return [Measured("x", one, simt.seconds(one, GPU) or 0.0) for one in made]


def test_a_fit_finds_the_constants_behind_the_times() -> None:
    measured = rows(60)
    found = fitted(measured, GPU, BEFORE)
    before, after = (error_of(measured, GPU, constants) for constants in (BEFORE, found))
    assert after < before / 20
    assert found["L2_BYTES_PER_CLOCK"] == pytest.approx(24.0, rel=0.15)
    assert {name: float(getattr(simt, name)) for name in CONSTANTS} == BEFORE  # nothing stays
    told = [ranking(measured, GPU, constants)["spearman"] for constants in (BEFORE, found)]
    assert told[0] is not None
    assert told[1] is not None
    assert told[0] < told[1] > 0.99


def test_a_ranking_says_how_far_the_best_choice_is() -> None:
    measured = rows(12)
    assert ranking(measured, GPU, TRUE) == {"spearman": pytest.approx(1.0), "top_ratio": 1.0}
    fast = [Measured("x", one.facts, 1.0 / one.seconds) for one in measured]
    worst = ranking(fast, GPU, TRUE)
    assert worst["spearman"] == pytest.approx(-1.0)
    assert worst["top_ratio"] is not None
    assert worst["top_ratio"] < 1.0


def test_ranks_of_equal_values_are_shared() -> None:
    assert spearman([1, 2, 2, 4], [1, 2, 2, 4]) == pytest.approx(1.0)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert spearman([1, 1, 1], [1, 2, 3]) is None


def test_the_time_of_an_emulated_row_is_not_taken_for_a_median() -> None:
    assert seconds_of({"times": "emulated", "emulated_s": 2.0}) == 2.0
    assert seconds_of({"median_s": 3.0}) == 3.0
