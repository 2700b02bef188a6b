"""FastAPI dependencies of the routes: the objects of the service, and the principal."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, ParamSpec, TypeVar, cast

from fastapi import Depends, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from ansorpy.server.access.authentication import KEY, SESSION, Authenticator, Principal, bearer
from ansorpy.server.access.errors import ForbiddenError, UnauthenticatedError
from ansorpy.server.access.keys import Scope
from ansorpy.server.access.rate_limits import RateLimiter
from ansorpy.server.http.event_streams import EventStreams
from ansorpy.server.http.heavy_work import HeavyWork
from ansorpy.server.http.metrics import Metrics
from ansorpy.server.service.bundles import BundleService
from ansorpy.server.service.charts import ChartService
from ansorpy.server.service.dashboard import DashboardService
from ansorpy.server.service.explain import ExplainService
from ansorpy.server.service.info import ServiceInfo
from ansorpy.server.service.job_list import ListService
from ansorpy.server.service.jobs import JobService
from ansorpy.server.service.kernels import KernelService
from ansorpy.server.service.model_reader import ModelReader
from ansorpy.server.service.models import ModelService
from ansorpy.server.service.records import RecordService
from ansorpy.server.service.trials import TrialService
from ansorpy.server.service.uploads import Uploads
from ansorpy.server.settings import ServiceSettings

COOKIE = "ansorpy_session"
Parameters = ParamSpec("Parameters")
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Dependencies:
    """The objects of the service, constructed by `ansorpy.server.app`."""

    settings: ServiceSettings
    authenticator: Authenticator
    rates: RateLimiter
    metrics: Metrics
    streams: EventStreams
    jobs: JobService
    kernels: KernelService
    bundles: BundleService
    models: ModelService
    reader: ModelReader
    uploads: Uploads
    explain: ExplainService
    info: ServiceInfo
    records: RecordService
    charts: ChartService
    dashboard: DashboardService
    lists: ListService
    trials: TrialService
    heavy: HeavyWork  # requests that parse a workload, or replay or read many records
    derivations: HeavyWork  # a kind of its own, because one may take seconds


def dependencies(request: Request) -> Dependencies:
    """Return the objects of the application of a request."""
    found = request.app.state.dependencies
    assert isinstance(found, Dependencies)
    return found


async def _dependencies(request: Request) -> Dependencies:
    """Return them without a thread, which FastAPI takes for each function that is not async."""
    return dependencies(request)


Deps = Annotated[Dependencies, Depends(_dependencies)]
# For the OpenAPI document only; `_authenticate` reads the header and reports a wrong scheme.
Documented = Annotated[
    HTTPAuthorizationCredentials | None,
    Depends(HTTPBearer(auto_error=False, scheme_name="key", description="An API key.")),
]


def in_turn(
    kind: Callable[[Dependencies], HeavyWork],
) -> Callable[[Callable[Parameters, Reply]], Callable[Parameters, Awaitable[Reply]]]:
    """Return the decorator of endpoints that run in the threads of a kind of heavy work.

    Their parameters include `request` and `principal`.
    """

    def decorated(
        endpoint: Callable[Parameters, Reply],
    ) -> Callable[Parameters, Awaitable[Reply]]:
        @wraps(endpoint)
        async def turned(*args: Parameters.args, **given: Parameters.kwargs) -> Reply:
            request = cast(Request, given["request"])
            principal = cast(Principal, given["principal"])
            work = partial(endpoint, *args, **given)
            return await kind(dependencies(request)).run(request, principal.tenant_id, work)

        return turned

    return decorated


def require_scope(scope: Scope) -> Callable[..., Awaitable[Principal]]:
    """Return the dependency that requires a principal with `scope`, within its rate limit.

    It runs before the rest of the request is parsed.
    """

    async def authorized(request: Request, deps: Deps, _: Documented) -> Principal:
        address = request.client.host if request.client is not None else ""
        try:
            principal = await _authenticate(request, deps.authenticator)
        except UnauthenticatedError:
            deps.rates.hit("denied", address)
            raise
        if scope not in principal.scopes:
            raise ForbiddenError(
                f"cannot answer because of the scope of the key; expected {scope} or higher"
            )
        # Without keys there is one principal only, so that the rate is per address.
        deps.rates.hit(scope, principal.caller or address)
        return principal

    return authorized


async def _authenticate(request: Request, authenticator: Authenticator) -> Principal:
    secret, kind = bearer(request.headers.get("authorization")), KEY
    if secret is None:
        secret, kind = request.cookies.get(cookie_name(request)), SESSION
    if secret is None:
        return authenticator.authenticate(None)
    known = authenticator.cached(secret, kind)
    return (
        known
        if known is not None
        else await run_in_threadpool(authenticator.authenticate, secret, kind)
    )


def cookie_name(request: Request) -> str:
    """Return the name of the session cookie.

    The port is part of the name, because browsers send a cookie to every port of a host. The prefix
    `__Host-`, which needs https, prevents other hosts of the domain from setting it.
    """
    name = f"{COOKIE}_{dependencies(request).settings.port}"
    return f"__Host-{name}" if request.url.scheme == "https" else name


ReadAccess = Annotated[Principal, Depends(require_scope("read"))]
TuneAccess = Annotated[Principal, Depends(require_scope("tune"))]
AdminAccess = Annotated[Principal, Depends(require_scope("admin"))]
