"""/docs: the API reference, by Swagger UI, which sends requests to this service."""

import gzip
from functools import cache
from typing import Final, Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, JSONResponse, Response

from ansorpy.server.http.compression import accepts_gzip
from ansorpy.server.http.middleware import HEADERS
from ansorpy.server.web.templating import STATIC, render

router = APIRouter(include_in_schema=False)

FileName = Literal["swagger-ui-bundle.js", "swagger-ui.css"]

POLICY: Final = "Content-Security-Policy"
MEDIA_TYPES: Final[dict[FileName, str]] = {
    "swagger-ui-bundle.js": "text/javascript; charset=utf-8",
    "swagger-ui.css": "text/css; charset=utf-8",
}


@router.get("/docs", response_class=HTMLResponse)
def docs() -> HTMLResponse:
    """Return the page of the OpenAPI document."""
    page = HTMLResponse(render("docs.html", tenant=None, section="api"))
    # Pictures of the vendored style are data: addresses.
    page.headers[POLICY] = f"{HEADERS[POLICY]}; img-src 'self' data:"
    return page


@router.get("/docs/openapi.json")
def document(request: Request) -> Response:
    """Return the OpenAPI document, compressed."""
    state = request.app.state
    if not hasattr(state, "reference"):  # made once per process
        body = bytes(JSONResponse(request.app.openapi()).body)
        state.reference = body, gzip.compress(body, mtime=0)
    body, packed = state.reference
    return _reply(request, body, packed, "application/json")


@router.get("/docs/{name}")
def vendored(request: Request, name: FileName) -> Response:
    """Return a file of Swagger UI, compressed: to a third of its size."""
    body, packed = _file(name)
    return _reply(request, body, packed, MEDIA_TYPES[name])


@cache
def _file(name: FileName) -> tuple[bytes, bytes]:
    """Return the bytes of a vendored file, and the same compressed."""
    body = (STATIC / "vendor" / "swagger-ui" / name).read_bytes()
    return body, gzip.compress(body, mtime=0)


def _reply(request: Request, body: bytes, packed: bytes, media_type: str) -> Response:
    headers = {"Vary": "Accept-Encoding", "Cache-Control": "no-cache"}
    if accepts_gzip(request.headers.get("accept-encoding", "")):
        return Response(packed, 200, {**headers, "Content-Encoding": "gzip"}, media_type)
    return Response(body, 200, headers, media_type)
