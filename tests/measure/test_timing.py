"""Nothing here reads a real clock."""

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from ansorpy.measure.timing.drift import (
    FRESH_S,
    LOUD,
    LOUD_TURNS,
    Reference,
    supported,
    time_with_reference,
)
from ansorpy.measure.timing.interleave import PairedTimes, interleave, rivals, steady_s
from ansorpy.measure.timing.sampling import SamplingOptions, time_call


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
        return time_call(call, best_s, SamplingOptions(), lambda: self.now_s, lambda: self.switches)


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
    assert len(times) == SamplingOptions().attempts


@pytest.mark.parametrize(("call_s", "samples"), [(1e-5, 10), (0.0015, 10), (0.005, 5), (0.04, 3)])
def test_a_call_longer_than_a_time_slice_is_not_repeated(call_s: float, samples: int) -> None:
    fake = Fake()
    every = tuple(range(10_000))
    times, _ = fake.time(fake.call("a", call_s, lost=every), None)
    assert len(times) == samples
    fake.log.clear()
    interleave(
        {"a": fake.call("a", call_s, lost=every)}, 1, SamplingOptions(),
        clock=lambda: fake.now_s, switches=lambda: fake.switches,
    )  # fmt: skip
    loops = max(1, round(1e-3 / call_s))
    assert len(fake.log) // loops <= 2 * samples + 2


def test_a_short_call_is_repeated_for_a_millisecond() -> None:
    fake = Fake()
    times, _ = fake.time(fake.call("a", 1e-5), None)
    assert times == pytest.approx((1e-5,) * 3)
    assert len(fake.log) >= 300


def test_a_hopeless_call_is_stopped_after_one_sample() -> None:
    fake = Fake()
    times, aborted = fake.time(fake.call("a", 0.05), 0.01)
    assert (len(times), aborted) == (1, True)
    assert len(fake.time(fake.call("b", 0.018), 0.01)[0]) == 1
    assert fake.time(fake.call("c", 1e-5), 1e-6)[1] is True


def test_slow_kernels_are_sampled_twice_and_close_ones_to_the_end() -> None:
    fake = Fake()
    assert len(fake.time(fake.call("a", 0.013), 0.01)[0]) == 2
    assert len(fake.time(fake.call("b", 0.011), 0.01)[0]) == SamplingOptions().samples
    # A cold first call is no verdict, unless it is a long one.
    times, aborted = fake.time(fake.call("c", 0.019, 0.01), 0.01)
    assert (len(times), aborted) == (3, False)


def test_slow_calls_get_fewer_samples() -> None:
    fake = Fake()
    times, _ = fake.time(fake.call("a", 3.0), None)
    assert len(times) == 1


class Loud(Fake):
    """A machine that is `factor` times slower from its call number `begin` to number `end`."""

    def __init__(self, factor: float, begin: int, end: int) -> None:
        super().__init__()
        self.factor, self.begin, self.end = factor, begin, end

    def call(self, name: str, *costs_s: float, lost: tuple[int, ...] = ()) -> Callable[[], None]:
        quiet = super().call(name, *costs_s, lost=lost)

        def run() -> None:
            before_s = self.now_s
            loud = self.begin <= len(self.log) < self.end
            quiet()
            self.now_s += (self.now_s - before_s) * (self.factor - 1 if loud else 0)

        return run

    def beside(self, cost_s: float, best_s: float | None) -> tuple[float, bool]:
        """Return the cost that is found beside a reference of 1.4 ms."""
        reference = Reference(self.call("reference", 0.0014), 0.0014)
        call = self.call("own", cost_s)
        times, aborted, slowdown = time_with_reference(
            reference, call, best_s, SamplingOptions(), lambda: self.now_s, lambda: self.switches
        )
        return min(times) / slowdown, aborted


def test_the_reference_is_sampled_twice_at_steady_speed() -> None:
    fake = Loud(1.0, 0, 0)
    cost_s, aborted = fake.beside(0.003, None)
    assert cost_s == pytest.approx(0.003)
    assert not aborted
    assert (fake.log.count("reference"), fake.log.count("own")) == (3, 4)  # one of each is untimed


def test_the_sample_after_a_trial_serves_before_the_next_one() -> None:
    fake = Loud(1.0, 0, 0)
    reference = Reference(fake.call("reference", 0.0014), 0.0014)

    def samples_of_the_reference(wait_s: float) -> int:
        fake.now_s += wait_s
        fake.log.clear()
        own = fake.call("own", 0.003)
        times, _, slowdown = time_with_reference(
            reference, own, None, SamplingOptions(), lambda: fake.now_s, lambda: fake.switches
        )
        assert min(times) / slowdown == pytest.approx(0.003)
        return fake.log.count("reference")

    assert samples_of_the_reference(0.0) == 3  # an untimed one, before, after
    assert samples_of_the_reference(0.01) == 1
    fake.factor, fake.begin, fake.end = 2.0, 0, 2  # a spell that ends before the reference's turn
    assert samples_of_the_reference(0.01) == 1
    fake.factor, fake.begin, fake.end = 2.0, 0, 100  # a slow spell that lasts: in turns
    assert samples_of_the_reference(0.01) > 2
    fake.factor = 1.0
    assert samples_of_the_reference(FRESH_S + 0.01) == 3


@pytest.mark.parametrize(("cost_s", "samples"), [(0.0011, 3), (0.00095, 7)])
def test_a_possible_reference_kernel_is_timed_in_turns(cost_s: float, samples: int) -> None:
    fake = Loud(1.0, 0, 0)
    reference = Reference(fake.call("reference", 0.0014), 0.0014)
    times, _, slowdown = time_with_reference(
        reference, fake.call("own", cost_s), None, SamplingOptions(),
        lambda: fake.now_s, lambda: fake.switches,
    )  # fmt: skip
    assert len(times) == samples
    assert min(times) / slowdown == pytest.approx(cost_s)


@pytest.mark.parametrize("begin", range(12))
@pytest.mark.parametrize("length", [3, 5, 100])
def test_a_slow_spell_does_not_change_the_cost(begin: int, length: int) -> None:
    """Whenever it begins: as long as no spell covers all of one and none of the other."""
    fake = Loud(2.0, begin, begin + length)
    cost_s, aborted = fake.beside(0.003, 0.0025)
    assert cost_s == pytest.approx(0.003)
    assert not aborted


@pytest.mark.parametrize(("stalls", "turns"), [((1,), 4), ((1, 2, 3, 4, 5, 6), 11)])
def test_a_preempted_reference_gets_more_turns(stalls: tuple[int, ...], turns: int) -> None:
    """It stalls in most of the first samples: by their median the cost would be a tenth."""
    fake = Fake()
    costs_s = [0.014 if number in stalls else 0.0014 for number in range(20)]
    reference = Reference(fake.call("reference", *costs_s), 0.0014)
    times, _, slowdown = time_with_reference(
        reference, fake.call("own", 0.0013), None, SamplingOptions(),
        lambda: fake.now_s, lambda: fake.switches,
    )  # fmt: skip
    assert len(times) == SamplingOptions().samples + turns
    assert turns <= LOUD_TURNS * SamplingOptions().turns
    assert slowdown < LOUD  # it would be 10 after as few as usual


@pytest.mark.parametrize("stalls", [(2, 3, 5), (1, 2, 4), (1, 3, 5, 6), (2, 4, 5, 6)])
def test_stalls_of_the_reference_make_no_candidate_faster(stalls: tuple[int, ...]) -> None:
    """A neighbour takes the core in every other sample of the reference, unnoticed."""
    fake = Fake()
    costs_s = [0.0035 if number in stalls else 0.0014 for number in range(20)]
    reference = Reference(fake.call("reference", *costs_s), 0.0014)
    times, _, slowdown = time_with_reference(
        reference, fake.call("own", 0.002), None, SamplingOptions(),
        lambda: fake.now_s, lambda: fake.switches,
    )  # fmt: skip
    assert min(times) == pytest.approx(0.002)
    assert slowdown == pytest.approx(1.0)  # by the median of the turns: 1.6 to 2.5


def test_the_lower_quartile_of_the_reference_bounds_the_slowdown() -> None:
    assert supported([2.0, 1.0], 1.0) == 1.0
    assert supported([2.0, 1.0, 2.1, 2.2, 2.0, 2.0], 1.0) == 2.0  # one sample before the spell
    assert supported([1.0, 3.0, 1.0, 9.0, 2.0, 4.0], 0.5) == 2.0


def test_a_preempted_thread_disturbs_the_whole_process() -> None:
    """Two busy threads on one core: the preempted thread is not the asking one."""
    script = """
import os, threading, time
from ansorpy.measure.timing.sampling import preemptions
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
before, end = preemptions(), time.monotonic() + 0.5
def spin():
    while time.monotonic() < end:
        sum(range(100_000))
others = [threading.Thread(target=spin) for _ in range(2)]
for one in others:
    one.start()
for one in others:
    one.join()
assert preemptions() > before, "no thread was preempted"
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_long_calls_are_sampled_once_and_less_often_in_turns() -> None:
    fake = Loud(1.0, 0, 0)
    reference = Reference(fake.call("reference", 0.02), 0.02)
    for begin, samples in ((1000, 1), (2, 3)):
        fake.log.clear()
        fake.factor, fake.begin, fake.end = 2.0, begin, begin + 100
        times, _, slowdown = time_with_reference(
            reference, fake.call("own", 0.03), None, SamplingOptions(),
            lambda: fake.now_s, lambda: fake.switches,
        )  # fmt: skip
        assert len(times) == samples
        assert min(times) / slowdown == pytest.approx(0.03)


def test_a_call_that_is_hopeless_at_any_speed_is_not_timed_in_turns() -> None:
    fake = Loud(2.0, 2, 100)  # begins after the first sample of the reference
    cost_s, aborted = fake.beside(0.01, 0.002)
    assert aborted
    assert cost_s > 0.01
    assert fake.log.count("own") <= 2
    rescued = Loud(2.0, 2, 6)  # looks hopeless in the spell, and is the best
    cost_s, aborted = rescued.beside(0.0014, 0.002)
    assert cost_s == pytest.approx(0.0014)
    assert not aborted


def test_finalists_take_turns() -> None:
    fake = Fake()
    calls = {"a": fake.call("a", 0.002), "b": fake.call("b", 0.004)}
    pauses: list[str] = []
    found = interleave(
        calls, 2, SamplingOptions(), lambda before, after: pauses.append(before + after),
        lambda: fake.now_s, lambda: fake.switches,
    )  # fmt: skip
    assert found == {"a": pytest.approx((0.002,) * 2), "b": pytest.approx((0.004,) * 2)}
    assert "".join(fake.log) == "abab" + "aabb" * 2
    assert pauses == ["ba", "ab"] * 2


def test_slow_kernels_leave_a_race_early_and_very_slow_ones_at_once() -> None:
    fake = Fake()
    calls = {"slow": fake.call("s", 0.1), "a": fake.call("a", 0.01), "b": fake.call("b", 0.016)}
    found = interleave(
        calls, 6, SamplingOptions(), clock=lambda: fake.now_s, switches=lambda: fake.switches
    )
    assert {name: len(times) for name, times in found.items()} == {"slow": 1, "a": 6, "b": 3}
    assert rivals(found) == ["a"]


def test_a_slow_first_run_up_to_some_seconds_may_be_excused() -> None:
    fake = Fake()
    calls = {"late": fake.call("l", 0.1, 0.02), "a": fake.call("a", 0.01)}
    found = interleave(
        calls, 6, SamplingOptions(), clock=lambda: fake.now_s, switches=lambda: fake.switches,
        kept_s={"late": 0.2},
    )  # fmt: skip
    assert found["late"] == pytest.approx((0.02,) * 3)


def test_steady_times_are_those_of_a_steady_machine() -> None:
    assert steady_s({}) == {}
    assert steady_s({"a": (2.0, 2.0), "b": (3.0, 3.0)}) == {"a": 2.0, "b": 3.0}
    halved = {"a": (2.0, 4.0, 2.0), "b": (3.0, 6.0, 3.0), "given up": (9.0,)}
    assert steady_s(halved) == pytest.approx({"a": 2.0, "b": 3.0, "given up": 9.0})


def test_a_call_that_met_a_fast_moment_does_not_lead() -> None:
    rng, worse, least = np.random.default_rng(0), [], []
    for _ in range(200):
        own = {f"{n}": 1.0 + 0.05 * n for n in range(16)}
        speeds = np.exp(rng.normal(0.0, 0.15, (8, 1))) * rng.choice(
            (1.0, 0.8), (8, 16), p=(0.9, 0.1)
        )
        times = {name: tuple(own[name] * speeds[:, n]) for n, name in enumerate(own)}
        steady = steady_s(times)
        worse.append(own[min(steady, key=steady.__getitem__)])
        least.append(own[min(times, key=lambda name: min(times[name]))])
    assert max(worse) <= 1.1
    assert np.mean(worse) < np.mean(least)


def test_no_contestant_is_given_up_for_a_lost_time_slice() -> None:
    fake = Fake()
    calls = {
        "a": fake.call("a", 0.02, 0.001, lost=(0,)),
        "b": fake.call("b", 0.001),
    }
    found = interleave(
        calls, 6, SamplingOptions(), clock=lambda: fake.now_s, switches=lambda: fake.switches
    )
    assert found["a"] == pytest.approx((0.001,) * 6)
    times, aborted = fake.time(fake.call("c", 0.02, 0.001, lost=(0,)), 0.001)
    assert max(times) == pytest.approx(0.001)
    assert not aborted


def test_a_race_is_judged_by_the_median_process() -> None:
    race = PairedTimes(((3.0, 2.0), (5.0, 4.0), (2.5, 9.0)))
    assert race.per_process_s == (2.0, 4.0, 2.5)
    assert race.median_s == 2.5
    assert race.spread == pytest.approx(0.8)
