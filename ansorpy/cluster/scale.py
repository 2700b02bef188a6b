"""Costs of several slots on one scale: multiples of the same kernels, timed on each slot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import median
from typing import Final

from ansorpy.measure.outcome import Measured, Outcome

AGREEMENT: Final = 1.05  # ratio of a slot's factors for the marks up to which its costs compare
DRIFT: Final = 1.15  # median slowdown of a slot's reference kernel from which it is set aside


@dataclass(frozen=True, slots=True)
class Marks:
    """Costs in seconds of the kernels that every slot times, on the slot that sets the scale."""

    costs_s: tuple[float, ...] = ()

    def factor(self, outcomes: Sequence[Outcome]) -> float | None:
        """Return how many times as long a slot takes; None if the kernels disagree about that."""
        found = self._ratios(outcomes)
        agreed = len(found) == len(self.costs_s) and max(found) / min(found) <= AGREEMENT
        return _mean(found) if agreed else None

    def rough_factor(self, outcomes: Sequence[Outcome]) -> float:
        """Return the mean of the ratios, whether they agree or not; 1.0 if there are none."""
        return _mean(self._ratios(outcomes) or [1.0])

    def _ratios(self, outcomes: Sequence[Outcome]) -> list[float]:
        pairs = zip(outcomes, self.costs_s, strict=True)
        return [one.cost_s / ours_s for one, ours_s in pairs if isinstance(one, Measured)]


def _mean(ratios: Sequence[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def marks_of(outcomes: Sequence[Outcome]) -> dict[int, float]:
    """Return the costs of at most three outcomes by place: fastest, median, slowest.

    Kernels whose timing ended early take part only if there are no others.
    """
    timed = {k: one for k, one in enumerate(outcomes) if isinstance(one, Measured)}
    whole = {k: one for k, one in timed.items() if not one.aborted} or timed
    ranked = sorted(whole, key=lambda k: (whole[k].cost_s, k))
    last = len(ranked) - 1
    return {ranked[at]: whole[ranked[at]].cost_s for at in sorted({0, last // 2, last}) if ranked}


def scaled(outcome: Outcome, factor: float) -> Outcome:
    """Return an outcome whose cost is on the scale; its times stay as measured."""
    if isinstance(outcome, Measured) and factor != 1.0:
        return replace(outcome, slowdown=outcome.slowdown * factor)
    return outcome


def drift(outcomes: Sequence[Outcome]) -> float:
    """Return the median slowdown of the reference kernel beside timed candidates; 1.0 if none."""
    found = [one.slowdown for one in outcomes if isinstance(one, Measured) and not one.aborted]
    return median(found) if found else 1.0
