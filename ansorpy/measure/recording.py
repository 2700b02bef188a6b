"""Features of plans are recorded on several cores: by the caller, and by builders that are idle."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from ansorpy.features import Prepared, prepare
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.crew import Crew
from ansorpy.measure.draft import packed, unpacked
from ansorpy.measure.slot import Answer, Worker
from ansorpy.plan.plan import Plan
from ansorpy.target import Target

RECORD = "ansorpy.measure.recording:record"


@dataclass(frozen=True, slots=True)
class RecordJob:
    """Record the features of plans, as they travel."""

    plans: tuple[bytes, ...]
    target: Target


def record(job: RecordJob) -> list[Prepared]:
    """Return what is known of the features of every plan."""
    return [prepare(unpacked(plan)).of(job.target) for plan in job.plans]


def record_here(plan: Plan, target: Target) -> None:
    """Record the features of a plan in this process."""
    prepare(plan).of(target)


def record_all(crew: Crew, plans: Sequence[Plan]) -> None:
    """Record the features of plans, each once, from the first on; builders begin at the end.

    One that still starts, or is at work on something else, joins in when it is idle. What it
    cannot do is done when it is needed.
    """
    target = crew.target
    left = deque(plan for plan in plans if target not in prepare(plan))
    # The caller may be kept off a core on which a builder is not; it needs one of them all.
    cores = frozenset(usable_cores()).union(*(worker.spec.cores for worker in crew.builders))
    waiting = list(reversed(crew.builders))[: len(cores) - 1]
    given: list[tuple[Worker, list[Plan]]] = []
    while left:
        idle = [worker for worker in waiting if worker.idle]
        count = len(left) // (len(idle) + 1)
        for worker in idle if count else ():
            share = [left.pop() for _ in range(count)]
            job = RecordJob(tuple(map(packed, share)), target)
            worker.send(RECORD, job, crew.settings.source_timeout_s)
            waiting.remove(worker)
            given.append((worker, share))
        record_here(left.popleft(), target)
    for worker, share in given:
        reply = worker.receive()
        if isinstance(reply, Answer):
            for plan, prepared in zip(share, reply.value, strict=True):
                prepare(plan).keep(target, prepared)
