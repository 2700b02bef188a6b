"""/login and /logout: browser sessions, with their secret in an HttpOnly cookie."""

from http import HTTPStatus
from typing import Annotated, Final

from fastapi import APIRouter, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import QueryParams

from ansorpy.server.access.errors import UnauthenticatedError
from ansorpy.server.access.sessions import KEEP_S
from ansorpy.server.http.body import read_bounded
from ansorpy.server.routes.dependencies import Deps, cookie_name
from ansorpy.server.routes.page_route import PageRoute
from ansorpy.server.web.templating import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MAX_FORM_BYTES: Final = 4096
OLD_COOKIE: Final = "ansorpy_key"  # contained the key itself before version 0.2; deleted at login
HOME: Final = "/jobs"
Next = Annotated[str, Query(max_length=256)]


@router.get("/login", response_class=HTMLResponse)
def form(deps: Deps, next: Next = HOME) -> HTMLResponse:
    """Return the form for a key."""
    return _form(deps, own_path(next))


@router.post("/login", response_class=HTMLResponse)
async def login(request: Request, deps: Deps) -> Response:
    """Check the key, begin a session, redirect to the page `next`."""
    body = await read_bounded(request, MAX_FORM_BYTES)
    fields = QueryParams(body.decode("utf-8", "replace"))  # forms are encoded like queries
    key = fields.get("key", "").strip()
    place = own_path(fields.get("next", HOME))
    address = request.client.host if request.client is not None else ""
    try:
        session = await run_in_threadpool(deps.authenticator.sign_in, key)
    except UnauthenticatedError as error:
        deps.rates.hit("denied", address)
        return _form(deps, place, str(error), HTTPStatus.UNAUTHORIZED)
    reply = RedirectResponse(place, HTTPStatus.SEE_OTHER)
    reply.set_cookie(
        cookie_name(request), session, max_age=int(KEEP_S), httponly=True, samesite="strict",
        secure=request.url.scheme == "https",
    )  # fmt: skip
    reply.delete_cookie(OLD_COOKIE, httponly=True, samesite="strict")
    return reply


@router.post("/logout")
def logout(request: Request, deps: Deps) -> Response:
    """End the session."""
    name = cookie_name(request)
    if name in request.cookies:
        deps.authenticator.sign_out(request.cookies[name])
    reply = RedirectResponse("/login", HTTPStatus.SEE_OTHER)
    secure = request.url.scheme == "https"  # browsers delete a `__Host-` cookie only with Secure
    reply.delete_cookie(name, httponly=True, samesite="strict", secure=secure)
    return reply


def own_path(path: str) -> str:
    """Return `path` if it certainly belongs to this site, else the list of jobs."""
    plain = path.startswith("/") and not path.startswith("//")
    return path if plain and path.isprintable() and path.isascii() and "\\" not in path else HOME


def _form(
    deps: Deps, place: str, error: str = "", status: HTTPStatus = HTTPStatus.OK
) -> HTMLResponse:
    needed = deps.authenticator.local is None
    text = render(
        "login.html", next=place, error=error, needed=needed, tenant=None, section="login"
    )
    return HTMLResponse(text, status)
