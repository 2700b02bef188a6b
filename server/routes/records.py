"""/v1/records: records of trials, as JSONL."""

from functools import partial
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.responses import StreamingResponse

from ansorpy.server.http.body import read_bounded
from ansorpy.server.routes.dependencies import Deps, ReadAccess, TuneAccess
from ansorpy.server.schemas.problem import problems
from ansorpy.server.schemas.service import RecordsTaken

router = APIRouter(prefix="/v1/records", tags=["records"])

JSONL = "application/x-ndjson"


@router.post(
    "",
    operation_id="importRecords",
    responses=problems(408, 413, 415, 422),
    openapi_extra={
        "requestBody": {"required": True, "content": {JSONL: {"schema": {"type": "string"}}}}
    },
)
async def take_in(request: Request, principal: TuneAccess, deps: Deps) -> RecordsTaken:
    """Import records, all or none, one per line; each is kept once.

    Imported records start searches of their tasks and never answer a request: their programs are
    verified and timed first.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSONL:
        detail = f"cannot read the body because of its Content-Type; expected {JSONL}"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)
    body = await read_bounded(request, deps.settings.max_body_bytes)
    work = partial(deps.records.take_in, principal.tenant_id, body)
    count, new = await deps.heavy.run(request, principal.tenant_id, work)
    return RecordsTaken(records=count, new=new)


@router.get(
    "",
    operation_id="exportRecords",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "One record per line, oldest first.",
            "content": {JSONL: {"schema": {"type": "string"}}},
        },
        **problems(404, 422),
    },
)
def export(
    principal: ReadAccess,
    deps: Deps,
    job: Annotated[
        str | None, Query(pattern="^[0-9a-f]{32}$", description="Only records of this job.")
    ] = None,
    after: Annotated[int, Query(ge=0, le=2**53, description="Only records after this.")] = 0,
) -> StreamingResponse:
    """Return your records, in the form that `ansorpy records import` reads."""
    deps.records.check(principal.tenant_id, job)
    lines = deps.records.lines(principal.tenant_id, job, after)
    return StreamingResponse(lines, media_type=JSONL, headers={"Cache-Control": "no-store"})
