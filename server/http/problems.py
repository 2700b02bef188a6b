"""Exception handlers that answer with RFC 9457 problem details, without text of the request."""

import logging
import re
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from sqlalchemy.exc import OperationalError, TimeoutError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from ansorpy.errors import AnsorError, ShapeError, SpecError
from ansorpy.graph.remedies import as_fields
from ansorpy.server.access.errors import (
    ForbiddenError,
    OverloadedError,
    RateLimitError,
    UnauthenticatedError,
)
from ansorpy.server.http.body import DISK_RETRY_S
from ansorpy.server.http.validation import (
    InvalidBodyError,
    mistake_of,
    mistake_of_field,
    mistakes,
    to_ascii,
)
from ansorpy.server.jobs.errors import (
    FieldError,
    KeyReusedError,
    NotFoundError,
    NotInstalledError,
    QuotaError,
    StateError,
)
from ansorpy.server.schemas.problem import MEDIA_TYPE, Mistake, Problem
from ansorpy.target import listed

log = logging.getLogger(__name__)

MAX_DETAIL: Final = 500
PROBLEM_CODE: Final = "ansorpy.problem"
NO_PATH: Final = "cannot find this path because no operation has it; expected a path of /docs"
NO_DETAIL: Final = (
    "cannot answer because of an error with status {status}; expected a request of /docs"
)
RETRY_S: Final = 5  # Retry-After if the database does not answer, or the service is overloaded

# Status and `code` of each expected error.
MEANING: Final[Mapping[type[AnsorError], tuple[HTTPStatus, str]]] = {
    SpecError: (HTTPStatus.UNPROCESSABLE_ENTITY, "spec"),
    NotFoundError: (HTTPStatus.NOT_FOUND, "unknown"),
    StateError: (HTTPStatus.CONFLICT, "state"),
    KeyReusedError: (HTTPStatus.UNPROCESSABLE_ENTITY, "idempotency"),
    NotInstalledError: (HTTPStatus.NOT_IMPLEMENTED, "installation"),
    QuotaError: (HTTPStatus.TOO_MANY_REQUESTS, "quota"),
    RateLimitError: (HTTPStatus.TOO_MANY_REQUESTS, "rate"),
    OverloadedError: (HTTPStatus.SERVICE_UNAVAILABLE, "full"),
    UnauthenticatedError: (HTTPStatus.UNAUTHORIZED, "key"),
    ForbiddenError: (HTTPStatus.FORBIDDEN, "scope"),
}
# `code` by status, for errors of the framework (unknown route, unsupported method, long body).
CODES: Final[Mapping[int, str]] = {
    400: "request", 403: "origin", 404: "unknown", 405: "method", 406: "format", 408: "slow",
    413: "length", 415: "type", 416: "range", 421: "host", 503: "full",
}  # fmt: skip


def install_error_handlers(app: FastAPI) -> None:
    """Register the exception handlers of all errors; they are async, and so take no thread."""
    for kind in MEANING:
        app.add_exception_handler(kind, _expected)
    for invalid in (RequestValidationError, InvalidBodyError, ShapeError):
        app.add_exception_handler(invalid, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(ClientDisconnect, _left)
    app.add_exception_handler(OperationalError, _database)
    app.add_exception_handler(TimeoutError, _database)
    app.add_exception_handler(Exception, _bug)


class ProblemResponse(JSONResponse):
    """Response with problem details; stores the code in the ASGI scope, for the metrics."""

    media_type = MEDIA_TYPE

    def __init__(self, body: Problem, headers: Mapping[str, str] | None) -> None:
        super().__init__(body.model_dump(), body.status, dict(headers or {}))
        self.code = body.code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        scope[PROBLEM_CODE] = self.code
        await super().__call__(scope, receive, send)


def problem(
    status: int,
    code: str,
    detail: str,
    errors: Sequence[Mistake] = (),
    headers: Mapping[str, str] | None = None,
) -> ProblemResponse:
    """Return a response with problem details."""
    body = Problem(
        title=HTTPStatus(status).phrase,
        status=int(status),
        code=code,
        detail=to_ascii(detail).strip()[:MAX_DETAIL] or NO_DETAIL.format(status=int(status)),
        errors=list(errors),
    )
    return ProblemResponse(body, headers)


async def _expected(_: Request, error: Exception) -> JSONResponse:
    status, code = next(MEANING[kind] for kind in type(error).__mro__ if kind in MEANING)
    headers: dict[str, str] = {}
    if isinstance(error, QuotaError | RateLimitError | OverloadedError):
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, UnauthenticatedError):
        headers["WWW-Authenticate"] = "Bearer"
    detail = as_fields(str(error))
    errors = [mistake_of_field(error, detail)] if isinstance(error, FieldError) else []
    return problem(status, code, detail, errors, headers)


async def _invalid(_: Request, error: Exception) -> JSONResponse:
    if isinstance(error, RequestValidationError):
        error = InvalidBodyError(mistakes(error.errors()))
    elif isinstance(error, ShapeError):
        error = InvalidBodyError([mistake_of(error)])
    assert isinstance(error, InvalidBodyError)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "shape", str(error), error.mistakes)


async def _http(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = error.status_code
    headers = dict(error.headers or {})
    # Starlette sets the phrase of the status as detail; only other details are informative.
    detail = error.detail if error.detail != HTTPStatus(status).phrase else ""
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        # Starlette's Allow lists the methods of the first matching route only.
        methods = _methods(request) or [headers.get("Allow", "")]
        headers["Allow"] = ", ".join(methods)
        detail = f"cannot use this method because the path has others; expected {listed(methods)}"
    if status == HTTPStatus.NOT_FOUND:
        detail = detail or NO_PATH
    return problem(status, CODES.get(status, "http"), detail, headers=headers)


async def _left(_: Request, __: Exception) -> JSONResponse:
    """Answer a client that has left: for the log and the metrics, no bytes reach it."""
    detail = "cannot answer because the client has left; expected the whole request"
    return problem(HTTPStatus.BAD_REQUEST, CODES[HTTPStatus.BAD_REQUEST], detail)


def _methods(request: Request) -> list[str]:
    """Return the methods of a path in the OpenAPI document."""
    allowed: set[str] = set()
    for path, methods in request.app.openapi()["paths"].items():
        if re.fullmatch(re.sub(r"{\w+}", "[^/]+", path), request.url.path):
            allowed |= {method.upper() for method in methods}
    if "GET" in allowed:
        allowed.add("HEAD")
    return sorted(allowed)


async def _database(request: Request, error: Exception) -> JSONResponse:
    if request.app.state.dependencies.info.disk() == "full":
        log.error("the disk is full")  # a traceback for each request would need more of it
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE,
            CODES[HTTPStatus.SERVICE_UNAVAILABLE],
            "cannot store anything because the disk of the service is full; expected room on it:"
            " reading requests are answered",
            headers={"Retry-After": str(DISK_RETRY_S)},
        )
    log.error("the database does not answer: %s", type(error).__name__, exc_info=error)
    return problem(
        HTTPStatus.SERVICE_UNAVAILABLE,
        "database",
        "cannot reach the database because it does not answer; expected it back: try again later",
        headers={"Retry-After": str(RETRY_S)},
    )


async def _bug(_: Request, error: Exception) -> JSONResponse:
    log.error("unexpected error", exc_info=error)
    detail = "cannot answer because of an internal error; expected a report with the X-Request-Id"
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "bug", detail)
