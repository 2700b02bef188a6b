"""Nothing here reads a real clock."""

from collections.abc import Callable

import pytest

from ansorpy.measure.timing import Protocol, Race, interleave, rivals, time_call


class Fake:
    """A clock that the calls move, and a counter of lost time slices."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.switches = 0
        self.log: list[str] = []

    def call(self, name: str, *costs_s: float, lost: tuple[int, ...] = ()) -> Callable[[], None]:
        count = 0

        def run() -> None:
            nonlocal count
            self.now_s += costs_s[min(count, len(costs_s) - 1)]
            self.switches += count in lost
            count += 1
            self.log.append(name)

        return run

    def time(
        self, call: Callable[[], None], best_s: float | None
    ) -> tuple[tuple[float, ...], bool]:
        return time_call(call, best_s, Protocol(), lambda: self.now_s, lambda: self.switches)


def test_the_first_run_is_not_counted() -> None:
    fake = Fake()
    times, aborted = fake.time(fake.call("a", 9.0, 0.002), None)
    assert times == pytest.approx((0.002, 0.002, 0.002))
    assert not aborted


def test_disturbed_samples_are_left_out() -> None:
    fake = Fake()
    times, _ = fake.time(fake.call("a", 0.002, 0.009, 0.002, lost=(1,)), None)
    assert max(times) == pytest.approx(0.002)
    assert len(times) == 3


def test_disturbed_samples_are_better_than_none() -> None:
    fake = Fake()
    times, _ = fake.time(fake.call("a", 0.002, lost=tuple(range(100))), None)
    assert len(times) == Protocol().attempts


def test_a_short_call_is_repeated_for_a_millisecond() -> None:
    fake = Fake()
    times, _ = fake.time(fake.call("a", 1e-5), None)
    assert times == pytest.approx((1e-5,) * 3)
    assert len(fake.log) >= 300


def test_the_hopeless_are_stopped_after_one_sample() -> None:
    fake = Fake()
    times, aborted = fake.time(fake.call("a", 0.05), 0.01)
    assert (len(times), aborted) == (1, True)
    assert len(fake.time(fake.call("b", 0.018), 0.01)[0]) == 1
    assert fake.time(fake.call("c", 1e-5), 1e-6)[1] is True


def test_the_beaten_are_sampled_twice_and_rivals_to_the_end() -> None:
    fake = Fake()
    assert len(fake.time(fake.call("a", 0.013), 0.01)[0]) == 2
    assert len(fake.time(fake.call("b", 0.011), 0.01)[0]) == Protocol().samples
    # A cold first call is no verdict, unless it is a long one.
    times, aborted = fake.time(fake.call("c", 0.019, 0.01), 0.01)
    assert (len(times), aborted) == (3, False)


def test_slow_calls_get_fewer_samples() -> None:
    fake = Fake()
    times, _ = fake.time(fake.call("a", 3.0), None)
    assert len(times) == 1


def test_finalists_take_turns() -> None:
    fake = Fake()
    calls = {"a": fake.call("a", 0.002), "b": fake.call("b", 0.004)}
    pauses: list[str] = []
    found = interleave(
        calls, 2, Protocol(), lambda before, after: pauses.append(before + after),
        lambda: fake.now_s, lambda: fake.switches,
    )  # fmt: skip
    assert found == {"a": pytest.approx((0.002,) * 2), "b": pytest.approx((0.004,) * 2)}
    assert "".join(fake.log) == "abab" + "aabb" * 2
    assert pauses == ["ba", "ab"] * 2


def test_the_beaten_leave_a_race_early_and_the_outclassed_at_once() -> None:
    fake = Fake()
    calls = {"slow": fake.call("s", 0.1), "a": fake.call("a", 0.01), "b": fake.call("b", 0.016)}
    found = interleave(
        calls, 6, Protocol(), clock=lambda: fake.now_s, switches=lambda: fake.switches
    )
    assert {name: len(times) for name, times in found.items()} == {"slow": 1, "a": 6, "b": 3}
    assert rivals(found) == ["a"]


def test_nobody_is_given_up_for_a_lost_time_slice() -> None:
    fake = Fake()
    calls = {
        "a": fake.call("a", 0.02, 0.001, lost=(0,)),
        "b": fake.call("b", 0.001),
    }
    found = interleave(
        calls, 6, Protocol(), clock=lambda: fake.now_s, switches=lambda: fake.switches
    )
    assert found["a"] == pytest.approx((0.001,) * 6)
    times, aborted = fake.time(fake.call("c", 0.02, 0.001, lost=(0,)), 0.001)
    assert max(times) == pytest.approx(0.001)
    assert not aborted


def test_a_race_is_judged_by_the_median_process() -> None:
    race = Race(((3.0, 2.0), (5.0, 4.0), (2.5, 9.0)))
    assert race.per_process_s == (2.0, 4.0, 2.5)
    assert race.median_s == 2.5
    assert race.spread == pytest.approx(0.8)
