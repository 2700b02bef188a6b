"""A route of a page: errors become pages too, and forms may say where they come from."""

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

# With the stricter policy of the API a browser would send `Origin: null` with a form of our own.
REFERRER: Final = "same-origin"
ADVICE: Final = {
    HTTPStatus.NOT_FOUND: "It may be somebody else's, or the address has a mistake.",
    HTTPStatus.FORBIDDEN: "Sign in with a key that may.",
    HTTPStatus.CONFLICT: "Something else happened to it meanwhile: look at its page again.",
    HTTPStatus.TOO_MANY_REQUESTS: "Wait a few seconds, then load the page again.",
    HTTPStatus.UNPROCESSABLE_ENTITY: "The address has a mistake.",
}
Handler = Callable[[Request], Coroutine[Any, Any, Response]]


class PageRoute(APIRoute):
    """Answers people: an expected error is a page, a missing key the way to sign in.

    Pages are compressed.
    """

    def get_route_handler(self) -> Handler:
        """Return the handler with errors made into pages."""
        inner = super().get_route_handler()

        async def handler(request: Request) -> Response:
            try:
                reply = await inner(request)
            except UnauthenticatedError:
                # What only a form can reach is no place to come back to.
                back = request.url.path if request.method == "GET" else "/jobs"
                place = URL("/login").include_query_params(next=back)
                reply = RedirectResponse(place, HTTPStatus.SEE_OTHER)
            except RequestValidationError as error:
                reply = failed(_status(error), "There is no such page")
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
        raise ForbiddenError("only a page of this service may do this")


def failed(status: HTTPStatus, message: str) -> HTMLResponse:
    """Return the page of an error."""
    text = render(
        "error.html", status=int(status), title=status.phrase, message=message,
        advice=ADVICE.get(status, ""), tenant=None, section="",
    )  # fmt: skip
    return HTMLResponse(text, status)
