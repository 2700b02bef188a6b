"""/v1/records: records of trials, as JSONL."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from ansorpy.server.routes.dependencies import Deps, ReadAccess
from ansorpy.server.schemas.problem import problems

router = APIRouter(prefix="/v1/records", tags=["records"])

JSONL = "application/x-ndjson"


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
