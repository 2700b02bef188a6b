"""The simulated cluster: shares of time, bounds of the rate, sums of parts, the same again."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.simulated_cluster import Costs, Line, Scene, line, simulated

NONE = Line(0.0, 0.0)
FREE = Costs(
    build=(0.0,), trial=(0.1,), propose=(0.0,), open=(0.0,), train=NONE, history=NONE,
    checkpoint=NONE, encode=NONE, decode=NONE, look=NONE, store=NONE, commit=NONE,
    question_bytes=0.0, answer_bytes=0.0,
)  # fmt: skip
REAL = Costs(
    build=(0.02, 0.04), trial=(0.015, 0.03), propose=(0.2, 0.25), open=(0.2,),
    train=Line(0.05, 1e-4), history=Line(0.0, 1.5e-6), checkpoint=Line(0.015, 9e-6),
    encode=Line(2e-5, 1e-5), decode=Line(2e-5, 0.0), look=Line(0.0, 2.9e-4),
    store=Line(0.0, 2e-4), commit=Line(0.002, 5e-5),
)  # fmt: skip

scenes = st.builds(
    Scene,
    slots=st.integers(4, 70),
    drivers=st.integers(1, 4),
    tasks=st.integers(1, 12),
    trials=st.integers(100, 500),
    seed=st.integers(0, 3),
    builders=st.integers(1, 3),
    growth=st.sampled_from((0.0, 0.1)),
    aside=st.booleans(),
    polls=st.booleans(),
    prefers=st.booleans(),
    one_scale=st.booleans(),
)


@settings(max_examples=40, deadline=None)
@given(scene=scenes)
def test_no_part_is_busy_for_longer_than_the_tuning(scene: Scene) -> None:
    found = simulated(scene, REAL)
    assert found.other <= found.slots
    for share in (found.slots, found.network, found.bridge, found.database):
        assert 0 <= share <= 1 + 1e-9
    assert found.driver <= 1 + 1e-9
    if not scene.aside:
        assert found.training <= 1 + 1e-9


@settings(max_examples=40, deadline=None)
@given(scene=scenes)
def test_the_rate_is_at_most_slots_over_the_shortest_trial(scene: Scene) -> None:
    assert simulated(scene, REAL).rate <= scene.slots / min(REAL.trial)


@settings(max_examples=20, deadline=None)
@given(scene=scenes)
def test_a_seed_gives_the_same_seconds_again(scene: Scene) -> None:
    assert simulated(scene, REAL) == simulated(scene, REAL)


def test_one_slot_takes_the_sum_of_all_parts() -> None:
    """Four rounds: of 8, 64, 64 and 64 candidates, in batches of 16."""
    costs = replace(
        FREE, propose=(1.0,), open=(5.0,), train=Line(2.0, 0.01), encode=Line(0.0, 0.001),
        decode=Line(0.25, 0.0), look=Line(0.125, 0.0), store=Line(0.0, 0.002),
        commit=Line(3.0, 0.0), checkpoint=Line(0.5, 0.0),
    )  # fmt: skip
    found = simulated(Scene(1, trials=200, polls=False), costs)
    batches, rounds = 1 + 3 * 4, 4
    # A look settles each batch, and one gives the next; a round begins with two, and ends with one.
    looks = 2 * batches + 3 * rounds
    known = 8 + 72 + 136 + 200
    bridge_s = batches * 0.8e-3
    expected_s = (
        200 * 0.1 + rounds * (1.0 + 2.0 + 3.0 + 0.5) + 5.0 + known * 0.01 + 200 * 0.003
        + batches * 0.25 + looks * 0.125 + bridge_s
    )  # fmt: skip
    assert found.seconds == pytest.approx(expected_s, rel=1e-9)


@pytest.mark.parametrize("tasks", [1, 20])
def test_more_slots_are_no_slower_if_the_driver_costs_nothing(tasks: int) -> None:
    rates = [simulated(Scene(n, tasks=tasks, trials=1600), FREE).rate for n in (1, 2, 4, 8, 16)]
    for few, more in pairwise(rates):
        assert more > 1.2 * few


def test_slots_are_busy_if_the_driver_costs_nothing() -> None:
    """The last round, and the first of a task, leave slots idle."""
    assert simulated(Scene(4, tasks=8, trials=8000, polls=False), FREE).slots > 0.93


def test_looks_for_slots_take_time_from_the_proposals() -> None:
    """Rounds of several tasks wait for one of two slots."""
    costs = replace(FREE, look=Line(0.01, 0.0))
    scene = Scene(2, tasks=8, trials=2000)
    woken = simulated(replace(scene, polls=False), costs)
    assert simulated(scene, costs).driver > 1.5 * woken.driver


def test_drivers_wait_for_one_database() -> None:
    costs = replace(FREE, commit=Line(0.0, 0.01))
    found = simulated(Scene(64, 8, 8, 2000), costs)
    assert found.database > 0.95
    assert found.rate == pytest.approx(100, rel=0.05)


def test_more_drivers_than_slots_are_refused() -> None:
    with pytest.raises(ValueError, match="cannot divide 2 slots among 3 drivers"):
        simulated(Scene(2, 3), FREE)


def test_a_line_passes_through_exact_points() -> None:
    found = line({1: 3.0, 4: 9.0, 16: 33.0})
    assert (found.fixed_s, found.each_s) == pytest.approx((1.0, 2.0))
