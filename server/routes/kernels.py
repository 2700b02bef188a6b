"""/v1/kernels: immutable packages, by digest."""

from hashlib import sha256 as digest_of
from typing import Annotated

from fastapi import APIRouter, Path, Response

from ansorpy.server.http.conditional import content, not_modified
from ansorpy.server.routes.dependencies import Deps, ReadAccess
from ansorpy.server.routes.downloads import Asked, answers, immutable
from ansorpy.server.schemas.base import DIGEST_PATTERN
from ansorpy.server.service.kernels import MEDIA_TYPES, FileName

router = APIRouter(prefix="/v1/kernels", tags=["kernels"])

ZIP = "application/zip"
Sha256 = Annotated[str, Path(pattern=DIGEST_PATTERN, description="The digest of a package.")]
File = Annotated[FileName, Path(description="A file of the package.")]


@router.get(
    "/{sha256}", operation_id="downloadKernel", response_class=Response, responses=answers(ZIP)
)
def package(
    sha256: Sha256,
    principal: ReadAccess,
    deps: Deps,
    asked: Asked,
) -> Response:
    """Return a kernel package: a zip with the source, the library and their manifest."""
    headers = immutable(sha256, f"kernel-{sha256[:12]}.zip")
    if asked.know(headers):
        deps.kernels.exists(principal.tenant_id, sha256)
        return not_modified(headers)
    data = deps.kernels.content(principal.tenant_id, sha256)
    return content(data, ZIP, headers, asked)


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
    asked: Asked,
) -> Response:
    """Return one file of a package."""
    data = deps.kernels.file(principal.tenant_id, sha256, file)
    return content(data, MEDIA_TYPES[file], immutable(digest_of(data).hexdigest()), asked)
