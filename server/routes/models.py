"""/v1/models: ONNX files of a tenant, by digest."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from pathlib import Path as FilePath
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response
from fastapi.concurrency import contextmanager_in_threadpool, run_in_threadpool

from ansorpy.errors import SpecError
from ansorpy.server.http.body import check_length, declared_bytes, spool
from ansorpy.server.http.conditional import streamed
from ansorpy.server.routes.dependencies import Deps, ReadAccess, TuneAccess
from ansorpy.server.routes.downloads import Asked, answers, immutable
from ansorpy.server.schemas.base import DIGEST_PATTERN
from ansorpy.server.schemas.model import FILE_NAME, ModelPage, ModelReply
from ansorpy.server.schemas.problem import problems

router = APIRouter(prefix="/v1/models", tags=["models"])

ONNX = "application/octet-stream"
PAGE = 20
MAX_PAGE = 40  # models of a page
BINARY: dict[str, Any] = {ONNX: {"schema": {"type": "string", "format": "binary"}}}
Digest = Annotated[
    str,
    Path(
        pattern=DIGEST_PATTERN,
        description="The sha256 of an ONNX file.",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    ),
]


@asynccontextmanager
async def received(
    request: Request, deps: Deps, tenant_id: int
) -> AsyncIterator[tuple[FilePath, str]]:
    """Give the file of a request, alone in a private folder, and its sha256."""
    check_length(request, deps.settings.max_model_bytes)
    async with contextmanager_in_threadpool(deps.uploads.folder(tenant_id)) as folder:
        path = folder / "model.onnx"
        yield path, await spool(request, path, deps.settings.max_model_bytes)


@router.put(
    "/{model}",
    operation_id="putModel",
    response_model=ModelReply,
    responses={
        201: {"model": ModelReply, "description": "The model is new."},
        **problems(408, 413, 422, 501),
    },
    openapi_extra={"requestBody": {"required": True, "content": BINARY}},
)
async def put(
    model: Digest,
    request: Request,
    response: Response,
    principal: TuneAccess,
    deps: Deps,
    name: Annotated[
        str, Query(pattern=FILE_NAME, description="Name of the file, for lists and pages.")
    ] = "",
) -> ModelReply:
    """Store an ONNX file under its sha256, and read its facts; a known file is a 200."""
    deps.reader.check_installed()
    check_length(request, deps.settings.max_model_bytes)
    tenant_id = principal.tenant_id
    room = partial(deps.models.check_room, tenant_id, model, declared_bytes(request))
    await run_in_threadpool(room)
    async with received(request, deps, tenant_id) as (path, digest):
        if digest != model:
            raise SpecError(
                f"cannot store this model because its sha256 is {digest}; expected the digest of"
                " the address"
            )
        facts = await run_in_threadpool(deps.reader.describe, path)
        new = await run_in_threadpool(deps.models.store, tenant_id, model, path, facts, name)
    response.status_code = HTTPStatus.CREATED if new else HTTPStatus.OK
    response.headers["Location"] = f"/v1/models/{model}"
    return await run_in_threadpool(deps.models.read, tenant_id, model)


@router.get("", operation_id="listModels", responses=problems(422))
def listing(
    principal: ReadAccess,
    deps: Deps,
    before: Annotated[
        int | None, Query(ge=0, le=2**53, description="`next` of the previous page.")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=MAX_PAGE, description="Models of one page.")] = PAGE,
) -> ModelPage:
    """Return your models, newest first."""
    return deps.models.page(principal.tenant_id, before, limit)


@router.get("/{model}", operation_id="readModel", responses=problems(404, 422))
def read(model: Digest, principal: ReadAccess, deps: Deps) -> ModelReply:
    """Return the size, inputs, outputs and operators of a model."""
    return deps.models.read(principal.tenant_id, model)


@router.get(
    "/{model}/file",
    operation_id="downloadModel",
    response_class=Response,
    responses=answers(ONNX),
)
def file(
    model: Digest,
    principal: ReadAccess,
    deps: Deps,
    asked: Asked,
) -> Response:
    """Return the file of a model."""
    headers = immutable(model, f"model-{model[:12]}.onnx")
    size_bytes = deps.models.find(principal.tenant_id, model).size_bytes
    return streamed(partial(deps.models.parts, model), size_bytes, ONNX, headers, asked)


@router.delete(
    "/{model}",
    operation_id="deleteModel",
    status_code=HTTPStatus.NO_CONTENT,
    responses=problems(404, 409, 422),
)
def delete(model: Digest, principal: TuneAccess, deps: Deps) -> None:
    """Delete a model; a model of a job that has not ended is a 409."""
    deps.models.delete(principal.tenant_id, model)
