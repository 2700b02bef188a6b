"""The result of a task: of a race, or of a search of which nothing survived."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ansorpy.artifact.rate import rate_of
from ansorpy.events import SizeResult, TaskResult
from ansorpy.measure.outcome import Failed
from ansorpy.records import Record, SizeTimes
from ansorpy.te.dims import dims_of, spread_weights, timed_by_dim
from ansorpy.tuner.race.ranking import Winner
from ansorpy.tuner.tasks.history import History
from ansorpy.tuner.tasks.task import Task
from ansorpy.verdict import verdict_of_race

WINNERS: Final[Mapping[str, Winner]] = {"tuned": "tuned", "baseline": "baseline", "own": "own"}


def result_of(task: Task, record: Record, path: Path, from_store: bool = False) -> TaskResult:
    """Return the result of a task that was raced."""
    outcome = record.race
    assert outcome is not None
    return replace(
        empty_result(task),
        best_s=outcome.best_s,
        baseline_s=outcome.baseline_s,
        verified=True,
        winner=WINNERS[outcome.winner],
        own=outcome.own,
        peers=outcome.peers,
        kernel=path,
        naive_s=min(outcome.naive_s, default=None),
        numpy_s=min(outcome.numpy_s, default=None),
        numpy_note=outcome.numpy_note,
        from_store=from_store,
        rate=rate_of(task.dag, outcome),
        candidate=(record.plan, record.row) if outcome.delivered == "tuned" else None,
        compile_s=record.compile_s,
        verdict=verdict_of_race(outcome, task.target.cores),
        by_size=tuple(_size_result(task, one) for one in outcome.by_size),
    )


def with_trials_of_parts(task: Task, result: TaskResult) -> TaskResult:
    """Return a result with the trials and failures of the parts, if none of these were joined.

    A part had no trial that survived: the result is a first answer, or the untuned kernel.
    """
    if result.trials or not task.parts:
        return result
    parts = History()
    parts.add(*(part.history for part in task.parts))
    return replace(
        result,
        trials=parts.trials,
        seconds=parts.seconds,
        failures=dict(parts.failures),
        examples=dict(parts.examples),
    )


def _size_result(task: Task, timed: SizeTimes) -> SizeResult:
    sizes = {one.name: size for one, size in zip(dims_of(task.dag), timed.sizes, strict=True)}
    served = [one.range_text for one in task.ranges if one.has(sizes[one.name])]
    return SizeResult(sizes, ", ".join(served), timed.times_s[0], (*timed.times_s, None)[1])


def empty_result(task: Task, failures: Sequence[Failed] = ()) -> TaskResult:
    """Return the result of a task without a kernel, after failures that are not counted yet."""
    task.history.note(failures)
    return TaskResult(
        name=task.name,
        key=task.key,
        best_s=None,
        baseline_s=None,
        trials=task.history.trials,
        seconds=task.history.seconds,
        verified=False,
        winner=None,
        kernel=None,
        flop=task.identity.flop,
        sizes=timed_by_dim(task.dag),
        weights=spread_weights(dims_of(task.dag)),
        ranges={name: best_s for name, best_s in task.times_of_ranges() if best_s is not None},
        failures=dict(task.history.failures),
        examples=dict(task.history.examples),
    )
