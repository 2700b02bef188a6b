"""Dependencies of the routes: the objects that `ansorpy.server.app` made, and the principal."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ansorpy.server.access.errors import DeniedError, ForbiddenError
from ansorpy.server.access.keys import Scope
from ansorpy.server.access.principal import KEY, SESSION, Gate, Principal, bearer
from ansorpy.server.access.rates import Rates
from ansorpy.server.edge.metrics import Metrics
from ansorpy.server.edge.streams import Streams
from ansorpy.server.service.about import About
from ansorpy.server.service.charts import Charts
from ansorpy.server.service.dashboard import Dashboard
from ansorpy.server.service.explain import Explain
from ansorpy.server.service.jobs import Jobs
from ansorpy.server.service.kernels import Kernels
from ansorpy.server.service.records import Records
from ansorpy.server.settings import Settings

COOKIE = "ansorpy_session"


@dataclass(frozen=True)
class Wired:
    """Every object that a request may need."""

    settings: Settings
    gate: Gate
    rates: Rates
    metrics: Metrics
    streams: Streams
    jobs: Jobs
    kernels: Kernels
    explain: Explain
    about: About
    records: Records
    charts: Charts
    dashboard: Dashboard


def wired(request: Request) -> Wired:
    """Return what `ansorpy.server.app` wired."""
    found = request.app.state.wired
    assert isinstance(found, Wired)
    return found


WiredDep = Annotated[Wired, Depends(wired)]
# For the OpenAPI document; the header itself is read below, where a wrong scheme has a message.
Documented = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, scheme_name="key", description="An API key.")),
]


def needs(scope: Scope) -> Callable[..., Awaitable[Principal]]:
    """Return the dependency that admits who may do `scope`, at the rate of such requests.

    It runs before anything of the request is looked at.
    """

    async def admitted(request: Request, parts: WiredDep, _: Documented) -> Principal:
        address = request.client.host if request.client is not None else ""
        try:
            principal = await _admit(request, parts.gate)
        except DeniedError:
            parts.rates.take("denied", address)
            raise
        if scope not in principal.scopes:
            raise ForbiddenError(f"this needs a key with the scope {scope}")
        # Without keys there is one principal: then addresses are told apart.
        parts.rates.take(scope, principal.caller or address)
        return principal

    return admitted


async def _admit(request: Request, gate: Gate) -> Principal:
    secret, kind = bearer(request.headers.get("authorization")), KEY
    if secret is None:
        secret, kind = request.cookies.get(cookie_name(request)), SESSION
    if secret is None:
        return gate.admit(None)
    known = gate.remembered(secret, kind)
    return known if known is not None else await run_in_threadpool(gate.admit, secret, kind)


def cookie_name(request: Request) -> str:
    """Return the name of the cookie with the session.

    Browsers send a cookie to every port of a host, so the port is part of the name. With the
    prefix `__Host-`, which needs https, no other host of the domain can set it.
    """
    name = f"{COOKIE}_{wired(request).settings.port}"
    return f"__Host-{name}" if request.url.scheme == "https" else name


Reads = Annotated[Principal, Depends(needs("read"))]
Tunes = Annotated[Principal, Depends(needs("tune"))]
Admins = Annotated[Principal, Depends(needs("admin"))]
