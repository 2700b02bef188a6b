"""Samples of the time of one call.

One untimed run, then the minimum of a few samples, each at least a millisecond of work, without
those in which a thread of the process was preempted. The slower a call is than the best so far, the
fewer samples it gets.
"""

import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from ansorpy.measure.backend import TimedCall
from ansorpy.measure.timing.each_size import EachSize
from ansorpy.measure.timing.side_by_side import spent

Call = Callable[[], object]
Clock = Callable[[], float]
Switches = Callable[[], int]

MAX_LOOPS: Final = 1_000_000  # calls per sample
MIN_VISITS: Final = 3  # samples after which a measurement may end
HOPELESS: Final = 1.5  # times the best so far, from which a call is not sampled further
DISTURBED_S: Final = 0.02  # seconds of preempted samples: a time slice is shorter than that


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Number and length of samples, and the ratios at which sampling ends early."""

    samples: int = 3
    attempts: int = 10  # samples taken at most, preempted ones included
    min_sample_s: float = 1e-3
    cold_ratio: float = 2.0  # stop after a long untimed run at this many times the best
    hopeless_ratio: float = HOPELESS  # stop after a first sample at this many times the best
    beaten_ratio: float = 1.15  # stop after a second sample at this many times the best
    outclassed_ratio: float = 8.0  # in a race: stop after one run at this many times the best
    budget_s: float = 1.0  # seconds per candidate or contestant: slow calls get fewer samples
    calm_s: float = 0.05  # one lost time slice does not spoil a sample this long
    turns: int = 4  # turns with the reference kernel while the machine's speed changes
    calm_ratio: float = 1.05  # change of the reference up to which one turn suffices
    cold_bytes: int = 0  # size of all copies of a kernel's weights that calls go round; 0: hot
    cores: tuple[int, ...] = ()  # a copy of the kernel on each of these at once; (): one call


def preemptions() -> int:
    """Return how often a thread of this process was preempted.

    A call on several threads waits for a preempted thread on any core.
    """
    return resource.getrusage(resource.RUSAGE_SELF).ru_nivcsw


def loops_for(call_s: float, min_sample_s: float) -> int:
    """Return how many calls make one sample long enough."""
    return max(1, min(MAX_LOOPS, ceil(min_sample_s / max(call_s, 1e-9))))


def sample(
    call: Call, loops: int, options: SamplingOptions, clock: Clock, switches: Switches
) -> tuple[float, bool]:
    """Return the seconds of one call, averaged over `loops`, and whether it was undisturbed."""
    if isinstance(call, TimedCall):  # preemptions of this process do not matter to a device
        return call.seconds(loops) / loops, True
    if isinstance(call, EachSize):
        mean_s, preempted = call.mean_s(loops, clock, switches)
        spent_s = loops * len(call.calls) * mean_s
        return mean_s, spent_s >= options.calm_s or not preempted
    seconds, preempted = spent(call, loops, clock, switches)
    return seconds / loops, seconds >= options.calm_s or not preempted


def time_call(
    call: Call,
    best_s: float | None,
    options: SamplingOptions,
    clock: Clock = time.perf_counter,
    switches: Switches = preemptions,
) -> tuple[tuple[float, ...], bool]:
    """Return samples in seconds per call, and whether it was given up as hopeless.

    Preempted samples are returned only if there are no others.
    """
    # The untimed run: it tells how long a call takes.
    first_s, calm = sample(call, 1, options, clock, switches)
    limit_s = inf if best_s is None else best_s
    loops = loops_for(first_s, options.min_sample_s)
    if calm and loops == 1 and first_s > options.cold_ratio * limit_s:
        return (first_s,), True
    if loops > 1:  # the first call was cold: its time would make samples too short
        warm_s, _ = sample(call, min(loops, 10), options, clock, switches)
        loops = loops_for(warm_s, options.min_sample_s)
    good: list[float] = []
    disturbed: list[float] = []
    end = clock() + options.budget_s
    while len(good) < options.samples and len(good) + len(disturbed) < options.attempts:
        if (good or disturbed) and clock() > end:
            break
        seconds, quiet = sample(call, loops, options, clock, switches)
        (good if quiet else disturbed).append(seconds)
        if _is_futile(disturbed, loops):
            break
        if len(good) == 1 and good[0] > options.hopeless_ratio * limit_s:
            return tuple(good), True
        if len(good) == 2 and min(good) > options.beaten_ratio * limit_s:
            break
    return tuple(good or disturbed), False


def one_visit(
    call: Call, loops: int, options: SamplingOptions, clock: Clock, switches: Switches
) -> float:
    """Return one undisturbed sample, or the fastest of several disturbed ones."""
    disturbed = []
    for _ in range(options.attempts):
        seconds, quiet = sample(call, loops, options, clock, switches)
        if quiet:
            return seconds
        disturbed.append(seconds)
        if _is_futile(disturbed, loops):
            break
    return min(disturbed)


def _is_futile(disturbed: Sequence[float], loops: int) -> bool:
    """Return whether to stop waiting for a sample without preemption."""
    return len(disturbed) >= MIN_VISITS and loops * sum(disturbed) > DISTURBED_S
