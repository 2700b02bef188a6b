"""Call a delivered file in a measuring process, beside other work if a core is free."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ansorpy.measure.outcome import Failed
from ansorpy.measure.sandbox.seals import create
from ansorpy.measure.timing.delivered import KERNEL_FILE, CallJob
from ansorpy.measure.timing.local_slot import LocalSlot
from ansorpy.measure.workers.failure_kinds import failed_run
from ansorpy.measure.workers.replies import Returned
from ansorpy.measure.workers.worker import Worker
from ansorpy.te.dag import Dag

CALL: Final = "ansorpy.measure.timing.delivered:call"


@dataclass(frozen=True, slots=True)
class DeliveredCall:
    """A call of a delivered file; in progress in `worker`, if there was a core for it."""

    job: CallJob
    worker: Worker | None


def begin_call(slot: LocalSlot, files: Mapping[str, bytes], meaning: Dag | None) -> DeliveredCall:
    """Seal a delivered file and start to call it; as `RacePool.begin_call`."""
    workers, place = slot.workers, sealed_files(slot, files)
    job = CallJob(str(place / KERNEL_FILE), str(slot.cases.of(meaning)))
    if workers.caller is not None:
        workers.caller.send(CALL, job, slot.settings.source_timeout_s, fresh=True)
    return DeliveredCall(job, workers.caller)


def sealed_files(slot: LocalSlot, files: Mapping[str, bytes]) -> Path:
    """Write files by name into a new sealed folder, and return it."""
    sealed = slot.workers.sealed
    place = sealed.folder()  # a constant may be larger than a file that a child may write
    sealed.keep(place, {name: create(place, name, data) for name, data in files.items()})
    return place


def end_call(slot: LocalSlot, call: DeliveredCall) -> Failed | float:
    """Return the seconds of import, compilation and call; the failure if results are wrong.

    Without a core for it the call is made now, in a fresh process on the cores of the slot.
    """
    if call.worker is not None:
        reply = call.worker.receive()
    else:
        with slot.reserve(), slot.workers.racers(1) as (worker,):
            fresh, timeout_s = worker is slot.workers.slot, slot.settings.source_timeout_s
            reply = worker.call(CALL, call.job, timeout_s, fresh=fresh)
    if isinstance(reply, Returned) and isinstance(reply.value, float):
        return reply.value
    return failed_run(reply, 0.0)
