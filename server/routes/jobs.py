"""/v1/jobs: routes that parse a request, call JobService, and set headers."""

from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import RedirectResponse, StreamingResponse

from ansorpy.server.http.body import check_json, read_bounded
from ansorpy.server.http.conditional import MAX_HEADER, matches, not_modified
from ansorpy.server.http.event_poller import EventReader
from ansorpy.server.http.event_streams import MEDIA_TYPES
from ansorpy.server.http.json_body import parse
from ansorpy.server.routes.dependencies import Deps, ReadAccess, TuneAccess, in_turn
from ansorpy.server.schemas.base import NAME_PATTERN
from ansorpy.server.schemas.explain import ExplainReply
from ansorpy.server.schemas.job import JobPage, JobReply, JobRequest, JobSubmitted, State
from ansorpy.server.schemas.problem import problems
from ansorpy.server.service.jobs import StateChange

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

JobId = Annotated[
    str,
    Path(
        pattern="^[0-9a-f]{32}$",
        description="The id of a job.",
        examples=["0123456789abcdef0123456789abcdef"],
    ),
]
Task = Annotated[str, Path(pattern=NAME_PATTERN, description="The name of a task.")]
Number = Annotated[int, Query(ge=0, le=2**53)]
IfNoneMatch = Annotated[str | None, Header(max_length=MAX_HEADER, description="Known ETags.")]
Key = Annotated[
    str | None,
    Header(
        min_length=1,
        max_length=255,
        pattern=r"^[\x21-\x7e]+$",
        description="Any text; a repeated request with the same key creates no second job.",
    ),
]
RETRY_S = "1"
MAX_EVENT = 999_999_999  # event numbers are 32-bit integers
PAGE = 20
MAX_PAGE = 40  # jobs of a page, so that replies stay under 16 KB
MAX_WORD = 100  # characters of a search
TEXT: dict[str, Any] = {"schema": {"type": "string"}}
EVENT: dict[str, Any] = {  # OpenAPI schema of a server-sent event
    "schema": {
        "type": "object",
        "properties": {
            "data": {"type": "string"},
            "event": {"type": "string"},
            "id": {"type": "string"},
            "retry": {"type": "integer", "minimum": 0},
        },
    }
}
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/JobRequest"}}},
    }
}


@router.post(
    "",
    operation_id="submitJob",
    status_code=HTTPStatus.ACCEPTED,
    response_model=JobSubmitted,
    responses={
        200: {"model": JobSubmitted, "description": "An earlier job has the kernels."},
        **problems(404, 408, 413, 415, 422),
    },
    openapi_extra=BODY,
)
async def submit(
    request: Request,
    response: Response,
    principal: TuneAccess,
    deps: Deps,
    idempotency_key: Key = None,
) -> JobSubmitted:
    """Queue a tuning job.

    A workload that an earlier job has tuned with at least this budget is answered at once (200). A
    workload that is queued or running is not tuned twice.
    """
    check_json(request)
    body = await read_bounded(request, deps.settings.max_body_bytes)
    work = partial(_submit, deps, principal.tenant_id, body, idempotency_key)
    job = await deps.heavy.run(request, principal.tenant_id, work)
    answered = job.how == "answered"
    response.status_code = HTTPStatus.OK if answered else HTTPStatus.ACCEPTED
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    if not answered:
        response.headers["Retry-After"] = RETRY_S
    return job


def _submit(deps: Deps, tenant_id: int, body: bytes, key: str | None) -> JobSubmitted:
    return deps.jobs.submit(tenant_id, parse(JobRequest, body), key)


@router.get(
    "", operation_id="listJobs", response_model_exclude_defaults=True, responses=problems(422)
)
def listing(
    principal: ReadAccess,
    deps: Deps,
    state: Annotated[State | None, Query(description="Only jobs in this state.")] = None,
    before: Annotated[
        int | None, Query(ge=0, le=2**53, description="`next` of the previous page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Jobs of one page.")] = PAGE,
    prefix: Annotated[
        str,
        Query(alias="id", pattern="^[0-9a-f]{0,32}$", description="Leading digits of the ids."),
    ] = "",
    word: Annotated[
        str,
        Query(alias="q", max_length=MAX_WORD, description="Part of the names, or begin of the id."),
    ] = "",
) -> JobPage:
    """Return your jobs, newest first."""
    return deps.jobs.page(principal.tenant_id, state, before, limit, prefix, word)


@router.get(
    "/{job_id}",
    operation_id="readJob",
    response_model=JobReply,
    responses={304: {"description": "Nothing changed."}, **problems(404, 422)},
)
def read(
    job_id: JobId,
    response: Response,
    principal: ReadAccess,
    deps: Deps,
    if_none_match: IfNoneMatch = None,
) -> Any:
    """Return the state, the progress and the results of a job."""
    seen = deps.jobs.read(principal.tenant_id, job_id, partial(matches, if_none_match))
    headers = {"ETag": seen.tag, "Cache-Control": "private, no-cache"}
    response.headers.update(headers)
    return not_modified(headers) if seen.reply is None else seen.reply


@router.post("/{job_id}/cancel", operation_id="cancelJob", responses=problems(404, 409, 422))
def cancel(job_id: JobId, principal: TuneAccess, deps: Deps) -> JobReply:
    """Cancel a job; its best kernels so far can still be downloaded."""
    return _set_state(deps, principal, job_id, "cancel")


@router.post("/{job_id}/pause", operation_id="pauseJob", responses=problems(404, 409, 422))
def pause(job_id: JobId, principal: TuneAccess, deps: Deps) -> JobReply:
    """Pause a job after its last stored round, until it is resumed."""
    return _set_state(deps, principal, job_id, "pause")


@router.post("/{job_id}/resume", operation_id="resumeJob", responses=problems(404, 409, 422))
def resume(job_id: JobId, principal: TuneAccess, deps: Deps) -> JobReply:
    """Queue a paused job again; it continues after its last stored round."""
    return _set_state(deps, principal, job_id, "resume")


@router.post(
    "/{job_id}/retry",
    operation_id="retryJob",
    status_code=HTTPStatus.ACCEPTED,
    responses=problems(404, 409, 422),
)
def retry(
    job_id: JobId,
    response: Response,
    principal: TuneAccess,
    deps: Deps,
    idempotency_key: Key = None,
) -> JobReply:
    """Queue a new job of the request of a job that has ended."""
    job = deps.jobs.retry(principal.tenant_id, job_id, idempotency_key)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    response.headers["Retry-After"] = RETRY_S
    return job


@router.delete(
    "/{job_id}",
    operation_id="deleteJob",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(404, 422),
)
def delete(job_id: JobId, principal: TuneAccess, deps: Deps) -> None:
    """Delete a job with its kernels and bundles; a job that has not ended is cancelled first."""
    deps.jobs.delete(principal.tenant_id, job_id)


def _set_state(deps: Deps, principal: TuneAccess, job_id: str, how: StateChange) -> JobReply:
    return deps.jobs.set_state(principal.tenant_id, job_id, how)


async def stream_slot(principal: ReadAccess, deps: Deps) -> AsyncIterator[None]:
    """Hold a slot of the event streams from before the first query until the stream has ended.

    Raises:
        RateLimitError, OverloadedError: no slot is free.
    """
    with deps.streams.slots.taken(principal.tenant_id):
        yield


@router.get(
    "/{job_id}/events",
    operation_id="followJob",
    dependencies=[Depends(stream_slot)],
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "Events in order; Last-Event-ID or `after` resume after an `id`.",
            "content": {MEDIA_TYPES["sse"]: EVENT, MEDIA_TYPES["jsonl"]: TEXT},
        },
        **problems(404, 422),
    },
)
async def events(
    job_id: JobId,
    principal: ReadAccess,
    deps: Deps,
    form: Annotated[
        Literal["sse", "jsonl"], Query(alias="format", description="The form of the stream.")
    ] = "sse",
    after: Annotated[
        int, Query(ge=0, le=MAX_EVENT, description="Only events after this number.")
    ] = 0,
    wait: Annotated[
        Literal["true", "false"] | None,
        Query(description="Whether to wait for new events; default: true for sse."),
    ] = None,
    last_event_id: Annotated[
        str | None, Header(pattern="^[0-9]{1,9}$", description="Like `after`; sent by browsers.")
    ] = None,
) -> StreamingResponse:
    """Stream the events of a job, as server-sent events or JSONL."""
    begin = max(after, int(last_event_id or 0))
    look = partial(deps.jobs.events_after, principal.tenant_id, job_id)
    first = await run_in_threadpool(look, begin)
    waits = wait == "true" or (wait is None and form == "sse")
    reader = EventReader(job_id, principal.key_id, begin)
    chunks = deps.streams.follow(reader, look, first, form, waits)
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(chunks, media_type=MEDIA_TYPES[form], headers=headers)


@router.get("/{job_id}/explain", operation_id="explainJob", responses=problems(404, 422))
@in_turn(lambda deps: deps.derivations)
def explain(
    request: Request,
    job_id: JobId,
    principal: ReadAccess,
    deps: Deps,
    task: Annotated[
        str | None, Query(pattern=NAME_PATTERN, description="Default: the first task.")
    ] = None,
    after: Annotated[Number, Query(description="`next` of the previous page.")] = 0,
) -> ExplainReply:
    """Return a page of the derivation of a task, and the failures of the job."""
    return deps.explain.read(principal.tenant_id, job_id, task, after)


@router.get(
    "/{job_id}/kernels/{task}",
    operation_id="findKernel",
    response_class=RedirectResponse,
    status_code=HTTPStatus.TEMPORARY_REDIRECT,
    responses={
        200: {
            "description": "The package, after the redirect.",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        },
        307: {"description": "The newest kernel of the task is at Location."},
        **problems(404, 422),
    },
)
def kernel(job_id: JobId, task: Task, principal: ReadAccess, deps: Deps) -> RedirectResponse:
    """Redirect to the newest kernel of a task, the best so far while the job runs."""
    digest = deps.jobs.kernel(principal.tenant_id, job_id, task)
    headers = {"Cache-Control": "private, no-cache"}
    return RedirectResponse(f"/v1/kernels/{digest}", HTTPStatus.TEMPORARY_REDIRECT, headers)


@router.get(
    "/{job_id}/model",
    operation_id="findBundle",
    response_class=RedirectResponse,
    status_code=HTTPStatus.TEMPORARY_REDIRECT,
    responses={
        200: {
            "description": "The bundle, after the redirect.",
            "content": {"application/zip": {"schema": {"type": "string", "format": "binary"}}},
        },
        307: {"description": "The newest bundle of the job is at Location."},
        **problems(404, 422),
    },
)
def bundle(job_id: JobId, principal: ReadAccess, deps: Deps) -> RedirectResponse:
    """Redirect to the newest bundle of a model, the best so far while the job runs."""
    digest = deps.jobs.bundle(principal.tenant_id, job_id)
    headers = {"Cache-Control": "private, no-cache"}
    return RedirectResponse(f"/v1/bundles/{digest}", HTTPStatus.TEMPORARY_REDIRECT, headers)
