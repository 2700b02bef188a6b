"""Use cases of a job: submit, read, change its state, read its events."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

from sqlalchemy import Engine
from sqlalchemy.orm import Session

from ansorpy.errors import GraphError, ShapeError, SpecError
from ansorpy.graph.remedies import is_binding
from ansorpy.graph.wire.read import DocumentLimits, from_json
from ansorpy.server.access.quota import Quota, check_quota
from ansorpy.server.db import model_files
from ansorpy.server.db.engine import now, reading, transaction
from ansorpy.server.db.models import JobEventRow, JobRow
from ansorpy.server.jobs import machines, models, queries
from ansorpy.server.jobs.errors import FieldError, NotFoundError, naming
from ansorpy.server.jobs.events import last_events, read_events
from ansorpy.server.jobs.models import StoredModel
from ansorpy.server.jobs.states import ENDED, State
from ansorpy.server.jobs.submission import ModelSource, Submission, read_dags
from ansorpy.server.schemas.job import JobPage, JobReply, JobRequest, JobSubmitted
from ansorpy.server.schemas.model import ModelFacts
from ansorpy.server.service.limits import RequestLimits, check_dags, check_parts
from ansorpy.server.service.redact import redacted
from ansorpy.server.service.serializers import Asked, job_reply, job_summary, of_request
from ansorpy.te.dag import Dag
from ansorpy.te.dims import dims_of
from ansorpy.tuner.options.allocation import chosen_dags
from ansorpy.tuner.options.conflicts import ConflictError, RequestKind, check_conflicts
from ansorpy.tuner.options.networks import networks_of
from ansorpy.tuner.options.plugins import GROUPS, chosen_part
from ansorpy.tuner.options.tune_options import values
from ansorpy.tuner.parts.spaces import check_space
from ansorpy.tuner.rule_sets.sets import find_rules

StateChange = Literal["cancel", "pause", "resume"]

_CHANGES: Final = {"cancel": queries.cancel, "pause": queries.pause}
PAGE: Final = 200  # events per query


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event; `line` is its JSON form."""

    number: int
    kind: str
    line: str


@dataclass(frozen=True, slots=True)
class EventBatch:
    """A page of events, and whether the job has ended with them."""

    events: Sequence[JobEvent]
    ended: bool


@dataclass(frozen=True, slots=True)
class TaggedJob:
    """A job and its ETag, which changes whenever the reply changes."""

    tag: str
    reply: JobReply | None  # None if the caller knows the ETag


@dataclass(frozen=True, slots=True)
class JobService:
    """Use cases of `routes.jobs`; each is restricted to one tenant."""

    engine: Engine
    limits: RequestLimits
    quota: Quota
    rules_dir: Path | None = None

    def submit(
        self, tenant_id: int, request: JobRequest, idempotency_key: str | None
    ) -> JobSubmitted:
        """Queue a job, or return an existing job that makes it unnecessary.

        Raises:
            SpecError: the workload is invalid or too large, or the target is unknown.
            GraphError: the model is known not to compile.
            NotFoundError: the tenant has no such model.
            KeyReusedError: the key belongs to another request.
            QuotaError: a quota of the tenant is used up.
        """
        submission = self._submission(request).digested()
        with transaction(self.engine) as tx:
            now_s = now(tx)
            if request.model is not None:
                _check_refusal(models.find(tx, tenant_id, request.model), request)
            submitted = queries.submit(
                tx, tenant_id, submission, now_s,
                idempotency_key=idempotency_key, max_queued=self.quota.queued_jobs,
            )  # fmt: skip
            if submitted.how == "created":
                _check_target(tx, request)
                check_quota(tx, tenant_id, self.quota, now_s)
            reply = _told(tx, submitted.job, machines.waiting_for(tx, submitted.job, now_s))
        return JobSubmitted(**reply.model_dump(), how=submitted.how)

    def check(self, tenant_id: int, request: JobRequest) -> Asked:
        """Return the facts of a request that `submit` would take; nothing is queued.

        Raises:
            SpecError, GraphError, NotFoundError: as `submit`.
        """
        submission = self._submission(request).digested()
        with reading(self.engine) as tx:
            if request.model is not None:
                _check_refusal(models.find(tx, tenant_id, request.model), request)
            _check_target(tx, request)
        return of_request(submission.document)

    def _submission(self, request: JobRequest) -> Submission:
        space = "schedule" if request.template is None else "template"
        try:
            with naming(space):
                options = request.options()
            dags = self._dags(request)
            gpu = request.target.startswith("cuda")
            facts = RequestKind(
                request.target.partition(":")[0] or "cpu", len(dags), options.cores,
                model=not dags, estimated=gpu, dims=any(map(dims_of, dags)),
            )  # fmt: skip
            check_conflicts(options, facts)
            with naming(space):
                check_space(options, dags)
            kind = "cuda" if gpu else "cpu"
            with naming("allow"):
                find_rules(kind, options.allow, (), self.rules_dir)
            for group in GROUPS:
                with naming(group.option):
                    chosen_part(group, options)
            with naming("without"):
                find_rules(kind, options.allow, options.without, self.rules_dir)
            if dags:
                with naming("weights"):
                    networks_of(options.weights, [dag.name for dag in dags])
            with naming("budget"):
                return Submission(
                    dags,
                    model=source_of(request, self.limits),
                    target=request.target,
                    priority=request.priority,
                    text=request.text,
                    **{
                        **values(options),
                        "allow": sorted(set(options.allow)),
                        "without": sorted(set(options.without)),
                    },
                )
        except ConflictError as error:  # the table has its words
            raise FieldError(str(error), error.place) from None
        except SpecError as error:
            budget = request.budget
            keys = (*request.weights, *budget.network_targets_s, *budget.task_targets_s)
            chosen = [(getattr(request, group.option), group.default) for group in GROUPS]
            parts = [name for name, default in chosen if name != default]
            words = (*request.allow, *request.without, *budget.tasks, *parts)
            names = (*request.bind, *request.shapes, *keys, *words)
            sent = request.dags or ([] if request.graph is None else [request.graph])
            written = json.dumps([request.schedule, request.template])
            plain = partial(redacted, text=request.text, dags=sent, names=(*names, written))
            if isinstance(error, ShapeError):
                place = plain(error.place)
                raise ShapeError(plain(str(error)), place, error.code, error.expected) from None
            if isinstance(error, FieldError):
                raise FieldError(plain(str(error)), error.place) from None
            raise SpecError(plain(str(error))) from None

    def _dags(self, request: JobRequest) -> tuple[Dag, ...]:
        """Return the checked Dags of a request; none for a model."""
        if request.model is not None or request.graph is not None:
            return ()
        source = "dags" if request.text is None else "text"
        with naming(source):
            check_parts(request.dags or (), self.limits)
            dags = read_dags(request.text, request.dags, request.bind)
        with naming("budget.tasks"):
            dags = chosen_dags(dags, request.options().tasks)
        with naming(source):
            check_dags(dags, self.limits)
        return dags

    def read(self, tenant_id: int, job_id: str, has: Callable[[str], bool]) -> TaggedJob:
        """Return a job, or only its ETag if the caller `has` it.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            row = queries.find(tx, tenant_id, job_id)
            waiting = machines.waiting_for(tx, row, now(tx))
            # `waiting_for` changes without a new version; its texts differ in length.
            tag = f'W/"{row.version}.{row.events}.{len(waiting or "")}"'
            return TaggedJob(tag, None if has(tag) else _told(tx, row, waiting))

    def page(
        self,
        tenant_id: int,
        state: State | None,
        before: int | None,
        limit: int,
        prefix: str = "",
        word: str = "",
    ) -> JobPage:
        """Return a page of the list, newest first; `word` is as for `queries.list_jobs`."""
        with reading(self.engine) as tx:
            rows, after = queries.list_jobs(
                tx, tenant_id, state=state, before=before, limit=limit, prefix=prefix, word=word
            )
            return JobPage(jobs=[job_summary(row) for row in rows], next=after)

    def set_state(self, tenant_id: int, job_id: str, how: StateChange) -> JobReply:
        """Cancel, pause or resume a job.

        Raises:
            NotFoundError, StateError
            QuotaError: the tenant has too many queued jobs to resume another.
        """
        with transaction(self.engine) as tx:
            now_s = now(tx)
            if how == "resume":
                row = queries.resume(tx, tenant_id, job_id, now_s, self.quota.queued_jobs)
            else:
                row = _CHANGES[how](tx, tenant_id, job_id, now_s)
            return _told(tx, row, machines.waiting_for(tx, row, now_s))

    def retry(self, tenant_id: int, job_id: str, idempotency_key: str | None = None) -> JobReply:
        """Queue a new job of the request of a job that has ended; for a known key return its job.

        Raises:
            NotFoundError, StateError
            KeyReusedError: the key belongs to another request.
            QuotaError: a quota of the tenant is used up.
        """
        with transaction(self.engine) as tx:
            now_s = now(tx)
            row = queries.retry(
                tx, tenant_id, job_id, now_s,
                idempotency_key=idempotency_key, max_queued=self.quota.queued_jobs,
            )  # fmt: skip
            check_quota(tx, tenant_id, self.quota, now_s)
            return _told(tx, row, machines.waiting_for(tx, row, now_s))

    def delete(self, tenant_id: int, job_id: str) -> None:
        """Delete a job with its kernels and bundles; cancel it first if it has not ended.

        Raises:
            NotFoundError
        """
        with transaction(self.engine) as tx:
            now_s = now(tx)
            bundles = queries.remove(tx, tenant_id, job_id, now_s)
        for sha256 in bundles:
            model_files.drop_unowned(self.engine, sha256, now_s)

    def events_after(self, tenant_id: int, job_id: str, after: int) -> EventBatch:
        """Return the next page of events after number `after`.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            job: JobRow = queries.find(tx, tenant_id, job_id)
            rows = queries.events_after(tx, tenant_id, job_id, after, PAGE)
            return _followed(rows, job.state in ENDED)

    def new_events(self, after: Mapping[str, int]) -> Mapping[str, EventBatch]:
        """Return the new events of several jobs, given their last event numbers.

        Jobs without new events are left out. The caller has checked the tenant of each job.
        """
        batches = {job_id: EventBatch((), True) for job_id in after}  # deleted jobs count as ended
        with reading(self.engine) as tx:
            for job_id, state, events in last_events(tx, list(after)):
                if events > after[job_id]:
                    rows = read_events(tx, job_id, after[job_id], PAGE)
                    batches[job_id] = _followed(rows, state in ENDED)
                elif state not in ENDED:
                    del batches[job_id]
        return batches

    def kernel(self, tenant_id: int, job_id: str, task: str) -> str:
        """Return the digest of the newest kernel of a task.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            for row in queries.kernels_of(tx, tenant_id, job_id):
                if row.task == task:
                    return row.sha256
        raise NotFoundError(
            "cannot find a kernel of this task because the job has delivered none; expected a task"
            " with a kernel"
        )

    def bundle(self, tenant_id: int, job_id: str) -> str:
        """Return the digest of the newest bundle of a job.

        Raises:
            NotFoundError
        """
        with reading(self.engine) as tx:
            row = queries.bundle_of(tx, tenant_id, job_id)
        if row is None:
            raise NotFoundError(
                "cannot find a bundle because the job has delivered none; expected a job of a"
                " model, after its first answers"
            )
        return row.sha256


def source_of(request: JobRequest, limits: RequestLimits) -> ModelSource | None:
    """Return the model of a request.

    Raises:
        SpecError: its graph is no document, or its weights are too large.
    """
    if request.graph is not None:
        document = from_json(request.graph, DocumentLimits(absent_bytes=limits.model_bytes))
        own = request.model_options()
        return ModelSource(document.sha256, options=own, graph=document.text)
    if request.model is None:
        return None
    return ModelSource(request.model, request.bind, request.shapes, request.model_options())


def _check_refusal(model: StoredModel, request: JobRequest) -> None:
    """Raise the refusal of a model that is known not to compile with the values of a request."""
    if not model.facts:
        return
    told = ModelFacts.model_validate_json(model.facts).refusal
    if told is not None and not (is_binding(told) and (request.bind or request.shapes)):
        raise GraphError(told)


def _check_target(tx: Session, request: JobRequest) -> None:
    try:
        machines.check_target(tx, request.target, request.options().cores)
    except SpecError as error:
        raise FieldError(redacted(str(error), None, (), (request.target,)), "target") from None


def _told(tx: Session, row: JobRow, waiting_for: str | None) -> JobReply:
    kernels = queries.kernels_of(tx, row.tenant_id, row.id)
    return job_reply(row, kernels, waiting_for, queries.bundle_of(tx, row.tenant_id, row.id))


def _followed(rows: Sequence[JobEventRow], ended: bool) -> EventBatch:
    events = [_event(row.seq, row.kind, row.at_s, row.body) for row in rows]
    return EventBatch(events, ended and len(rows) < PAGE)


def _event(number: int, kind: str, at_s: float, body: str) -> JobEvent:
    facts: dict[str, Any] = {"id": number, "kind": kind, "at_s": at_s, **json.loads(body)}
    return JobEvent(number, kind, json.dumps(facts, allow_nan=False, separators=(",", ":")))
