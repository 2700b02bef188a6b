"""/v1/jobs: parse, call the service, shape the reply. No logic."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, HTTPException, Path, Request, Response, status
from fastapi.concurrency import run_in_threadpool

from server.jobs.service import Jobs
from server.schemas import JobReply, JobRequest, Problem

router = APIRouter(prefix="/v1/jobs", tags=["jobs"])

JobId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Task = Annotated[str, Path(pattern="^[A-Za-z_][A-Za-z0-9_]{0,62}$")]


def jobs_service(request: Request) -> Jobs:
    """Return the service that `server.app` wired."""
    service = request.app.state.jobs
    assert isinstance(service, Jobs)
    return service


JobsDep = Annotated[Jobs, Depends(jobs_service)]


async def read_bounded(request: Request) -> bytes:
    """Return the body; HTTP 413 as soon as it is longer than the settings allow."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > request.app.state.max_body_bytes:
            raise HTTPException(status.HTTP_413_CONTENT_TOO_LARGE)
    return bytes(body)


def problems(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the problem+json answers of a route."""
    schema = {"application/problem+json": {"schema": Problem.model_json_schema()}}
    return {code: {"description": "Problem details", "content": schema} for code in codes}


@router.post(
    "",
    operation_id="submitJob",
    status_code=status.HTTP_202_ACCEPTED,
    responses=problems(413, 422, 503),
    openapi_extra={
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": JobRequest.model_json_schema()}},
        }
    },
)
async def submit(request: Request, response: Response, jobs: JobsDep) -> JobReply:
    """Queue a tuning job; 202 because the work happens later."""
    # Parsed from bytes: pydantic's own JSON reader refuses NaN, huge numbers and lone surrogates.
    body = JobRequest.model_validate_json(await read_bounded(request))
    job = await run_in_threadpool(jobs.submit, body)
    response.headers["Location"] = f"/v1/jobs/{job.id}"
    response.headers["Retry-After"] = "1"
    return job


@router.get("/{job_id}", operation_id="readJob", responses=problems(404, 422))
def read(job_id: JobId, jobs: JobsDep) -> JobReply:
    """Return the state, the progress and the results of a job."""
    return jobs.read(job_id)


@router.get(
    "/{job_id}/kernels/{task}",
    operation_id="downloadKernel",
    response_class=Response,
    responses={
        200: {"content": {"application/zip": {}}, "description": "The verified kernel"},
        304: {"description": "The copy that the client has is still right"},
        **problems(404, 422),
    },
)
def download(
    job_id: JobId,
    task: Task,
    jobs: JobsDep,
    if_none_match: Annotated[str | None, Header(max_length=1000)] = None,
) -> Response:
    """Return the zip of one task; its ETag is the sha256 of the file."""
    kernel = jobs.kernel(job_id, task)
    headers = {
        "ETag": f'"{kernel.sha256}"',
        "Cache-Control": "private, max-age=31536000, immutable",
    }
    if if_none_match is not None and kernel.sha256 in if_none_match:
        return Response(status_code=status.HTTP_304_NOT_MODIFIED, headers=headers)
    headers["Content-Disposition"] = f'attachment; filename="{kernel.name}"'
    return Response(kernel.content, media_type="application/zip", headers=headers)
