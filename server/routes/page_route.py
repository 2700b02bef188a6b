"""Route class of the dashboard: errors as pages, redirect to the login, compression."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.routing import APIRoute
from starlette.datastructures import URL

from ansorpy.errors import AnsorError
from ansorpy.server.access.errors import ForbiddenError, UnauthenticatedError
from ansorpy.server.http.compression import compressed
from ansorpy.server.http.problems import MEANING
from ansorpy.server.web.templating import render

# With `no-referrer`, the policy of the API, browsers send `Origin: null` with our own forms.
REFERRER: Final = "same-origin"
ADVICE: Final = {
    HTTPStatus.NOT_FOUND: "It may belong to another tenant, or the address is wrong.",
    HTTPStatus.FORBIDDEN: "Sign in with a key of a higher scope.",
    HTTPStatus.CONFLICT: "The job has changed meanwhile: reload its page.",
    HTTPStatus.TOO_MANY_REQUESTS: "Wait a few seconds, then reload the page.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The address is wrong.",
}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """Route of a page: render expected errors, redirect to /login, compress the response."""

    def get_route_handler(self) -> Handler:
        """Return the handler of the route, wrapped."""
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                reply = await inner(request)
            except UnauthenticatedError:
                # After the login, return to a page; an address of a form is none.
                back = request.url.path if request.method == "GET" else "/jobs"
                place = URL("/login").include_query_params(next=back)
                reply = RedirectResponse(place, HTTPStatus.SEE_OTHER)
            except RequestValidationError as error:
                reply = failed(_status(error), "This page does not exist")
            except AnsorError as error:
                kinds = [kind for kind in type(error).__mro__ if kind in MEANING]
                if not kinds:
                    raise
                reply = failed(MEANING[kinds[0]][0], str(error))
            reply.headers["Referrer-Policy"] = REFERRER
            reply.headers.setdefault("Cache-Control", "private, no-store")
            return await compressed(request, reply)

        return handler


def _status(error: RequestValidationError) -> HTTPStatus:
    in_path = any(mistake["loc"][0] == "path" for mistake in error.errors())
    return HTTPStatus.NOT_FOUND if in_path else HTTPStatus.UNPROCESSABLE_ENTITY


def own_form(request: Request) -> None:
    """Refuse a form without the header Origin or Sec-Fetch-Site.

    `ansorpy.server.http.middleware` refuses requests whose headers name another site; this check
    refuses requests that name none.

    Raises:
        ForbiddenError: there is neither Origin nor Sec-Fetch-Site.
    """
    if not {"origin", "sec-fetch-site"} & set(request.headers):
        raise ForbiddenError(
            "cannot change the job because the request names no page; expected a form of this"
            " service, with Origin or Sec-Fetch-Site"
        )


def failed(status: HTTPStatus, message: str) -> HTMLResponse:
    """Return an error page."""
    text = render(
        "error.html", status=int(status), title=status.phrase, message=message,
        advice=ADVICE.get(status, ""), tenant=None, section="",
    )  # fmt: skip
    return HTMLResponse(text, status)
