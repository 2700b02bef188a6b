"""/docs: the API reference as a page."""

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ansorpy.server.web.api_reference import page

router = APIRouter(include_in_schema=False)


@router.get("/docs", response_class=HTMLResponse)
def docs(request: Request) -> HTMLResponse:
    """Return the page of the OpenAPI document."""
    state = request.app.state
    if not hasattr(state, "reference"):  # rendered once per process
        state.reference = page(request.app.openapi())
    return HTMLResponse(state.reference)
