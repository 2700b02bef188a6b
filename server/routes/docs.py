"""/docs: the reference of the API for people."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ansorpy.server.web.api_reference import page

router = APIRouter(include_in_schema=False)


@router.get("/docs", response_class=HTMLResponse)
def docs(request: Request) -> HTMLResponse:
    """Return the OpenAPI document as a page."""
    state = request.app.state
    if not hasattr(state, "reference"):  # made once: it changes with the program only
        state.reference = page(request.app.openapi())
    return HTMLResponse(state.reference)
