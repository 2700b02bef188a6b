"""/v1/bundles: bundles of models, by digest."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Path, Response

from ansorpy.server.http.conditional import matches, not_modified, streamed
from ansorpy.server.routes.dependencies import Deps, ReadAccess
from ansorpy.server.routes.kernels import ZIP, Given, answers, immutable
from ansorpy.server.schemas.base import DIGEST_PATTERN

router = APIRouter(prefix="/v1/bundles", tags=["models"])

Sha256 = Annotated[str, Path(pattern=DIGEST_PATTERN, description="The digest of a bundle.")]


@router.get(
    "/{sha256}", operation_id="downloadBundle", response_class=Response, responses=answers(ZIP)
)
def bundle(
    sha256: Sha256,
    principal: ReadAccess,
    deps: Deps,
    if_none_match: Given = None,
    range_: Annotated[Given, Header(alias="Range")] = None,
    if_range: Given = None,
) -> Response:
    """Return the bundle of a model: a zip with a library, the weights and a runner."""
    headers = immutable(sha256, f"model-{sha256[:12]}.zip")
    etag = headers["ETag"]
    size_bytes = deps.bundles.size_bytes(principal.tenant_id, sha256)
    if matches(if_none_match, etag):
        return not_modified(headers)
    read = partial(deps.bundles.read, sha256)
    return streamed(read, size_bytes, etag, ZIP, headers, range_, if_range)
