"""/v1/simplify and /v1/passes: graph passes on one model, and their list."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from fastapi import APIRouter, HTTPException, Query, Request
from fastapi.concurrency import contextmanager_in_threadpool, run_in_threadpool
from fastapi.responses import StreamingResponse

from ansorpy.server.http.body import JSON, read_bounded
from ansorpy.server.http.json_body import parse
from ansorpy.server.routes.dependencies import Dependencies, Deps, ReadAccess, TuneAccess
from ansorpy.server.routes.models import BINARY, ONNX, received
from ansorpy.server.schemas.model import Passes, SimplifyReply, SimplifyRequest
from ansorpy.server.schemas.problem import problems
from ansorpy.server.service.simplify import SimplifyCall, passes, simplified

router = APIRouter(tags=["models"])

FILES = (ONNX, "application/onnx", "application/x-onnx")  # types of a body that is a file
PART_BYTES = 1 << 20  # size of the parts of a file that is sent
Flag = Literal["true", "false"]
BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            JSON: {"schema": {"$ref": "#/components/schemas/SimplifyRequest"}},
            **BINARY,
        },
    }
}


@router.post(
    "/v1/simplify",
    operation_id="simplifyModel",
    response_model=SimplifyReply,
    responses={
        200: {
            "description": "The report, or the file if Accept names its type.",
            "content": BINARY,
        },
        **problems(404, 408, 413, 415, 422, 501),
    },
    openapi_extra=BODY,
)
async def simplify(
    request: Request,
    principal: TuneAccess,
    deps: Deps,
    exact: Annotated[Flag, Query(description="Leave out passes that change roundings.")] = "false",
    keep: Annotated[Flag, Query(description="Store the simplified file as a model.")] = "false",
) -> Any:
    """Run the graph passes on a model, and compare both models on random inputs.

    The body is an ONNX file, or JSON with the digest of a stored one. `Accept:
    application/octet-stream` returns the simplified file instead of the report.
    """
    deps.reader.check_installed()
    deps.reader.slots.check(principal.tenant_id)  # before a byte of the body is read
    async with _model(request, deps, principal.tenant_id) as (path, of):
        asked = SimplifyCall(path, of.bind, of.shapes, exact == "true", keep == "true")
        work = partial(simplified, deps.reader, deps.models, principal.tenant_id, asked)
        reply, file = await run_in_threadpool(work)
    if ONNX not in request.headers.get("accept", ""):
        file.close()
        return reply
    headers = {"ETag": f'"{reply.sha256}"', "Content-Length": str(reply.size_bytes)}
    return StreamingResponse(_parts(file), media_type=ONNX, headers=headers)


def _parts(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while part := file.read(PART_BYTES):
            yield part


@asynccontextmanager
async def _model(
    request: Request, deps: Dependencies, tenant_id: int
) -> AsyncIterator[tuple[Path, SimplifyRequest]]:
    """Give the model of a request, alone in a private folder, and its bindings."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind in FILES:
        async with received(request, deps, tenant_id) as (path, digest):
            yield path, SimplifyRequest(model=digest)
    elif kind == JSON:
        asked = parse(SimplifyRequest, await read_bounded(request, deps.settings.max_body_bytes))
        async with contextmanager_in_threadpool(deps.uploads.folder(tenant_id)) as folder:
            path = folder / "model.onnx"
            await run_in_threadpool(deps.models.export, tenant_id, asked.model, path)
            yield path, asked
    else:
        raise HTTPException(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"cannot read the body because of its Content-Type; expected {JSON} or {ONNX}",
        )


@router.get("/v1/passes", operation_id="listPasses", responses=problems())
def listing(_: ReadAccess) -> Passes:
    """Return the graph passes in their order, with documentation."""
    return passes()
