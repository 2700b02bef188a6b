"""Journal of a job: store rounds, races and events in the database, and read them back."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final

from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from ansorpy.events import (
    BaselineTimed,
    Delivered,
    Derived,
    Finished,
    FirstAnswer,
    NoTrials,
    Preflight,
    Racing,
    RoundDone,
    SlotNews,
    TaskResult,
    TooShort,
)
from ansorpy.model.compile import ModelResult
from ansorpy.model.events import Comparing, ModelEvent
from ansorpy.records import IMPORTED, MEASURED, Origin, Record, best_of, decode
from ansorpy.server.db.engine import reading
from ansorpy.server.db.models import JobRow, RecordRow, SearchRow
from ansorpy.server.db.records import (
    STORED,
    candidate_of,
    record_row,
    records_of,
    similar_of,
)
from ansorpy.server.jobs import lease
from ansorpy.server.jobs.events import Kind, add_event
from ansorpy.server.jobs.latency import KERNEL, Latency, least_s, of_task, of_tasks
from ansorpy.server.jobs.states import touch
from ansorpy.server.jobs.submission import Submission
from ansorpy.server.worker.leased_job import LeasedJob
from ansorpy.server.worker.packages import package_of
from ansorpy.tuner.options.networks import task_weights
from ansorpy.tuner.options.objective import weighted_latency_s
from ansorpy.tuner.tasks.checkpoint import Checkpoint, StoredSearch
from ansorpy.tuner.tasks.twins import leaders, summed

NOTED: Final[Mapping[type, Kind]] = {  # events that are stored with their fields
    Preflight: "preflight",
    TooShort: "too_short",
    NoTrials: "no_trials",
    SlotNews: "slots",
    Racing: "racing",
    Comparing: "racing",
}
_BASELINE: Final = ("naive_s", "numpy_s", "numpy_note")  # facts of a baseline


class JobJournal:
    """The record store and the journal of a job, for `ansorpy.tuner.tune.run`.

    The store contains the records that the tenant had when the job began, so that a resumed search
    has the same knowledge as the first attempt.
    """

    def __init__(self, leased: LeasedJob) -> None:
        self._leased = leased
        self._engine: Engine = leased.engine
        self._job_id = leased.claim.job_id
        self._tenant_id = leased.claim.tenant_id
        submission = Submission.of(leased.claim.request)
        self._firsts = leaders(submission.dags)
        self._weights = task_weights(submission.weights, list(self._firsts))
        self._known_seq, self._round = leased.write(self._begin)

    # --- the journal

    def stored(self) -> StoredSearch:
        """Return the stored rounds in order, and the state of the search after the last one."""
        rows = select(RecordRow).where(RecordRow.job_id == self._job_id).order_by(RecordRow.seq)
        rounds: dict[int, tuple[str, list[Record]]] = {}
        races: dict[str, Record] = {}
        with reading(self._engine) as tx:
            search = tx.get_one(SearchRow, self._job_id)
            for row in tx.scalars(rows):
                record = decode(row.body)
                if record.race is None:
                    rounds.setdefault(row.round, (row.task, []))[1].append(record)
                else:
                    races[row.task] = record
        found = [(task, tuple(records)) for _, (task, records) in sorted(rounds.items())]
        after = Checkpoint(**json.loads(search.body)) if search.body else None
        return StoredSearch(after, tuple(found), races)

    def append_round(self, done: RoundDone, records: Sequence[Record], after: Checkpoint) -> None:
        """Store a round in one transaction: trials, state of the search, progress and events."""
        number = self._round + 1

        def store(tx: Session, row: JobRow, now_s: float) -> None:
            search = tx.get_one(SearchRow, self._job_id)
            if search.round >= number:
                return
            tx.add_all(
                record_row(
                    record, self._tenant_id, self._job_id, done.task, number, origin=MEASURED
                )
                for record in records
            )
            search.round, search.body, search.updated_s = number, _json(asdict(after)), now_s
            row.lost = 0  # a stored round resets the losses
            row.rounds_done, row.seconds_done = number, after.seconds
            note_round(tx, row, done, now_s, self._sum_s)

        self._leased.write(store)
        self._round = number

    def append_race(self, task: str, record: Record) -> None:
        """Store the final race of a task, once."""

        def store(tx: Session, row: JobRow, _now_s: float) -> None:
            known = select(RecordRow.seq).where(
                RecordRow.job_id == row.id, RecordRow.candidate == candidate_of(record, task)
            )
            if tx.scalar(known) is None:
                mine = self._tenant_id, self._job_id
                tx.add(record_row(record, *mine, task, origin=MEASURED))

        self._leased.write(store)

    # --- further events of a job

    def take(self, event: ModelEvent | ModelResult) -> None:
        """Store an event that changes the progress of the job."""
        match event:
            case Derived():
                self.derived(event)
            case FirstAnswer() | Delivered():
                self.deliver(event)
            case BaselineTimed():
                self.baseline(event)
            case Preflight() | TooShort() | NoTrials() | SlotNews() | Racing():
                self._leased.write(lambda tx, row, now_s: note_event(tx, row, event, now_s))
            case Finished():
                self.finish(event)
            case _:  # the engine stores rounds in the journal itself
                pass

    def derived(self, event: Derived) -> None:
        """Store the size of the search space of a task; repeated calls are ignored."""

        def store(tx: Session, row: JobRow, now_s: float) -> None:
            progress = json.loads(row.progress)
            before = progress.get(event.task, {})
            if before.get("plans", 0) >= event.plans:
                return
            facts = space_counts(event)
            progress[event.task] = {"trials": 0, **before, **facts}
            row.progress = _json(progress)
            touch(row, now_s)
            body = {"task": event.task, "seconds": event.seconds, **facts}
            if event.loops:
                body["loops"] = event.loops
            add_event(tx, row, "derived", body, now_s)

        self._leased.write(store)

    def baseline(self, event: BaselineTimed) -> None:
        """Store the times that the kernels of a task are compared with until its final race."""
        times = asdict(event)
        facts = {**{name: times[name] for name in _BASELINE}, "baseline_s": event.baseline_s}

        def store(tx: Session, row: JobRow, now_s: float) -> None:
            progress = json.loads(row.progress)
            progress[event.task] = {"trials": 0, **progress.get(event.task, {}), **facts}
            row.progress = _json(progress)
            touch(row, now_s)
            for name in self._named(event.task):
                body = {"task": name, "seconds": row.seconds_done, **facts}
                add_event(tx, row, "baseline", body, now_s)

        self._leased.write(store)

    def deliver(self, event: FirstAnswer | Delivered) -> None:
        """Store the best kernel so far of a task."""

        made = Latency(event.best_s, "trial" if isinstance(event, FirstAnswer) else event.timing)

        def store(tx: Session, row: JobRow, now_s: float) -> None:
            package = package_of(event.kernel, now_s)
            if isinstance(event, FirstAnswer):
                row.seconds_done = max(row.seconds_done, event.seconds)
            progress = json.loads(row.progress)
            if self._firsts[event.task] == event.task:  # has the weight of all equal tasks
                facts = progress.setdefault(event.task, {"trials": 0})
                facts[KERNEL] = made.as_fact()
                if isinstance(event, FirstAnswer):
                    facts["from_store"] = event.from_store
                if made.timing == "trial":
                    facts["best_s"] = least_s(facts.get("best_s"), made.best_s)
                row.progress = _json(progress)
                row.best_s = self._sum_s(progress)
            whole_s = self._sum_s(progress, ended=True)
            lease.add_kernel(tx, row, event.task, package, made, False, now_s, whole_s)

        self._leased.write(store)

    def finish(self, end: Finished) -> None:
        """Store the final kernels and the end of the job, in one transaction."""
        made = [result for result in end.results if result.kernel is not None]

        def store(tx: Session, row: JobRow, now_s: float) -> None:
            row.best_s = weighted_latency_s(end.results, self._weights)
            row.seconds_done = end.seconds
            for result in made:
                assert result.kernel is not None
                package = package_of(result.kernel, now_s)
                last = Latency(result.best_s, result.timing)
                lease.add_kernel(tx, row, result.name, package, last, True, now_s, row.best_s)
            if made:
                lease.finish(tx, row, list(map(wire_of, end.results)), end.stopped, now_s)
            else:
                lease.fail(tx, row, _why_nothing(end.results), now_s)

        self._leased.write(store)

    def _sum_s(self, progress: Mapping[str, Any], ended: bool = False) -> float | None:
        """Return the sum of the times of the search; of the kernels so far if it has `ended`."""
        weights = summed(self._firsts, self._weights).items()
        parts = ((w, of_task(progress.get(task, {}), ended=ended)) for task, w in weights)
        return of_tasks(parts).best_s

    def _named(self, task: str) -> list[str]:
        """Return the names of a task that is tuned for equal ones."""
        return [name for name, first in self._firsts.items() if first == task]

    # --- the store

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Raise: the records of a job are stored by `append_round`."""
        raise AssertionError("records of a job are stored by `append_round`")

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task from before the job, oldest first."""
        query = select(*STORED).where(*self._known, RecordRow.key == key)
        with reading(self._engine) as tx:
            return tuple(records_of(tx.execute(query.order_by(RecordRow.seq))))

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task from before the job, or None."""
        return best_of(self.all(key))

    def similar(self, structure: str) -> tuple[Record, ...]:
        """Return the fastest trial of each key of a structure from before the job."""
        with reading(self._engine) as tx:
            return similar_of(tx, structure, *self._known)

    def count(self, key: str | None = None) -> int:
        """Return the number of records from before the job, of one task or of all."""
        query = select(func.count()).where(*self._known)
        if key is not None:
            query = query.where(RecordRow.key == key)
        with reading(self._engine) as tx:
            return tx.scalar(query) or 0

    def export(self) -> Iterator[Record]:
        """Yield all records from before the job, oldest first."""
        query = select(*STORED).where(*self._known).order_by(RecordRow.seq)
        with reading(self._engine) as tx:
            rows = tx.execute(query).all()
        yield from records_of(rows)

    @property
    def _known(self) -> Sequence[Any]:
        return RecordRow.tenant_id == self._tenant_id, RecordRow.seq <= self._known_seq

    def _begin(self, tx: Session, row: JobRow, now_s: float) -> tuple[int, int]:
        search = tx.get(SearchRow, row.id)
        if search is None:
            search = SearchRow(
                job_id=row.id, round=0, known_seq=newest_seq(tx), body="", updated_s=now_s
            )
            tx.add(search)
        return search.known_seq, search.round


def newest_seq(tx: Session) -> int:
    """Return the number of the newest record of all tenants, 0 without one.

    PostgreSQL looks for the newest record of one tenant through the records of all others.
    """
    return tx.scalar(select(func.max(RecordRow.seq))) or 0


def space_counts(event: Derived) -> Mapping[str, int]:
    """Return the counts of sketches and plans; a schedule or a template has no sketches."""
    counts = {"sketches": event.sketches, "plans": event.plans}
    return {name: count for name, count in counts.items() if count is not None}


def note_round(
    tx: Session,
    row: JobRow,
    done: RoundDone,
    now_s: float,
    sum_s: Callable[[Mapping[str, Any]], float | None] | None = None,
) -> None:
    """Store the progress and the events of a round.

    Args:
        sum_s: the latency of the job by its progress; unless given, it does not change.
    """
    progress = json.loads(row.progress)
    before = progress.setdefault(done.task, {})
    known_s = before.get("best_s")
    best_s = least_s(known_s, done.best_s)
    marked = {"estimated": True} if done.estimated else {}
    before |= {
        "trials": done.trials, "rounds": done.round, "best_s": best_s,
        "failures": dict(done.failures), "suspects": list(map(asdict, done.suspects)), **marked,
        "from_store": False,
    }  # fmt: skip
    lease.store_progress(row, progress, now_s)
    if sum_s is not None:
        row.best_s = sum_s(progress)
    common = {"task": done.task, "trials": done.trials, "best_s": best_s}
    spent = {"seconds": row.seconds_done}
    if best_s is not None and (known_s is None or best_s < known_s):
        add_event(tx, row, "improved", {**common, **spent}, now_s)
    body = {
        **common, **spent, **marked, "round": done.round, "failures": dict(done.failures),
        "quality": dict(done.quality), "spent": asdict(done.spent), "latency_s": row.best_s,
    }  # fmt: skip
    add_event(tx, row, "round", body, now_s)


def note_event(
    tx: Session, row: JobRow,
    event: Preflight | TooShort | NoTrials | SlotNews | Racing | Comparing, now_s: float,
) -> None:  # fmt: skip
    """Store an event of the engine with its fields, `seconds` for the age of the tuning."""
    kind = NOTED[type(event)]
    text = {"text": str(event)} if isinstance(event, TooShort | NoTrials | SlotNews) else {}
    add_event(tx, row, kind, {**asdict(event), "seconds": row.seconds_done, **text}, now_s)
    touch(row, now_s)


def wire_of(result: TaskResult) -> Mapping[str, Any]:
    """Return the stored form of a result."""
    fields = asdict(replace(result, library=None))  # the package has the library
    for name in ("key", "examples", "from_store", "rate", "estimate", "suspects", "candidate"):
        del fields[name]
    for name in ("contrast", "verdict"):
        if fields[name] is None:
            del fields[name]
    if result.verdict is not None:
        fields["verdict"] = result.verdict.as_object()
    if result.from_store:
        fields["from_store"] = True
    if not result.estimated:
        del fields["estimated"]  # results of earlier versions have none
    rate = result.rate
    return {
        **fields,
        "timing": result.timing,
        "flop_per_s": None if rate is None else rate.flop_per_s,
        "effective": rate is not None and rate.effective,
        "failures": dict(result.failures),
        "kernel": result.kernel is not None,
    }


def _why_nothing(results: Sequence[TaskResult]) -> str:
    reasons = {f"{kind}: {text}" for r in results for kind, text in r.examples.items()}
    return "no candidate survived: " + ("; ".join(sorted(reasons)[:3]) or "none was measured")


def _json(value: object) -> str:
    return json.dumps(value, allow_nan=False)
