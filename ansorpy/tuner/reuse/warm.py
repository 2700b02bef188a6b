"""Warm starts: programs of records that are not trusted, to be verified and timed again.

Nothing that such a record claims is believed. Its time only orders the programs to look at; its
sketch must be derived by the rules of this request, its row must be legal. In a user's space it
must be one of the candidates. Source: ADR-0021.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from ansorpy.errors import RecordError, shown
from ansorpy.events import Seeded
from ansorpy.frontends.json.strict import parse_json
from ansorpy.measure.outcome import Estimated, Measured
from ansorpy.plan.bind import bind
from ansorpy.plan.flatten import flattened
from ansorpy.population import nearest_legal
from ansorpy.records import Record
from ansorpy.replay import UNFIT, check_row, plan_from_text, plan_text
from ansorpy.search import Candidate
from ansorpy.state.text import steps_to_json
from ansorpy.tuner.reuse.sources import Sources
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import is_trusted

SEEDS: Final = 8  # as many trials as the smallest round has
SHARE: Final = 4  # at most one trial in 4 is spent on them
LOOKED_AT: Final = 32  # programs; to replay one takes some 10 ms
NOTES: Final = 3  # reasons that are told
MAX_LENGTH: Final = 2**20  # largest length of a row of another machine, before it is moved


def start(
    task: Task, sources: Sources, trials: int, late: Callable[[], bool] | None = None
) -> Iterator[Seeded]:
    """Load the trusted records of a task and defer programs of the others to its first round.

    Args:
        trials: of the task; programs take at most a quarter of them.
        late: once it returns True, no further plan of a trusted record is lowered.
    """
    task.load_records(sources.known, late)
    reasons = seed(task, sources.known, trials, sources.estimates)
    if not task.history.costs_s:
        reasons = (*reasons, *_hold(task, sources.elsewhere, trials, moved=True))[:NOTES]
    if task.queue.held or reasons:
        yield Seeded(task.name, len(task.queue.held), reasons)
    if sources.answered is not None:
        task.hold(*sources.answered)


def seed(
    task: Task, records: Sequence[Record], trials: int, estimates: Sequence[Record] = ()
) -> tuple[str, ...]:
    """Hold the programs of untrusted records, the fastest by their claims, for the first round.

    Programs of estimates follow, the least first.

    Args:
        trials: of the task; the programs take at most a quarter of them.
        estimates: of the task, which a device is going to measure.

    Returns:
        Why others cannot be replayed, a few of the reasons.
    """
    claimed = _by_claim(
        (record.outcome.best_s, record)
        for record in records
        if not is_trusted(record, task.dag)
        and isinstance(record.outcome, Measured)
        and not record.outcome.aborted
    )
    claimed += _by_claim(
        (record.outcome.cost_s, record)
        for record in estimates
        if isinstance(record.outcome, Estimated)
    )
    return _hold(task, claimed, trials)


def _hold(
    task: Task, records: Sequence[Record], trials: int, moved: bool = False
) -> tuple[str, ...]:
    """Hold programs of records for the first round, until they take a quarter of the trials.

    Args:
        moved: move the lengths of a program to the nearest legal ones of the task.

    Returns:
        Reasons for which records start nothing, at most NOTES.
    """
    most = min(SEEDS, trials // SHARE)
    sketches = _sketches(task) if records and most > len(task.queue.held) else frozenset()
    notes: list[str] = []
    for record in records[:LOOKED_AT]:
        if len(task.queue.held) >= most:
            break
        try:
            candidate = _candidate(task, record, sketches, moved)
        except RecordError as error:
            notes.append(f"record {record.id[:12]} starts nothing: {error}")
            continue
        if candidate not in {*task.history.costs_s, *task.queue.held}:
            task.queue.held.append(candidate)
    return tuple(notes[:NOTES])


def _by_claim(claims: Iterable[tuple[float, Record]]) -> list[Record]:
    """Return one record of every (plan, row), the least claim first."""
    ordered = sorted(claims, key=lambda pair: pair[0])
    return list({(record.plan, record.row): record for _, record in reversed(ordered)}.values())[
        ::-1
    ]


def _sketches(task: Task) -> frozenset[str]:
    return frozenset(_text(steps_to_json(flattened(sketch))) for sketch in task.space.sketches)


def _text(steps: object) -> str:
    return json.dumps(steps, separators=(",", ":"))


def _candidate(
    task: Task, record: Record, sketches: frozenset[str], moved: bool = False
) -> Candidate:
    """Return the candidate of a record.

    Args:
        moved: the row comes from another machine, and is moved to a legal row.

    Raises:
        RecordError: the record has no sketch of this request, or its row is not legal; of a user's
            space, none of the candidates.
    """
    if task.space.own is not None:
        found = task.space.own.find(task.space, record.plan, record.row)
        if found is None:
            raise RecordError("no choice of the knobs gives its schedule on this machine")
        return found
    try:
        # Before a step is applied: hostile steps may ask for any amount of time or memory.
        _check_sketch(record.plan, sketches)
        plan = plan_from_text(task.dag, task.target, record.plan)
        row = record.row
        if moved and len(row) == len(plan.sizes):
            row = nearest_legal(plan, [min(value, MAX_LENGTH) for value in row])
        check_row(plan, row)
        bind(plan, row, task.target)
        return Candidate(task.space.add_plan(plan, plan_text(plan)), row)
    except RecordError:
        raise
    except UNFIT as error:
        raise RecordError(f"{type(error).__name__} {shown(error)}") from error


def _check_sketch(plan: str, sketches: frozenset[str]) -> None:
    if _text(parse_json(plan)["steps"]) not in sketches:
        raise RecordError("its sketch is none of this request")
