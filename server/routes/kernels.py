"""/v1/kernels: immutable packages, by digest."""

from hashlib import sha256 as digest_of
from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Response

from ansorpy.server.http.conditional import MAX_HEADER, content, matches, not_modified
from ansorpy.server.routes.dependencies import Deps, ReadAccess
from ansorpy.server.schemas.base import DIGEST_PATTERN
from ansorpy.server.schemas.problem import problems
from ansorpy.server.service.kernels import MEDIA_TYPES, FileName

router = APIRouter(prefix="/v1/kernels", tags=["kernels"])

ZIP = "application/zip"
FOREVER = "private, max-age=31536000, immutable"
Sha256 = Annotated[str, Path(pattern=DIGEST_PATTERN, description="The digest of a package.")]
File = Annotated[FileName, Path(description="A file of the package.")]
Given = Annotated[str | None, Header(max_length=MAX_HEADER)]


def answers(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Return the replies of a route that sends bytes, for the OpenAPI document."""
    binary = {media: {"schema": {"type": "string", "format": "binary"}} for media in media_types}
    return {
        200: {"description": "The bytes; the ETag is their sha256.", "content": binary},
        206: {"description": "The requested range.", "content": binary},
        304: {"description": "Not modified."},
        **problems(404, 416, 422),
    }


def immutable(digest: str, name: str) -> dict[str, str]:
    """Return the headers of a download that never changes: its ETag, and the name of the file."""
    return {
        "ETag": f'"{digest}"',
        "Cache-Control": FOREVER,
        "Content-Disposition": f'attachment; filename="{name}"',
    }


@router.get(
    "/{sha256}", operation_id="downloadKernel", response_class=Response, responses=answers(ZIP)
)
def package(
    sha256: Sha256,
    principal: ReadAccess,
    deps: Deps,
    if_none_match: Given = None,
    range_: Annotated[Given, Header(alias="Range")] = None,
    if_range: Given = None,
) -> Response:
    """Return a kernel package: a zip with the source, the library and their manifest."""
    headers = immutable(sha256, f"kernel-{sha256[:12]}.zip")
    etag = headers["ETag"]
    if matches(if_none_match, etag):
        deps.kernels.exists(principal.tenant_id, sha256)
        return not_modified(headers)
    data = deps.kernels.content(principal.tenant_id, sha256)
    return content(data, etag, ZIP, headers, range_, if_range)


@router.get(
    "/{sha256}/{file}",
    operation_id="downloadKernelFile",
    response_class=Response,
    responses=answers(*sorted(set(MEDIA_TYPES.values()))),
)
def file(
    sha256: Sha256,
    file: File,
    principal: ReadAccess,
    deps: Deps,
    if_none_match: Given = None,
    range_: Annotated[Given, Header(alias="Range")] = None,
    if_range: Given = None,
) -> Response:
    """Return one file of a package."""
    data = deps.kernels.file(principal.tenant_id, sha256, file)
    etag = f'"{digest_of(data).hexdigest()}"'
    headers = {"ETag": etag, "Cache-Control": FOREVER}
    if matches(if_none_match, etag):
        return not_modified(headers)
    return content(data, etag, MEDIA_TYPES[file], headers, range_, if_range)
