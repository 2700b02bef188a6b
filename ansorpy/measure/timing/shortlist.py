"""Re-ranking of a shortlist: time the leaders of the trials again, in turns in one process."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ansorpy.codegen.kernel import Kernel
from ansorpy.loopir.nodes import Program
from ansorpy.measure.backend import MachineCode
from ansorpy.measure.protocols import BuildResult
from ansorpy.measure.timing.batch import BatchMeasurer
from ansorpy.measure.timing.final_race import CheckedCode, race_checked
from ansorpy.measure.timing.interleave import PairedTimes, steady_s
from ansorpy.measure.timing.local_slot import LocalSlot
from ansorpy.measure.unbound import Unbound
from ansorpy.measure.workers.pipeline import build_all


@dataclass(frozen=True, slots=True)
class ShortlistTime:
    """The time of a candidate as of `steady_s`; candidates of equal `code` share machine code."""

    cost_s: float
    code: int


def rerank(
    batches: BatchMeasurer,
    slot: LocalSlot,
    candidates: Sequence[Program | Unbound],
    budget_s: float,
    beside: Kernel | None = None,
) -> list[ShortlistTime | None]:
    """Time candidates that passed their trials; as `RacePool.rerank`."""
    queue, settings = batches.queue, slot.settings
    requests = [batches.request_of(one) for one in candidates]
    codes = [
        one.built if isinstance(one, BuildResult) else None
        for one in build_all(queue, requests, settings.build_timeout_s)
    ]
    numbers: dict[MachineCode, int] = {}
    for number, code in enumerate(codes):
        if code is not None:
            numbers.setdefault(code, number)
    kernels = {str(number): CheckedCode(code, ()) for code, number in numbers.items()}
    sampling = replace(settings.sampling, budget_s=budget_s / max(1, len(kernels)))
    if beside is not None:
        request = batches.request_of(beside)
        queue.prebuild_one(request, settings.source_timeout_s, aside=True)
    queue.wait_quiet()
    with slot.reserve():
        timed = race_checked(slot, kernels, None, lambda: False, 1, sampling)
    visits_s = {name: one.times_s[0] for name, one in timed.items() if isinstance(one, PairedTimes)}
    costs_s = {int(name): seconds for name, seconds in steady_s(visits_s).items()}
    places = [None if code is None else numbers[code] for code in codes]
    return [ShortlistTime(costs_s[one], one) if one in costs_s else None for one in places]
