"""Comparison of rankings: by cost corrected with the reference kernel, and by measured time.

A machine made up, with seeded noise: no clock is read. Source: docs/adr/0074.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from random import Random
from statistics import mean

import pytest

from ansorpy.measure.outcome import Measured
from ansorpy.measure.timing.drift import QUIET, Reference, time_with_reference
from ansorpy.measure.timing.sampling import SamplingOptions

CANDIDATES = 48
SEARCHES = 16
REFERENCE_S = 0.0004


@dataclass
class Machine:
    """A clock that calls move. `spells` last long and slow all calls; `stalls` hit single ones."""

    rng: Random
    spells: float = 1.0  # times slower, half of the time
    stalls: float = 0.0  # per second of work; the operating system does not tell of them
    now_s: float = 0.0
    factor: float = 1.0
    until_s: float = field(default=0.0)

    def call(self, cost_s: float) -> Callable[[], None]:
        def run() -> None:
            while self.now_s >= self.until_s:
                self.factor = self.spells if self.factor == 1.0 else 1.0
                self.until_s += self.rng.expovariate(1 / 0.3)
            self.now_s += cost_s * self.factor * (1.0 + self.rng.expovariate(1 / 0.003))
            if self.rng.random() < self.stalls * cost_s:
                self.now_s += self.rng.uniform(0.0005, 0.006)

        return run


def leaders(machine: Machine) -> tuple[float, float]:
    """Search once; return how far behind the best the first by time and the first by cost are."""
    rng = machine.rng
    found: dict[float, Measured] = {}
    reference = Reference(machine.call(REFERENCE_S), REFERENCE_S)

    def timed(seconds: float) -> Measured:
        times, _, slowdown = time_with_reference(
            reference,
            machine.call(seconds),
            None,
            SamplingOptions(),
            lambda: machine.now_s,
            lambda: 0,
        )
        return Measured(times, slowdown=slowdown)

    for seconds in [REFERENCE_S * (1.0 + rng.random()) for _ in range(CANDIDATES)]:
        machine.now_s += rng.uniform(0.002, 0.02)
        one = timed(seconds)
        leads = one.cost_s < min((other.cost_s for other in found.values()), default=inf)
        if leads and one.slowdown > QUIET:  # as `steps.trial`
            one = min(one, timed(seconds), key=lambda other: other.slowdown)
        found[seconds] = one
    by_time = min(found, key=lambda seconds: found[seconds].best_s)
    by_cost = min(found, key=lambda seconds: found[seconds].cost_s)
    return by_time / min(found), by_cost / min(found)


def behind(**noise: float) -> tuple[float, float]:
    """Return the mean of some searches, by time and by cost."""
    pairs = [leaders(Machine(Random(seed), **noise)) for seed in range(SEARCHES)]
    return mean(one for one, _ in pairs), mean(other for _, other in pairs)


@pytest.mark.parametrize("spells", [1.3, 2.0, 2.6])
def test_the_correction_finds_the_best_through_slow_spells(spells: float) -> None:
    by_time, by_cost = behind(spells=spells)
    assert by_cost < 1.01
    assert by_cost <= by_time


@pytest.mark.parametrize(("stalls", "most"), [(150.0, 1.02), (300.0, 1.02), (600.0, 1.12)])
def test_stalls_of_single_samples_put_no_slow_candidate_first(stalls: float, most: float) -> None:
    """Without the bound the first is 6, 17 and 20 % behind the best."""
    by_time, by_cost = behind(stalls=stalls)
    assert by_time < 1.02
    assert by_cost < most
