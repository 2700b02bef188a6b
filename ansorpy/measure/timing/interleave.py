"""Paired timing: calls in turns, A B A B ..., so that drift of the machine meets all of them."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from types import MappingProxyType

from ansorpy.measure.timing.sampling import (
    HOPELESS,
    MIN_VISITS,
    Call,
    Clock,
    SamplingOptions,
    Switches,
    loops_for,
    one_visit,
    preemptions,
    sample,
)


@dataclass(frozen=True, slots=True)
class PairedTimes:
    """Seconds of one call: per fresh process, per visit, one sample.

    `errors` are the largest distances to the float64 reference on random inputs, per output.
    """

    times_s: tuple[tuple[float, ...], ...]
    errors: tuple[float, ...] = ()

    @property
    def per_process_s(self) -> tuple[float, ...]:
        """The fastest visit of every process."""
        return tuple(map(min, self.times_s))

    @property
    def median_s(self) -> float:
        """The median process."""
        return median(self.per_process_s)

    @property
    def spread(self) -> float:
        """The distance between the slowest and the fastest process, over the median."""
        found = self.per_process_s
        return (max(found) - min(found)) / self.median_s


def interleave(
    calls: Mapping[str, Call],
    visits: int,
    options: SamplingOptions,
    pause: Callable[[str, str], object] = lambda before, after: None,
    clock: Clock = time.perf_counter,
    switches: Switches = preemptions,
    kept_s: Mapping[str, float] = MappingProxyType({}),
) -> dict[str, tuple[float, ...]]:
    """Time the calls in turns, A B A B ...; return one sample per visit, in seconds per call.

    A visit to a short call begins with an untimed run; a preempted sample is repeated (`attempts`
    in all). A contestant that has used up its budget, or is beaten, gets three visits; a contestant
    that is outclassed gets its first run only.

    Args:
        pause: called between contestants, with the names of both, so that spinning threads can go
            to sleep.
        kept_s: by name, seconds up to which a first run does not outclass a contestant.
    """
    times_s: dict[str, list[float]] = {}
    for name, call in calls.items():
        times_s[name] = [one_visit(call, 1, options, clock, switches)]
    limit_s = options.outclassed_ratio * min((times[0] for times in times_s.values()), default=0.0)
    loops: dict[str, int] = {}
    for name, call in calls.items():
        if times_s[name][0] > max(limit_s, options.min_sample_s, kept_s.get(name, 0.0)):
            continue
        warm_s, _ = sample(call, 1, options, clock, switches)
        loops[name] = loops_for(warm_s, options.min_sample_s)
        times_s[name] = []
    before = next(reversed(times_s), "")
    for visit in range(visits):
        left = rivals(times_s, options.hopeless_ratio) if visit >= MIN_VISITS else [*loops]
        for name in loops:
            spent_s = 2 * loops[name] * sum(times_s[name])
            if name not in left or (visit >= MIN_VISITS and spent_s > options.budget_s):
                continue
            pause(before, name)
            before = name
            if not times_s[name] or times_s[name][-1] < options.calm_s:
                calls[name]()
            times_s[name].append(one_visit(calls[name], loops[name], options, clock, switches))
    return {name: tuple(times) for name, times in times_s.items()}


def steady_s(times_s: Mapping[str, Sequence[float]]) -> dict[str, float]:
    """Return the time of each call at the usual speed of the machine, in seconds (ADR-0074).

    A visit counts as its ratio to the median call of the same round, so that a call that met the
    machine in a fast moment does not lead. Only calls that stayed to the last round decide about
    the speed of a round.

    Args:
        times_s: by name, one sample per visit, as of `interleave`; at least one each.
    """
    last = max(map(len, times_s.values()), default=0)
    whole = [visits for visits in times_s.values() if len(visits) == last]
    rounds_s = [median(row) for row in zip(*whole, strict=True)]
    usual_s = median(rounds_s) if rounds_s else 0.0
    return {
        name: usual_s
        * median(visit_s / round_s for visit_s, round_s in zip(visits, rounds_s, strict=False))
        for name, visits in times_s.items()
    }


def rivals(times_s: Mapping[str, Sequence[float]], ratio: float = HOPELESS) -> list[str]:
    """Return the names whose fastest sample is at most `ratio` times the fastest of all."""
    best = {name: min(times) for name, times in times_s.items()}
    limit_s = ratio * min(best.values(), default=0.0)
    return [name for name, fastest_s in best.items() if fastest_s <= limit_s]
