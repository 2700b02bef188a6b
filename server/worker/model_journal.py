"""Journal of a job that tunes a model: rounds, estimates and bundles go to the database.

A killed worker loses no record: the next lease reads the model again, answers each task from the
records of its tenant, and searches the tasks that lack trials.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import ColumnElement, select, update
from sqlalchemy.orm import Session

from ansorpy.events import (
    Derived,
    FirstAnswer,
    NoTrials,
    Preflight,
    RoundDone,
    SlotNews,
    TaskDone,
    TooShort,
)
from ansorpy.measure.outcome import Failed
from ansorpy.model.compile import ModelResult
from ansorpy.model.events import (
    BundleWritten,
    Comparing,
    Cutting,
    Divided,
    ModelEstimate,
    ModelEvent,
    bundle_latency,
)
from ansorpy.records import IMPORTED, MEASURED, Origin, Record
from ansorpy.server.db.models import BundleRow, JobRow, RecordRow
from ansorpy.server.db.records import SqlStore, candidate_of, record_row
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.events import add_event
from ansorpy.server.jobs.latency import BUNDLE, Latency, least_s
from ansorpy.server.jobs.ranges import TaskSizes
from ansorpy.server.jobs.states import touch
from ansorpy.server.jobs.submission import MAX_MODEL_TASKS, Submission
from ansorpy.server.service.limits import RequestLimits, check_dags
from ansorpy.server.worker.bundles import store_bundle
from ansorpy.server.worker.journal import note_event, note_round, space_counts, wire_of
from ansorpy.server.worker.leased_job import LeasedJob
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.tuner.rounds.preflight import dag_bytes
from ansorpy.tuner.tasks.checkpoint import Checkpoint, StoredSearch

HISTORY: Final = 256  # estimates that are kept of a job; beyond it, every second one is left out


class ModelJournal(SqlStore):
    """The record store and the journal of a job, for `ansorpy.model.compile.compiled`.

    With the option `fresh` the store has the records of the job alone.
    """

    def __init__(
        self,
        leased: LeasedJob,
        max_tensor_bytes: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(leased.engine, leased.claim.tenant_id)
        self._leased = leased
        self._job_id = leased.claim.job_id
        self._submission = Submission.of(leased.claim.request)
        self._limits = RequestLimits(tasks=MAX_MODEL_TASKS, tensor_bytes=max_tensor_bytes)
        self._clock, self._begin_s = clock, clock()
        self._before_s, progress = leased.write(
            lambda tx, row, now_s: (row.seconds_done, row.progress)
        )
        self.done: Mapping[str, int] = {
            task: facts.get("trials", 0) for task, facts in json.loads(progress).items()
        }

    @property
    def spent_s(self) -> float:
        """The tuning time of the job so far, of all leases."""
        return self._before_s + self._clock() - self._begin_s

    # --- the journal

    def stored(self) -> StoredSearch:
        """Return nothing: the records of an earlier lease are in the store."""
        return StoredSearch()

    def append_round(self, done: RoundDone, records: Sequence[Record], after: Checkpoint) -> None:
        """Store a round in one transaction: trials, progress and events."""

        def store(tx: Session, row: JobRow, now_s: float) -> None:
            tried = {candidate_of(record, done.task): record for record in records}
            known = set(
                tx.scalars(
                    select(RecordRow.candidate).where(
                        RecordRow.job_id == row.id, RecordRow.candidate.in_(tried)
                    )
                )
            )
            new = [record for candidate, record in tried.items() if candidate not in known]
            if records and not new:  # the commit of an earlier attempt was not acknowledged
                return
            number = row.rounds_done + 1
            mine = self.tenant_id, row.id, done.task, number
            tx.add_all(record_row(record, *mine, origin=MEASURED) for record in new)
            row.lost = 0  # a stored round resets the losses
            row.rounds_done, row.seconds_done = number, self.spent_s
            note_round(tx, row, _in_all(row, done, new), now_s)

        self._leased.write(store)

    def append_race(self, task: str, record: Record) -> None:
        """Raise: tasks of a model are not raced."""
        raise AssertionError("a task of a model is delivered as a library, without a race")

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Raise: the records of a job are stored by `append_round`."""
        raise AssertionError("records of a job are stored by `append_round`")

    # --- further events of a job

    def take(self, event: ModelEvent | ModelResult) -> None:
        """Store an event that changes the progress of the job.

        Raises:
            SpecError: the model has too many tasks, or too large ones.
        """
        match event:
            case Divided():
                check_dags(event.dags, self._limits)
                self._leased.write(lambda tx, row, now_s: self._divide(tx, row, event, now_s))
            case Cutting():
                check_dags(event.dags, self._limits)
                self._leased.write(lambda tx, row, now_s: self._add_tasks(row, event.dags, now_s))
            case Derived():
                facts = space_counts(event)
                self._leased.write(lambda tx, row, now_s: _know(row, event.task, facts, now_s))
            case Preflight() | TooShort() | NoTrials() | SlotNews() | Comparing():
                self._leased.write(lambda tx, row, now_s: note_event(tx, row, event, now_s))
            case FirstAnswer():
                self._leased.write(lambda tx, row, now_s: self._answer(tx, row, event, now_s))
            case ModelEstimate():
                self._leased.write(lambda tx, row, now_s: self._estimate(tx, row, event, now_s))
            case TaskDone(result=result):
                ended = {"ended": True}
                self._leased.write(lambda tx, row, now_s: _know(row, result.name, ended, now_s))
            case BundleWritten():
                store_bundle(self._leased, event, lambda: self.spent_s)
            case ModelResult():
                self._leased.write(lambda tx, row, now_s: self._finish(tx, row, event, now_s))
            case _:  # the engine stores rounds in the journal itself
                pass

    def _divide(self, tx: Session, row: JobRow, event: Divided, now_s: float) -> None:
        division: dict[str, Any] = {
            "nodes_before": event.nodes_before, "nodes": event.nodes,
            "passes": dict(event.passes), "parts": event.parts, "hosted": list(event.hosted),
            "trials": self._submission.model_options().trials_of(event.tasks),
        }  # fmt: skip
        known = json.loads(row.model_facts or "{}")
        tasks = {
            dag.name: self._facts_of(dag, event.weights.get(dag.name, 0.0)) for dag in event.dags
        }
        for part in event.outline:
            if part.task:
                tasks[part.task].setdefault("title", part.name)
        outline = [asdict(part) for part in event.outline]
        facts = {"history": [], **known, **division, "answered": 0, "tasks": tasks}
        row.model_facts = _json({**facts, "outline": outline})
        row.trials = min(row.trials, division["trials"])
        progress = json.loads(row.progress)
        for facts in progress.values():
            facts.pop("ended", None)
        row.progress = _json(progress)
        touch(row, now_s)
        if not known:  # the first lease
            add_event(tx, row, "divided", {**division, "tasks": event.tasks}, now_s)

    def _answer(self, tx: Session, row: JobRow, event: FirstAnswer, now_s: float) -> None:
        best_s = least_s(_known(row, event.task).get("best_s"), event.best_s)
        facts = {"best_s": best_s, "answered": True, "from_store": event.from_store}
        _know(row, event.task, facts, now_s)
        body = {"task": event.task, "best_s": best_s, "seconds": self.spent_s}
        add_event(tx, row, "answered", body, now_s)

    def _estimate(self, tx: Session, row: JobRow, event: ModelEstimate, now_s: float) -> None:
        model = json.loads(row.model_facts)
        model["answered"] = event.answered
        for name, weight in event.weights.items():
            model["tasks"][name]["weight"] = weight
        seconds, trials, all_answered = self.spent_s, row.trials_done, event.answered == event.tasks
        if all_answered:
            row.best_s, row.seconds_done = least_s(row.best_s, event.model_s), seconds
            model["estimate_s"] = row.best_s
            model["history"].append([seconds, trials, row.best_s])
            if len(model["history"]) > HISTORY:
                model["history"] = [*model["history"][:-1:2], model["history"][-1]]
        row.model_facts = _json(model)
        touch(row, now_s)
        body = {
            "latency_s": row.best_s if all_answered else None, "answered": event.answered,
            "tasks": event.tasks, "trials": trials, "seconds": seconds,
        }  # fmt: skip
        add_event(tx, row, "estimate", body, now_s)

    def _finish(self, tx: Session, row: JobRow, end: ModelResult, now_s: float) -> None:
        progress = json.loads(row.progress)
        results = []
        for result in end.tasks:
            facts = progress.get(result.name, {})
            count = {"trials": facts.get("trials", 0), "failures": facts.get("failures", {})}
            results.append({**wire_of(result), **count})
        latency = Latency(*bundle_latency(end.model_s, end.verdict))
        row.best_s, row.seconds_done = latency.best_s, self.spent_s
        told: dict[str, Any] = {
            "untuned": end.untuned, "estimate_s": end.model_s, BUNDLE: latency.as_fact(),
        }  # fmt: skip
        if end.verdict is not None:
            told["verdict"] = end.verdict.as_object()
        row.model_facts = _json({**json.loads(row.model_facts), **told})
        newest = select(BundleRow.seq).where(BundleRow.job_id == row.id)
        newest = newest.order_by(BundleRow.seq.desc()).limit(1)
        last = BundleRow.seq == newest.scalar_subquery()
        tx.execute(update(BundleRow).where(last).values(final=True))
        lease.finish(tx, row, results, end.stopped, now_s)

    def _facts_of(self, dag: Dag, weight: float) -> dict[str, Any]:
        sizes = asdict(TaskSizes.of(dag, self._submission.kernels_per_dim))
        known = {"sizes": sizes} if sizes["dims"] else {}
        return {"weight": weight, "flop": flop_count(dag), "bytes": dag_bytes(dag), **known}

    def _add_tasks(self, row: JobRow, dags: Sequence[Dag], now_s: float) -> None:
        """Add the tasks of a model that are pieces of others."""
        model = json.loads(row.model_facts)
        model["tasks"] |= {dag.name: self._facts_of(dag, 0.0) for dag in dags}
        row.model_facts = _json(model)
        touch(row, now_s)

    @property
    def _mine(self) -> ColumnElement[bool]:
        mine = RecordRow.tenant_id == self.tenant_id
        return mine & (RecordRow.job_id == self._job_id) if self._submission.fresh else mine


def _in_all(row: JobRow, done: RoundDone, records: Sequence[Record]) -> RoundDone:
    """Return a round with the totals of all leases, given its new records."""
    before = _known(row, done.task)
    failures = dict(before.get("failures", {}))
    for record in records:
        if isinstance(record.outcome, Failed):
            failures[record.outcome.kind] = failures.get(record.outcome.kind, 0) + 1
    return replace(
        done,
        round=before.get("rounds", 0) + 1,
        trials=before.get("trials", 0) + len(records),
        best_s=least_s(before.get("best_s"), done.best_s),
        failures=failures,
    )


def _known(row: JobRow, task: str) -> Mapping[str, Any]:
    """Return the progress of a task."""
    known: Mapping[str, Any] = json.loads(row.progress).get(task, {})
    return known


def _know(row: JobRow, task: str, facts: Mapping[str, Any], now_s: float) -> None:
    """Add facts to the progress of a task."""
    progress = json.loads(row.progress)
    progress[task] = {"trials": 0, **progress.get(task, {}), **facts}
    row.progress = _json(progress)
    touch(row, now_s)


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False)
