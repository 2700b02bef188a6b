"""How a call is timed.

One untimed run; then the minimum of a few samples, each at least a millisecond of work, leaving
out those in which a thread of the process lost its core against its will. The further behind the
best so far, the fewer samples. A trial is timed beside a *control*, another kernel of its task: by
so much as that is slower than usual, the machine is (ADR-0074). Candidates that are finalists, and
baselines, are measured again in turns (`interleave`), in several fresh processes (`Race`).
"""

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf, sqrt
from statistics import median
from typing import Final

Call = Callable[[], object]
Clock = Callable[[], float]
Switches = Callable[[], int]

MAX_LOOPS: Final = 1_000_000
MIN_VISITS: Final = 3
HOPELESS: Final = 1.5
CONTROL_RATIO: Final = 0.7  # of the cost of the control, where another takes its place
FIRST_SAMPLES: Final = 10  # of what there is no control for yet: it may become the first
LONG_SAMPLES: Final = 1.5  # calls so many samples long are sampled less often beside a control
QUIET: Final = 1.5  # times slower than usual; above: no control, not remembered, leaders again
LOUD: Final = 3.0  # times slower than usual: then there are more turns
LOUD_TURNS: Final = 3  # times as many
DISTURBED_S: Final = 0.02  # of disturbed samples, after which there is hardly a quiet one to be had
FRESH_S: Final = 0.03  # a sample of the control that is no older is the one before the next trial


@dataclass(frozen=True, slots=True)
class Protocol:
    """How many samples, of what length, and when a candidate is hopeless."""

    samples: int = 3
    attempts: int = 10  # samples taken at most, disturbed ones included
    min_sample_s: float = 1e-3
    cold_ratio: float = 2.0  # stop after the untimed run, where it is long, at so many times best
    hopeless_ratio: float = HOPELESS  # stop after a first sample this many times the best
    beaten_ratio: float = 1.15  # stop after a second one
    outclassed_ratio: float = 8.0  # in a race: one run is enough
    budget_s: float = 1.0  # of one candidate, or of one contestant: slow calls get fewer samples
    calm_s: float = 0.05  # a sample this long does not suffer from one lost time slice
    turns: int = 4  # with the control, in moments that are not calm
    calm_ratio: float = 1.05  # what the control may differ by, before and after, in a calm moment


@dataclass(slots=True)
class Control:
    """A kernel of the same task that others are timed beside; `usual_s` is what it cost once.

    `last_s` is what its last sample found, `last_at` when that ended.
    """

    call: Call
    usual_s: float
    last_s: float = inf
    last_at: float = -inf


@dataclass(frozen=True, slots=True)
class Race:
    """Seconds of one call: per fresh process, per visit, one undisturbed sample.

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


def preemptions() -> int:
    """Return how often a thread of this process was taken off its core against its will.

    A call on several threads waits for the one that lost its core, wherever it was called.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def loops_for(call_s: float, min_sample_s: float) -> int:
    """Return how many calls make one sample long enough."""
    return max(1, min(MAX_LOOPS, ceil(min_sample_s / max(call_s, 1e-9))))


def sample(
    call: Call, loops: int, protocol: Protocol, clock: Clock, switches: Switches
) -> tuple[float, bool]:
    """Return the seconds of one call, averaged over `loops`, and whether it was undisturbed."""
    before = switches()
    start = clock()
    for _ in range(loops):
        call()
    seconds = clock() - start
    return seconds / loops, seconds >= protocol.calm_s or switches() == before


def time_call(
    call: Call,
    best_s: float | None,
    protocol: Protocol,
    clock: Clock = time.perf_counter,
    switches: Switches = preemptions,
) -> tuple[tuple[float, ...], bool]:
    """Return samples in seconds per call, and whether it was given up as hopeless.

    Disturbed samples are returned only where no other could be had.
    """
    # Untimed, but it tells the length.
    first_s, calm = sample(call, 1, protocol, clock, switches)
    limit_s = inf if best_s is None else best_s
    loops = loops_for(first_s, protocol.min_sample_s)
    if calm and loops == 1 and first_s > protocol.cold_ratio * limit_s:
        return (first_s,), True
    if loops > 1:  # the first call was cold: ask again, so that samples are not too short
        warm_s, _ = sample(call, min(loops, 10), protocol, clock, switches)
        loops = loops_for(warm_s, protocol.min_sample_s)
    good: list[float] = []
    disturbed: list[float] = []
    end = clock() + protocol.budget_s
    while len(good) < protocol.samples and len(good) + len(disturbed) < protocol.attempts:
        if (good or disturbed) and clock() > end:
            break
        seconds, quiet = sample(call, loops, protocol, clock, switches)
        (good if quiet else disturbed).append(seconds)
        if _is_vain(disturbed, loops):
            break
        if len(good) == 1 and good[0] > protocol.hopeless_ratio * limit_s:
            return tuple(good), True
        if len(good) == 2 and min(good) > protocol.beaten_ratio * limit_s:
            break
    return tuple(good or disturbed), False


def time_beside(
    control: Control,
    call: Call,
    best_s: float | None,
    protocol: Protocol,
    clock: Clock = time.perf_counter,
    switches: Switches = preemptions,
) -> tuple[tuple[float, ...], bool, float]:
    """Time a call between two samples of a control, and in turns with it where these differ.

    Then a spell in which the machine is slower began or ended: the median of what every turn finds
    stands; so it does where the call may be the next control, whose cost all later ones depend
    on. There are more turns where the median says that it was `LOUD`: the control may have hardly
    run in most of them. What is hopeless whatever the spell did is not timed further. In a calm
    moment the sample after one trial is that before the next, where that follows at once.

    Returns:
        Samples in seconds per call, whether it was given up as hopeless, and how many times
        slower than usual the machine was, by the control: not more than its samples support.
    """

    def visit(one: Call, call_s: float) -> float:
        return _one_visit(one, loops_for(call_s, protocol.min_sample_s), protocol, clock, switches)

    begin = clock()
    end = begin + 2 * protocol.budget_s
    long = control.usual_s >= LONG_SAMPLES * protocol.min_sample_s
    if long:
        protocol = replace(protocol, samples=1, turns=2)
    if begin - control.last_at <= FRESH_S:
        before_s = control.last_s
    else:
        if not long:
            control.call()  # untimed: what was done before has left nothing of it in the caches
        before_s = visit(control.call, control.usual_s)
    limit_s = None if best_s is None else best_s * before_s / control.usual_s
    times, aborted = time_call(call, limit_s, protocol, clock, switches)
    after_s = visit(control.call, control.usual_s)
    seen, ratios = [before_s, after_s], [min(times) / min(before_s, after_s)]
    least_s = min(times) * control.usual_s / max(before_s, after_s)
    calm = max(before_s, after_s) <= protocol.calm_ratio * min(before_s, after_s)
    hopeless = best_s is not None and least_s > protocol.hopeless_ratio * best_s
    alone = hopeless or (calm and ratios[0] >= CONTROL_RATIO)

    def slowdown() -> float:
        return min(times) / (median(ratios) * control.usual_s)

    for turn in range(0 if alone else LOUD_TURNS * protocol.turns):
        if clock() > end or (turn >= protocol.turns and slowdown() <= LOUD):
            break
        aborted = False
        before_s = after_s
        times += (visit(call, min(times)),)
        after_s = visit(control.call, control.usual_s)
        seen.append(after_s)
        ratios.append(times[-1] / sqrt(before_s * after_s))
    control.last_s, control.last_at = after_s, clock() if calm else -inf
    return times, aborted, min(slowdown(), supported(seen, control.usual_s))


def supported(samples_s: Sequence[float], usual_s: float) -> float:
    """Return the largest slowdown that samples of a control support: their lower quartile.

    A slower spell slows all samples in it. Where a neighbour takes the core away, single ones are
    longer, and a correction by those would rank a candidate before faster ones (ADR-0089).
    """
    return sorted(samples_s)[len(samples_s) // 4] / usual_s


def interleave(
    calls: Mapping[str, Call],
    visits: int,
    protocol: Protocol,
    pause: Callable[[str, str], object] = lambda before, after: None,
    clock: Clock = time.perf_counter,
    switches: Switches = preemptions,
) -> dict[str, tuple[float, ...]]:
    """Time the calls in turns, A B A B ...; return one sample per visit, in seconds per call.

    A visit to a short call begins with an untimed run; a disturbed sample is repeated (`attempts`
    in all). A contestant that has used up its budget, or is beaten, gets no more visits, but at
    least three; one that is outclassed has its first undisturbed run only.

    Args:
        pause: called between contestants, with the names of both; lets threads that still spin go
            to sleep.
    """
    found: dict[str, list[float]] = {}
    for name, call in calls.items():
        found[name] = [_one_visit(call, 1, protocol, clock, switches)]
    limit_s = protocol.outclassed_ratio * min((times[0] for times in found.values()), default=0.0)
    loops: dict[str, int] = {}
    for name, call in calls.items():
        if found[name][0] > max(limit_s, protocol.min_sample_s):
            continue
        warm_s, _ = sample(call, 1, protocol, clock, switches)
        loops[name] = loops_for(warm_s, protocol.min_sample_s)
        found[name] = []
    before = next(reversed(found), "")
    for visit in range(visits):
        left = rivals(found, protocol.hopeless_ratio) if visit >= MIN_VISITS else [*loops]
        for name in loops:
            spent_s = 2 * loops[name] * sum(found[name])
            if name not in left or (visit >= MIN_VISITS and spent_s > protocol.budget_s):
                continue
            pause(before, name)
            before = name
            if not found[name] or found[name][-1] < protocol.calm_s:
                calls[name]()
            found[name].append(_one_visit(calls[name], loops[name], protocol, clock, switches))
    return {name: tuple(times) for name, times in found.items()}


def rivals(times_s: Mapping[str, Sequence[float]], ratio: float = HOPELESS) -> list[str]:
    """Return the names whose fastest sample is at most `ratio` times the fastest of all."""
    best = {name: min(times) for name, times in times_s.items()}
    limit_s = ratio * min(best.values(), default=0.0)
    return [name for name, fastest_s in best.items() if fastest_s <= limit_s]


def _one_visit(
    call: Call, loops: int, protocol: Protocol, clock: Clock, switches: Switches
) -> float:
    disturbed = []
    for _ in range(protocol.attempts):
        seconds, quiet = sample(call, loops, protocol, clock, switches)
        if quiet:
            return seconds
        disturbed.append(seconds)
        if _is_vain(disturbed, loops):
            break
    return min(disturbed)


def _is_vain(disturbed: Sequence[float], loops: int) -> bool:
    """Return whether to give up waiting for a quiet sample: a time slice is shorter than these."""
    return len(disturbed) >= MIN_VISITS and loops * sum(disturbed) > DISTURBED_S
