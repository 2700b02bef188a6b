"""Races on a busy machine: held again, and the calmest one counts."""

import pytest

from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.tuner.race.calm_race import calm_race, slowdown_of

COSTS = {"tuned 0": 1.0, "tuned 1": 2.0, "tuned 2": None}


def times(one_s: float, other_s: float) -> dict[str, PairedTimes | Failed]:
    return {
        "naive": PairedTimes(((90.0,),)),
        "tuned 0": PairedTimes(((one_s,), (one_s,))),
        "tuned 1": PairedTimes(((other_s,),)),
        "tuned 2": PairedTimes(((7.0,),)),
    }


def test_the_slowdown_is_that_of_the_finalists_with_costs() -> None:
    assert slowdown_of(times(3.0, 4.0), COSTS) == pytest.approx(2.5)
    assert slowdown_of(times(0.9, 1.8), COSTS) == 1.0
    lost = {**times(3.0, 4.0), "tuned 0": Failed("wrong", "no")}
    assert slowdown_of(lost, COSTS) == pytest.approx(2.0)
    assert slowdown_of({}, COSTS) == 1.0


@pytest.mark.parametrize(
    ("slow", "late", "held", "least"),
    [
        ([1.1], False, 1, 1.1),
        ([3.0, 1.2], False, 2, 1.2),
        ([3.0, 2.0, 2.5, 1.0], False, 3, 2.0),  # three at most, and the calmest counts
        ([3.0, 1.0], True, 1, 3.0),
    ],
)
def test_a_race_is_held_again_until_the_machine_is_calm(
    slow: list[float], late: bool, held: int, least: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ansorpy.tuner.race.calm_race.RACES", 3)
    seen = iter(slow)

    def hold() -> dict[str, PairedTimes | Failed]:
        now = next(seen)
        return times(now, 2 * now)

    found, slowdown = calm_race(hold, COSTS, lambda: late)
    assert slowdown == pytest.approx(least)
    assert found["tuned 0"] == times(least, 2 * least)["tuned 0"]
    assert len(slow) - len(list(seen)) == held
