"""Outermost ASGI middleware: checks of host and origin, HEAD, security headers, access log."""

import logging
import re
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ansorpy.server.access.startup import is_loopback
from ansorpy.server.http.connections import FULL
from ansorpy.server.http.head import HeadersOnly, HeadersSentError
from ansorpy.server.http.metrics import Metrics
from ansorpy.server.http.problems import CODES, PROBLEM_CODE, RETRY_S, problem
from ansorpy.server.logs import fields

log = logging.getLogger("ansorpy.access")

SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
OWN_SITE: Final = ("same-origin", "none")  # values of Sec-Fetch-Site; none: a typed address
METHODS: Final = SAFE | {"POST", "PUT", "PATCH", "DELETE"}
HEADERS: Final = {
    # Scripts, styles and data of other sites are forbidden.
    "Content-Security-Policy": "default-src 'self'; object-src 'none'; base-uri 'none';"
    " frame-ancestors 'none'; form-action 'self'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PROBES: Final = ("/healthz", "/readyz")  # probed every few seconds; only failures are logged
UNKNOWN_ROUTE: Final = "(none)"
_HOST: Final = re.compile(r"(?P<name>[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")


class RequestMiddleware:
    """ASGI middleware: host and origin checks, security headers, request ids, counting, HEAD.

    A HEAD request is answered like GET, without the body.

    Args:
        local_only: the service needs no key. Then Host must be a name of this machine, which
            defeats DNS rebinding (a foreign name that resolves to 127.0.0.1).
    """

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        local_only: bool,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.app = app
        self.metrics = metrics
        self.local_only = local_only
        self.clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begin_s = self.clock()
        request_id = uuid4().hex
        inner, sent = scope, send
        if scope["method"] == "HEAD":
            inner, sent = {**scope, "method": "GET"}, HeadersOnly(send)

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers["X-Request-Id"] = request_id
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                took_s = self.clock() - begin_s
                self._count(scope["method"], inner, message["status"], took_s, request_id)
            await sent(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            status, detail = refusal
            more = {"Retry-After": str(RETRY_S)} if scope.get(FULL) else {}
            if status is HTTPStatus.BAD_REQUEST:
                more["Connection"] = "close"  # the next bytes may be of the body
            reply = problem(status, CODES[status], detail, headers=more)
            await reply(inner, receive, sending)
            return
        with suppress(HeadersSentError):
            await self.app(inner, receive, sending)

    def _refusal(self, scope: Scope) -> tuple[HTTPStatus, str] | None:
        if scope.get(FULL):
            detail = "cannot answer because too many requests are in progress; expected fewer"
            return HTTPStatus.SERVICE_UNAVAILABLE, detail
        headers = Headers(scope=scope)
        if "transfer-encoding" in headers and "content-length" in headers:
            # A proxy may take the other length: a request hidden in the body (RFC 9112, 6.1).
            detail = (
                "cannot read the body because of two lengths, Content-Length and Transfer-Encoding;"
                " expected one of them"
            )
            return HTTPStatus.BAD_REQUEST, detail
        host = headers.get("host", "")
        if self.local_only and not is_local_name(host):
            detail = (
                "cannot answer for this host because the service has no API keys; expected"
                " localhost or a loopback address"
            )
            return HTTPStatus.MISDIRECTED_REQUEST, detail
        # Browsers name the site of a request. Pages of other sites may only read.
        if scope["method"] not in SAFE and _is_foreign(headers, host, scope["scheme"]):
            detail = (
                "cannot change anything for a page of another site; expected a page of this service"
            )
            return HTTPStatus.FORBIDDEN, detail
        return None

    def _count(
        self, asked: str, scope: Scope, status: int, seconds: float, request_id: str
    ) -> None:
        route = getattr(scope.get("route"), "path", UNKNOWN_ROUTE)
        method = asked if asked in METHODS else "OTHER"
        self.metrics.count(method, route, status, seconds)
        if PROBLEM_CODE in scope:
            self.metrics.refused.labels(scope[PROBLEM_CODE]).inc()
        facts = fields(
            method=method,
            route=route,
            status=status,
            ms=round(seconds * 1e3, 2),
            request=request_id,
        )
        quiet = route in PROBES and status == HTTPStatus.OK
        log.log(logging.DEBUG if quiet else logging.INFO, "answered", extra=facts)


def is_local_name(host: str) -> bool:
    """Return whether a Host header names this machine."""
    found = _HOST.fullmatch(host)
    return found is not None and is_loopback(found["name"].strip("[]").lower())


def _is_foreign(headers: Headers, host: str, scheme: str) -> bool:
    origins = headers.getlist("origin")
    if len(origins) > 1:
        return True
    # A proxy that terminates TLS may hide its scheme, so https://HOST is the own site as well.
    own = {f"{scheme}://{host.lower()}", f"https://{host.lower()}"}
    if origins and origins[0].lower() not in own:
        return True
    return headers.get("sec-fetch-site", "none") not in OWN_SITE
