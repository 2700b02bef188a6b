"""The ranking of a race: its winner and the kernel to deliver, from the measured times."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import Final, Literal

from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.measure.timing.own_kernel import OWN, PEER
from ansorpy.measure.timing.paired_benchmark import NUMPY
from ansorpy.records import RacedOwn

NAIVE: Final = "naive"
Winner = Literal["tuned", "baseline", "own"]


@dataclass(frozen=True, slots=True)
class Ranking:
    """The times of a race in seconds, who won it, and the name of the kernel to deliver."""

    winner: Winner
    chosen: str
    tuned_s: tuple[float, ...]  # times of the fastest tuned kernel; () if none survived
    naive_s: tuple[float, ...]
    numpy_s: tuple[float, ...]
    numpy_note: str  # why NumPy left the race; "": it did not
    errors: tuple[float, ...]  # errors of the kernel to deliver
    own: tuple[RacedOwn, ...] = ()  # kernels of the user's own; "own" won if one is the fastest
    peers: tuple[RacedOwn, ...] = ()  # installed libraries, which never win


def rank(finished: Mapping[str, Times], numpy_note: str, fixed: bool = False) -> Ranking:
    """Return the ranking of a race in which a kernel of ours came to its end.

    Args:
        fixed: the fastest tuned kernel is delivered even if the untuned one is faster: the user
            wrote its schedule.
    """
    told = {name: times for name, times in finished.items() if name.startswith(PEER)}
    finished = {name: times for name, times in finished.items() if name not in told}
    tuned = [name for name in finished if name not in (NAIVE, NUMPY) and not is_own(name)]
    best = min(tuned, key=lambda name: finished[name].median_s, default=NAIVE)
    medians_s = {name: times.median_s for name, times in finished.items()}
    judged, chosen = judge(best, medians_s)
    first = min(medians_s, key=medians_s.__getitem__)
    winner: Winner = "own" if is_own(first) else judged
    chosen = best if fixed else chosen
    own, naive, numpy = (
        _samples(finished.get(name)) for name in (best if tuned else "", NAIVE, NUMPY)
    )
    raced = tuple(
        RacedOwn(name.removeprefix(OWN), _samples(times))
        for name, times in finished.items()
        if is_own(name)
    )
    peers = tuple(
        RacedOwn(name.removeprefix(PEER), _samples(times)) for name, times in told.items()
    )
    errors = finished[chosen].errors
    return Ranking(winner, chosen, own, naive, numpy, numpy_note, errors, raced, peers)


def is_own(name: str) -> bool:
    """Return whether a contestant is a kernel of the user's own."""
    return name.startswith(OWN)


def judge(best: str, times_s: Mapping[str, float]) -> tuple[Literal["tuned", "baseline"], str]:
    """Return who won, and which of our kernels is delivered: the fastest (ADR-0085).

    Args:
        best: the name of the fastest tuned kernel, NAIVE where none survived.
        times_s: of everything that ran: tuned kernels, NAIVE, NUMPY.
    """
    own = min((best, NAIVE), key=lambda name: times_s.get(name, inf))
    beaten = own == NAIVE or times_s.get(NUMPY, inf) < times_s[own]
    return "baseline" if beaten else "tuned", own


def _samples(times: Times | None) -> tuple[float, ...]:
    return () if times is None else tuple(s for run in times.times_s for s in run)
