"""/v1/bundles: bundles of models, by digest."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Path, Response

from ansorpy.server.http.conditional import streamed
from ansorpy.server.routes.dependencies import Deps, ReadAccess
from ansorpy.server.routes.downloads import Asked, answers, immutable
from ansorpy.server.routes.kernels import ZIP
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
    asked: Asked,
) -> Response:
    """Return the bundle of a model: a zip with a library, the weights and a runner."""
    headers = immutable(sha256, f"model-{sha256[:12]}.zip")
    size_bytes = deps.bundles.size_bytes(principal.tenant_id, sha256)
    return streamed(partial(deps.bundles.read, sha256), size_bytes, ZIP, headers, asked)
