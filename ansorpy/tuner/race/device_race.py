"""The end of a task for a GPU of this machine: the race on it, and the zip of the winner."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from ansorpy.artifact import make_test
from ansorpy.artifact.cuda import PTX, members, pack_raced
from ansorpy.errors import BuildError, LoweringError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.plan.plan import Plan
from ansorpy.records import Record
from ansorpy.replay import UNFIT, check_row, plan_from_text, plan_text
from ansorpy.search import Candidate
from ansorpy.state.steps import executed_flop, reformulated
from ansorpy.tuner.race.ranking import NAIVE, Ranking
from ansorpy.tuner.race.settle import race_of, record_of, settle
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.twins import renamed_program

UNTUNED_S: Final = 30.0  # time-out of the first case of the untuned kernel if there is a tuned one


@dataclass(frozen=True, slots=True)
class DeviceContestant:
    """One program of the race on a device."""

    plan: str
    row: tuple[int, ...]
    program: Program
    reformulated: str  # for people
    flop: int  # operations that it executes


@dataclass(frozen=True, slots=True)
class DeviceRace:
    """A finished race on a device: the record that ends the tuning, and the delivered program."""

    record: Record
    entry: DeviceContestant


def contestant(
    task: Task, plan: Plan, text: str, row: tuple[int, ...]
) -> DeviceContestant | Failed:
    """Return the program of one row; a row that has none is a failure."""
    try:
        program = bind(plan, row, task.target)
    except LoweringError as error:
        return Failed("build", str(error))
    became = reformulated(plan.state)
    return DeviceContestant(text, row, program, became, executed_flop(plan.state))


def finalist(task: Task, candidate: Candidate) -> DeviceContestant | Failed:
    """Return the program of a candidate."""
    number = candidate.plan
    return contestant(task, task.space.plans[number], task.space.texts[number], candidate.row)


def race(
    task: Task,
    finalists: Mapping[Candidate, DeviceContestant | Failed],
    pool: RacePool,
    request: str,
    clock: Callable[[], float] = time.time,
    late: Callable[[], bool] = lambda: False,
) -> DeviceRace | list[Failed]:
    """Race the finalists against the untuned kernel; return the kernel to deliver, or failures.

    If no times come back, the untuned kernel may have taken all of them: the others race again.

    Args:
        finalists: the most promising first.
        late: once it says so, one process of the race has to be enough.
    """
    plan = naive(task.dag, task.target)
    named = {f"tuned {place}": candidate for place, candidate in enumerate(finalists)}
    entries = {NAIVE: contestant(task, plan, plan_text(plan), plan.smallest_row)}
    entries |= {name: finalists[candidate] for name, candidate in named.items()}
    programs = {n: one.program for n, one in entries.items() if isinstance(one, DeviceContestant)}
    patience = {NAIVE: UNTUNED_S} if len(programs) > 1 else {}
    times = pool.race(programs, numpy=False, first_case_s=patience, late=late)
    if len(programs) > 1 and not any(isinstance(one, Times) for one in times.values()):
        rest = {name: program for name, program in programs.items() if name != NAIVE}
        again = pool.race(rest, numpy=False, late=late)
        times = {**{name: one for name, one in times.items() if name == NAIVE}, **again}

    def record(entry: DeviceContestant, ranking: Ranking) -> DeviceRace | Failed:
        # The untuned kernel may have run the first case only.
        wrong = pool.verify(entry.program) if ranking.chosen == NAIVE else None
        return wrong or recorded(task, entry, ranking, request, clock())

    return settle(task, named, entries, times, record)


def recorded(
    task: Task, entry: DeviceContestant, ranking: Ranking, request: str, now_s: float
) -> DeviceRace | Failed:
    """Return a finished race as a record, or the failure to make the files of its kernel."""
    try:
        digest = digest_of(task, entry)
    except BuildError as error:
        return Failed("build", str(error))
    test = make_test(task.dag, entry.program.meaning)
    result = race_of(task, entry, ranking, test, request)
    record = record_of(task, entry, result, digest, now_s)
    return DeviceRace(record, entry)


def digest_of(task: Task, entry: DeviceContestant) -> str:
    """Return the digest of the PTX of a program.

    Raises:
        BuildError: the program has no kernels.
    """
    return sha256(members(task.dag, entry.program, task.target).files[PTX]).hexdigest()


def deliver(task: Task, raced: DeviceRace, folder: Path) -> Path:
    """Write the zip, and one for each twin under its own names; return the zip of the task.

    Raises:
        BuildError: a zip cannot be made.
    """
    program, record = raced.entry.program, raced.record
    written = [
        pack_raced(folder, dag, renamed_program(program, task, dag), record, task.target)
        for dag in (task.dag, *task.identity.twins)
    ]
    return written[0]


def deliver_again(task: Task, record: Record, folder: Path) -> Path | None:
    """Write the zip of a stored race, None if today's code generator makes another kernel."""
    race = record.race
    try:
        plan = plan_from_text(task.dag, task.target, record.plan)
        check_row(plan, record.row)
        entry = contestant(task, plan, record.plan, record.row)
        if race is None or isinstance(entry, Failed) or entry.reformulated != race.reformulated:
            return None
        if digest_of(task, entry) != record.source_sha256:
            return None
        return deliver(task, DeviceRace(record, entry), folder)
    except (*UNFIT, BuildError):
        return None
