"""Delivery of kernels for a GPU of this machine: verified, raced and timed on it."""

from collections.abc import Generator, Mapping
from math import isfinite
from pathlib import Path
from typing import Final

from ansorpy.events import Event, Racing, TaskResult
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.records import Record
from ansorpy.search import Candidate
from ansorpy.tuner.delivery.at_the_end import DeliveriesAtTheEnd
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.race import device_race
from ansorpy.tuner.race.device_race import DeviceContestant, DeviceRace
from ansorpy.tuner.race.final_race import empty_result, result_of
from ansorpy.tuner.reuse import record_lookup
from ansorpy.tuner.tasks.checkpoint import Journal
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import TimeBudget

FINALISTS: Final = 6  # programs in the race; those clearly beaten leave it after one process
LEADERS: Final = 64  # candidates that are looked at: several rows may give one program
RACES: Final = 3  # races at most, if no finalist passes


class DeviceDeliveries(DeliveriesAtTheEnd):
    """Races finalists on the device and writes the zip of the winner.

    Args:
        digest: of the request that the final kernels answer.
        out: folder of the zips.
        stored_races: of an earlier, interrupted attempt at this tuning, by task.
    """

    def __init__(
        self, pools: Pools, journal: Journal, digest: str, out: Path, budget: TimeBudget,
        stored_races: Mapping[str, Record],
    ) -> None:  # fmt: skip
        super().__init__(pools)
        self._journal, self._digest = journal, digest
        self._out, self._budget, self._stored_races = out, budget, stored_races

    def end(self, task: Task, interrupted: bool = False) -> Generator[Event, None, TaskResult]:
        """Race a task unless its race is stored; write its zip."""
        result = self._stored(task)
        if result is None:
            yield Racing(task.name)
            result = self._finish(task)
        yield from self._told(task, result)
        self._budget.note_end()
        return result

    def _stored(self, task: Task) -> TaskResult | None:
        kept = self._stored_races.get(task.name)
        if kept is None or kept.race is None or kept.race.request != self._digest:
            return None
        path = record_lookup.deliver_again(task, kept, self._out)
        return None if path is None else result_of(task, kept, path)

    def _finish(self, task: Task) -> TaskResult:
        if not task.space.plans:
            return empty_result(task, [])
        pool, failed = self._pools.racing(task), set[Candidate]()
        for _ in range(RACES):
            finalists = self._finalists(task, failed)
            raced = device_race.race(task, finalists, pool, self._digest, late=self._is_late)
            wrong = {one for one in finalists if not isfinite(task.history.costs_s.get(one, 0.0))}
            failed |= wrong
            if wrong != set(finalists) or not finalists or self._is_late():
                break
        if not isinstance(raced, DeviceRace):
            return empty_result(task, raced)
        path = device_race.deliver(task, raced, self._out)
        self._journal.append_race(task.name, raced.record)
        return result_of(task, raced.record, path)

    def _finalists(
        self, task: Task, failed: set[Candidate]
    ) -> dict[Candidate, DeviceContestant | Failed]:
        """Return the best candidates that have not failed, one for each program."""
        found: dict[Program, Candidate] = {}
        entries: dict[Candidate, DeviceContestant | Failed] = {}
        leaders = self._leaders(task)
        for leader in [one for one in leaders if one not in failed][:LEADERS]:
            entry = device_race.finalist(task, leader)
            if isinstance(entry, DeviceContestant):
                if entry.program in found:
                    continue
                found[entry.program] = leader
            entries[leader] = entry
            if len(entries) == FINALISTS:
                break
        return entries

    def _is_late(self) -> bool:
        return self._budget.left_s <= 0
