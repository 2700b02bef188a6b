"""Drift correction: time a call beside a reference kernel of the same task (ADR-0074).

The slowdown of the reference kernel against its usual cost is the slowdown of the machine.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf, sqrt
from statistics import median
from typing import Final

from ansorpy.measure.timing.sampling import (
    Call,
    Clock,
    SamplingOptions,
    Switches,
    loops_for,
    one_visit,
    preemptions,
    time_call,
)

REFERENCE_RATIO: Final = 0.7  # a kernel of less than this share of its cost replaces it
FIRST_SAMPLES: Final = 10  # samples per candidate until a reference kernel has been chosen
LONG_SAMPLES: Final = 1.5  # samples per call, from which fewer turns are taken
QUIET: Final = 1.5  # slowdown up to which a cost is cached and may become the reference
LOUD: Final = 3.0  # slowdown above which more turns are taken
LOUD_TURNS: Final = 3  # times as many turns
FRESH_S: Final = 0.03  # seconds for which a sample of the reference serves for the next trial, too


@dataclass(slots=True)
class Reference:
    """The reference kernel as a call.

    usual_s  its cost when it became the reference
    last_s   its last sample, which ended at `last_at`
    """

    call: Call
    usual_s: float
    last_s: float = inf
    last_at: float = -inf


def time_with_reference(
    reference: Reference,
    call: Call,
    best_s: float | None,
    options: SamplingOptions,
    clock: Clock = time.perf_counter,
    switches: Switches = preemptions,
) -> tuple[tuple[float, ...], bool, float]:
    """Time a call between two samples of the reference, and in turns with it if these differ.

    If they differ, the machine became slower or faster meanwhile, and the median over several turns
    counts. The median also counts if the call may become the next reference, because all later
    costs depend on it. Above `LOUD` there are more turns: the reference may have been preempted in
    most of them. A call that is hopeless at any speed of the machine gets no turns. If the samples
    agree and the next trial follows at once, the second sample serves as its first one.

    Returns:
        Samples in seconds per call, whether it was given up as hopeless, and the slowdown of
        the machine: of the reference, limited by `supported`.
    """

    def visit(call: Call, call_s: float) -> float:
        return one_visit(call, loops_for(call_s, options.min_sample_s), options, clock, switches)

    begin = clock()
    end = begin + 2 * options.budget_s
    long = reference.usual_s >= LONG_SAMPLES * options.min_sample_s
    if long:
        options = replace(options, samples=1, turns=2)
    if begin - reference.last_at <= FRESH_S:
        before_s = reference.last_s
    else:
        if not long:
            reference.call()  # untimed: earlier work has evicted its data from the caches
        before_s = visit(reference.call, reference.usual_s)
    limit_s = None if best_s is None else best_s * before_s / reference.usual_s
    times, aborted = time_call(call, limit_s, options, clock, switches)
    after_s = visit(reference.call, reference.usual_s)
    seen, ratios = [before_s, after_s], [min(times) / min(before_s, after_s)]
    least_s = min(times) * reference.usual_s / max(before_s, after_s)
    calm = max(before_s, after_s) <= options.calm_ratio * min(before_s, after_s)
    hopeless = best_s is not None and least_s > options.hopeless_ratio * best_s
    alone = hopeless or (calm and ratios[0] >= REFERENCE_RATIO)

    def slowdown() -> float:
        return min(times) / (median(ratios) * reference.usual_s)

    for turn in range(0 if alone else LOUD_TURNS * options.turns):
        if clock() > end or (turn >= options.turns and slowdown() <= LOUD):
            break
        aborted = False
        before_s = after_s
        times += (visit(call, min(times)),)
        after_s = visit(reference.call, reference.usual_s)
        seen.append(after_s)
        ratios.append(times[-1] / sqrt(before_s * after_s))
    reference.last_s, reference.last_at = after_s, clock() if calm else -inf
    return times, aborted, min(slowdown(), supported(seen, reference.usual_s))


def supported(samples_s: Sequence[float], usual_s: float) -> float:
    """Return the largest slowdown that samples of a reference support: their lower quartile.

    A slow spell lengthens all samples in it; a preemption lengthens single ones, and a correction
    by these would rank a candidate before faster ones (ADR-0074).
    """
    return sorted(samples_s)[len(samples_s) // 4] / usual_s
