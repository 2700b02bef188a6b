from collections.abc import Callable, Mapping
from math import inf
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.errors import SpecError
from ansorpy.tuner.options.objective import (
    EarlyStopped,
    GeoMeanSpeedup,
    LatencyTargets,
    Objective,
    WeightedSum,
)
from ansorpy.tuner.rounds.scheduler import FIRST_ROUND, Settings, TaskScheduler
from ansorpy.tuner.rounds.share import Share, Turn

Measure = Callable[[str, int], float]  # task name and its trials so far -> best cost of the round


def scheduler(
    tasks: list[Share], settings: Settings, objective: Objective | None = None
) -> TaskScheduler:
    return TaskScheduler(tasks, settings, np.random.default_rng(0), lambda: 0.0, objective)


def tasks(n: int) -> list[Share]:
    return [Share(f"t{i}") for i in range(n)]


def play(given: TaskScheduler, measure: Measure) -> list[Turn]:
    turns = []
    for turn in given:
        turns.append(turn)
        seen = given.allocation[turn.task.name]
        given.report(turn, turn.trials, measure(turn.task.name, seen + turn.trials))
        assert len(turns) < 10_000
    return turns


def play_ahead(given: TaskScheduler, measure: Measure, most: int) -> list[Turn]:
    """Report each turn once `most` are under way, or no other turn can begin."""
    turns, under_way = list[Turn](), list[Turn]()
    while True:
        while len(under_way) < most and (turn := given.next_turn()) is not None:
            given.begin(turn)
            under_way.append(turn)
            names = [one.task.name for one in under_way]
            assert max(map(names.count, names)) <= 2
        if not under_way:
            return turns
        turn = under_way.pop(0)
        turns.append(turn)
        seen = given.allocation[turn.task.name]
        given.report(turn, turn.trials, measure(turn.task.name, seen + turn.trials))


def falling(name: str, trials: int) -> float:
    return 1e-3 * (1 + 1 / trials)


@pytest.mark.parametrize(("n", "trials"), [(1, 7), (3, 15), (4, 256), (3, 300), (7, 70)])
def test_round_robin_gives_every_task_its_exact_share(n: int, trials: int) -> None:
    dealer = scheduler(tasks(n), Settings(trials, strategy="round-robin"))
    turns = play(dealer, falling)
    assert max(dealer.allocation.values()) - min(dealer.allocation.values()) <= (trials % n > 0)
    assert sum(dealer.allocation.values()) == trials
    # Everybody has had a turn before anybody has a second one.
    assert len({turn.task.name for turn in turns[:n]}) == n


def test_round_robin_has_no_tiny_last_round() -> None:
    turns = play(scheduler(tasks(3), Settings(100, strategy="round-robin")), falling)
    assert sorted(turn.trials for turn in turns) == [11] * 8 + [12]


def test_the_released_golden_split() -> None:
    objective = WeightedSum(((1e5, 0.0),))
    dealer = scheduler(tasks(2), Settings(5, round_trials=1), objective)
    play(dealer, falling)
    assert dealer.allocation == {"t0": 4, "t1": 1}


@pytest.mark.parametrize(
    ("n", "trials", "size"), [(1, 64, 16), (1, 257, 64), (5, 256, 16), (20, 256, 12)]
)
def test_rounds_are_small_at_small_budgets(n: int, trials: int, size: int) -> None:
    turns = play(scheduler(tasks(n), Settings(trials)), falling)
    assert {turn.trials for turn in turns[:n]} == {min(size, FIRST_ROUND)}
    assert turns[n].trials == size
    assert max(turn.trials for turn in turns) == size


def test_rounds_grow_once_a_task_has_learned() -> None:
    turns = play(scheduler(tasks(1), Settings(256)), falling)
    assert [turn.trials for turn in turns] == [8] + [16] * 4 + [32] * 5 + [24]
    fixed = play(scheduler(tasks(1), Settings(256, round_trials=16)), falling)
    assert {turn.trials for turn in fixed} == {16}
    timed = play(scheduler(tasks(1), Settings(256, seconds=1e9)), falling)
    assert [turn.trials for turn in timed] == [8] + [16] * 15 + [8]


def test_a_shorter_first_round_is_followed_by_the_rest_of_its_trials() -> None:
    dealer = scheduler(tasks(1), Settings(512))
    sizes = []
    for measured in (2, 6, 64):
        turn = dealer.next_turn()
        assert turn is not None
        sizes.append(turn.trials)
        dealer.report(turn, measured, 1e-3)
    assert sizes == [8, 6, 64]


def test_rounds_that_share_the_first_trials_count_as_one_of_a_dead_task() -> None:
    dealer = scheduler(tasks(1), Settings(512))
    for measured in (2, 6, 64):
        assert not dealer.stopped
        turn = dealer.next_turn()
        assert turn is not None
        dealer.report(turn, measured)
    assert dealer.stopped == {"t0": "no valid candidate in 72 trials"}


def test_warm_up_is_one_round_each_in_order() -> None:
    turns = play(scheduler(tasks(4), Settings(256)), falling)
    assert [turn.task.name for turn in turns[:4]] == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_a_dead_task_never_captures_trials(strategy: str) -> None:
    settings = Settings(256, strategy=strategy)  # type: ignore[arg-type]
    dealer = scheduler(tasks(3), settings)
    play(dealer, lambda name, trials: inf if name == "t1" else falling(name, trials))
    assert dealer.allocation["t1"] <= 32
    assert sum(dealer.allocation.values()) == 256
    assert dealer.stopped == {"t1": f"no valid candidate in {dealer.allocation['t1']} trials"}


def test_the_rest_of_the_budget_is_kept_if_all_tasks_die() -> None:
    dealer = scheduler(tasks(2), Settings(1000))
    play(dealer, lambda name, trials: inf)
    assert dealer.allocation == {"t0": 72, "t1": 72}
    assert dealer.next_turn() is None


def test_a_task_that_recovers_in_its_second_round_lives() -> None:
    dealer = scheduler(tasks(2), Settings(128))
    play(dealer, lambda name, n: inf if name == "t0" and n <= 16 else falling(name, n))
    assert dealer.stopped == {}
    assert sum(dealer.allocation.values()) == 128


def test_a_used_up_space_stops_its_task_only() -> None:
    dealer = scheduler(tasks(2), Settings(200))
    for turn in dealer:
        small = turn.task.name == "t0"
        room = max(0, 20 - dealer.allocation["t0"]) if small else turn.trials
        dealer.report(turn, min(room, turn.trials), 1e-3)
    assert dealer.allocation == {"t0": 20, "t1": 180}
    assert dealer.stopped == {"t0": "no candidates left"}


@pytest.mark.parametrize("strategy", ["gradient", "round-robin"])
def test_no_task_gets_more_than_the_most_trials_of_a_task(
    strategy: Literal["gradient", "round-robin"],
) -> None:
    dealer = scheduler(tasks(3), Settings(1000, strategy=strategy, task_trials=50))
    play(dealer, lambda name, n: 1e-2 / n if name == "t0" else 1e-5)
    assert dealer.allocation == {"t0": 50, "t1": 50, "t2": 50}
    assert set(dealer.stopped.values()) == {"50 trials, the most of a task"}


def test_the_trials_of_all_tasks_end_before_the_most_of_a_task() -> None:
    dealer = scheduler(tasks(2), Settings(64, task_trials=1000))
    play(dealer, falling)
    assert sum(dealer.allocation.values()) == 64
    assert not dealer.stopped


def test_early_stop_counts_trials_without_gain() -> None:
    dealer = scheduler(tasks(2), Settings(1024, round_trials=16, early_stop_trials=64))
    play(dealer, lambda name, n: 1e-3 if name == "t0" else 1e-3 / n)
    assert dealer.stopped == {"t0": "no gain in 64 trials"}
    assert dealer.allocation == {"t0": 80, "t1": 944}


def test_the_search_ends_after_its_seconds() -> None:
    now = [0.0]
    dealer = TaskScheduler(
        tasks(2), Settings(1000, seconds=10.0), np.random.default_rng(0), lambda: now[0]
    )
    count = 0
    for turn in dealer:
        now[0] += 3.0
        count += 1
        dealer.report(turn, turn.trials, 1e-3)
    assert count == 4


def test_the_slow_and_improving_task_gets_more() -> None:
    dealer = scheduler(tasks(2), Settings(256))
    play(dealer, lambda name, n: 1e-2 / n**0.5 if name == "t0" else 1e-5)
    assert dealer.allocation["t0"] > 4 * dealer.allocation["t1"]


def test_a_task_of_higher_weight_gets_more_trials() -> None:
    pair = [Share("a", weight=20.0), Share("b", weight=1.0)]
    dealer = scheduler(pair, Settings(256))
    play(dealer, falling)
    assert dealer.allocation["a"] > 2 * dealer.allocation["b"]


def test_similar_tasks_bound_the_reachable_throughput() -> None:
    # b runs 100x below the FLOP/s of its kin: that promises more than its own history does.
    same = [Share("a", flops=10**9, tag="conv"), Share("b", flops=10**9, tag="conv")]
    dealer = scheduler(same, Settings(256))
    dealer.report(Turn(same[0], 16), 16, 1e-3)
    dealer.report(Turn(same[1], 16), 16, 0.1)
    # After one round the own history still promises everything: g - g / 1 = 0.
    np.testing.assert_allclose(dealer.gradients(), [-0.8e-3, -0.08])
    dealer.report(Turn(same[1], 16), 16, 0.1)
    # After two it promises 0.05, the kin still 2 * 1e-3.
    np.testing.assert_allclose(dealer.gradients()[1], -0.8 * (0.1 - 2e-3))


def test_a_task_that_stays_slow_leaves_its_group() -> None:
    same = [Share("a", flops=10**9, tag="conv"), Share("b", flops=10**9, tag="conv")]
    dealer = scheduler(same, Settings(10_000))
    dealer.report(Turn(same[0], 64), 64, 1e-3)
    slopes = []
    for _ in range(8):
        dealer.report(Turn(same[1], 64), 64, 0.1)
        slopes.append(float(dealer.gradients()[1]))
    # With kin it promises to fall to 2e-3; the seventh round is one above 5 + 1: alone, g / t.
    np.testing.assert_allclose(slopes[5], -0.8 * (0.1 - 2e-3))
    np.testing.assert_allclose(slopes[6:], [-0.8 * 0.1 / 7, -0.8 * 0.1 / 8])


def test_past_gains_count_over_the_window() -> None:
    (task,) = tasks(1)
    dealer = scheduler([task], Settings(1000))
    for best in (8e-3, 7e-3, 5e-3, 2e-3):
        dealer.report(Turn(task, 64), 64, best)
    expected = 0.2 * (2e-3 - 8e-3) / 3 + 0.8 * (-2e-3 / 4)
    np.testing.assert_allclose(dealer.gradients(), [expected])


def test_resumed_tasks_need_no_warm_up_and_no_budget() -> None:
    dealer = scheduler(tasks(2), Settings(64))
    dealer.resume("t0", 160, 1e-6)
    turns = play(dealer, falling)
    assert turns[0].task.name == "t1"
    assert sum(dealer.allocation.values()) == 64


def test_a_resumed_task_with_an_untried_part_of_its_space_gets_a_first_round() -> None:
    dealer = scheduler(tasks(2), Settings(64))
    dealer.resume("t0", 160, 1e-6, warm_up=True)
    dealer.resume("t1", 160, 1e-3)
    assert np.isfinite(dealer.gradients()).all()
    turns = play(dealer, falling)
    assert turns[0].task.name == "t0"
    assert {turn.task.name for turn in turns[1:]} == {"t1"}  # the slower one gains more


def test_the_group_of_a_task_follows_from_its_tag_and_flops() -> None:
    assert Share("a", flops=1000).group is None
    assert Share("a", flops=0, tag="conv").group is None
    assert Share("a", flops=1000, tag="conv").group == ("conv", 14)
    assert Share("a", flops=10**6, tag="conv").group != Share("b", flops=10**9, tag="conv").group


NETWORKS = ((1.0, 2.0, 0.0), (0.0, 3.0, 4.0))
OBJECTIVES: list[Objective] = [
    WeightedSum(NETWORKS),
    LatencyTargets(NETWORKS, (1e-5, 1e-3)),
    LatencyTargets(NETWORKS, (1e-9, 1e-9)),
    GeoMeanSpeedup(NETWORKS, (1e-4, 3e-4)),
    EarlyStopped(NETWORKS, (1e-9, 1e-3, 1e-7)),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: type(o).__name__)
def test_gradients_are_the_slopes_of_the_values(objective: Objective) -> None:
    costs = np.array([3e-6, 5e-6, 2e-6])  # far below the released step of 1e-4 s
    expected = []
    for i in range(3):
        step = np.zeros(3)
        step[i] = costs[i] * 1e-5
        rise = objective.value(costs + step) - objective.value(costs - step)
        expected.append(rise / (2 * step[i]))
    # Central differences with a relative step of 1e-5 lose about half the digits.
    np.testing.assert_allclose(objective.gradient(costs), expected, rtol=1e-4, atol=1e-9)


def test_objectives_have_the_values_computed_by_hand() -> None:
    costs = np.array([1.0, 2.0, 3.0])
    assert WeightedSum(NETWORKS).value(costs) == 5 + 18
    assert LatencyTargets(NETWORKS, (6.0, 6.0)).value(costs) == 6 + 18
    assert GeoMeanSpeedup(NETWORKS, (10.0, 9.0)).value(costs) == pytest.approx(-1.0)
    assert EarlyStopped(NETWORKS, (0.0, 4.0, 0.0)).value(costs) == (1 + 8) + (12 + 12)


def test_a_network_without_results_does_not_count() -> None:
    objective = GeoMeanSpeedup(((1.0, 0.0), (0.0, 1.0)), (2.0, 2.0))
    assert objective.value(np.array([1.0, 0.0])) == pytest.approx(-2.0)
    np.testing.assert_allclose(objective.gradient(np.array([1.0, 0.0])), [2.0, 0.0])
    assert objective.value(np.zeros(2)) == 0
    assert not objective.gradient(np.zeros(2)).any()


@pytest.mark.parametrize(
    ("names", "settings", "message"),
    [
        ([], Settings(1), "no task"),
        (["a", "a"], Settings(9), "two tasks are called 'a'"),
        (["a", "b", "c"], Settings(2), "2 trials are too few for 3 tasks"),
        (["a"], Settings(0), "0 trials are too few"),
        (["a"], Settings(1, seconds=0), "0 seconds"),
        (["a"], Settings(1, round_trials=0), "0 trials per round"),
    ],
)
def test_wrong_names_and_settings_are_refused(
    names: list[str], settings: Settings, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        scheduler([Share(name) for name in names], settings)


@pytest.mark.parametrize("weight", [0.0, -1.0, inf, float("nan")])
def test_a_weight_that_is_not_positive_and_finite_is_refused(weight: float) -> None:
    with pytest.raises(SpecError, match="task 'a': weight"):
        scheduler([Share("a", weight)], Settings(9))


@given(
    n=st.integers(1, 6),
    trials=st.integers(1, 600),
    strategy=st.sampled_from(["gradient", "round-robin"]),
    dead=st.sets(st.integers(0, 4)),
    seed=st.integers(0, 99),
)
def test_allocations_sum_to_the_budget(
    n: int, trials: int, strategy: str, dead: set[int], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    trials = max(trials, n)
    settings = Settings(trials, strategy=strategy)  # type: ignore[arg-type]
    dealer = scheduler(tasks(n), settings, WeightedSum((tuple(rng.random(n)),)))
    names: Mapping[str, float] = {f"t{i}": inf if i in dead else 1.0 for i in range(n)}
    turns = play(dealer, lambda name, k: names[name] * float(rng.random() + 0.1))
    given = sum(turn.trials for turn in turns)
    assert given == dealer.trials
    assert given == trials or set(dealer.stopped) == set(names)
    if set(range(n)) - dead:
        assert given == trials


@given(
    n=st.integers(1, 5),
    trials=st.integers(5, 400),
    most=st.integers(1, 9),
    strategy=st.sampled_from(["gradient", "round-robin"]),
    limit=st.none() | st.integers(5, 100),
)
def test_turns_under_way_share_the_whole_budget(
    n: int, trials: int, most: int, strategy: Literal["gradient", "round-robin"], limit: int | None
) -> None:
    given = scheduler(tasks(n), Settings(trials, strategy=strategy, task_trials=limit))
    turns = play_ahead(given, falling, most)
    whole = trials if limit is None else min(trials, n * limit)
    assert sum(turn.trials for turn in turns) == sum(given.allocation.values()) == whole
    if strategy == "round-robin" and limit is None:
        assert max(given.allocation.values()) - min(given.allocation.values()) <= 1


def test_one_turn_under_way_gives_the_turns_of_a_search_without_any() -> None:
    alone = play(scheduler(tasks(3), Settings(300)), falling)
    assert play_ahead(scheduler(tasks(3), Settings(300)), falling, 1) == alone


def test_a_task_without_a_turn_under_way_comes_first() -> None:
    given = scheduler(tasks(2), Settings(100))
    names = []
    for _ in range(5):
        turn = given.next_turn()
        names.append(None if turn is None else turn.task.name)
        if turn is not None:
            given.begin(turn)
    assert names == ["t0", "t1", "t0", "t1", None]
