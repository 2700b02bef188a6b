"""Composition root of the service: construct every object once and connect them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version
from threading import BoundedSemaphore
from typing import Final

from anyio import CapacityLimiter
from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from sqlalchemy import Engine

from ansorpy.errors import AnsorError
from ansorpy.importers.child import ReadLimits
from ansorpy.server.access.authentication import Authenticator, Principal
from ansorpy.server.access.quota import Quota
from ansorpy.server.access.rate_limits import RateLimiter
from ansorpy.server.access.startup import requires_keys
from ansorpy.server.db.upgrade import LOCAL, local_tenant, open_database
from ansorpy.server.http.event_poller import EventPoller
from ansorpy.server.http.event_streams import EventStreams
from ansorpy.server.http.heavy_work import HeavyWork
from ansorpy.server.http.metrics import Metrics
from ansorpy.server.http.middleware import RequestMiddleware
from ansorpy.server.http.openapi import install_openapi
from ansorpy.server.http.problems import install_error_handlers
from ansorpy.server.jobs.models import ModelQuota
from ansorpy.server.routes import (
    bundles,
    docs,
    info,
    kernels,
    login,
    models,
    new_job,
    pages,
    records,
    simplify,
)
from ansorpy.server.routes import jobs as job_routes
from ansorpy.server.routes.dependencies import Dependencies
from ansorpy.server.service.bundles import BundleService
from ansorpy.server.service.charts import ChartService
from ansorpy.server.service.dashboard import DashboardService
from ansorpy.server.service.explain import ExplainService
from ansorpy.server.service.info import ServiceInfo
from ansorpy.server.service.job_list import ListService
from ansorpy.server.service.jobs import JobService
from ansorpy.server.service.kernels import KernelService
from ansorpy.server.service.limits import RequestLimits
from ansorpy.server.service.model_reader import ModelReader
from ansorpy.server.service.models import ModelService
from ansorpy.server.service.records import RecordService
from ansorpy.server.service.slots import Slots
from ansorpy.server.service.trials import TrialService
from ansorpy.server.service.uploads import Uploads
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.web.templating import STATIC
from ansorpy.server.worker import Supervisor

HEAVY: Final = 2  # threads: while one waits for the database, the other computes


def create_app(settings: ServiceSettings) -> FastAPI:
    """Return the application; with `settings.embedded_worker` it supervises a worker process.

    Raises:
        SpecError: a setting is invalid, or the service needs an API key and has none.
    """
    engine = open_database(settings.url)
    try:
        deps = build_dependencies(settings, engine)
    except AnsorError:
        engine.dispose()
        raise
    supervisor = Supervisor(settings, engine) if settings.embedded_worker else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        if supervisor is not None:
            supervisor.start()
        yield
        await deps.streams.poller.close()
        deps.uploads.close()
        if supervisor is not None:
            supervisor.stop()
        engine.dispose()

    app = FastAPI(
        title="ansorpy", version=version("ansorpy"), lifespan=lifespan, docs_url=None,
        redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    app.state.dependencies = deps
    app.add_middleware(
        RequestMiddleware, metrics=deps.metrics, local_only=deps.authenticator.local is not None
    )
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for part in (
        job_routes, models, simplify, kernels, bundles, records, info, docs, login, new_job, pages,
    ):  # fmt: skip
        # The routes as they are: `include_router` would build each of them a second time.
        app.router.routes.extend(part.router.routes)
    install_error_handlers(app)
    install_openapi(app)
    return app


def build_dependencies(settings: ServiceSettings, engine: Engine) -> Dependencies:
    """Construct the objects that the routes depend on."""
    tenant_id = local_tenant(engine)
    everything = frozenset(("read", "tune", "admin"))
    local_principal = Principal(tenant_id, LOCAL, everything, caller="")
    queries = ServiceInfo(engine, settings.rules_dir, settings.data_dir)
    metrics = Metrics.of(queries.facts)
    limits = RequestLimits(
        parts=settings.max_parts,
        tensor_bytes=settings.max_tensor_bytes,
        model_bytes=settings.max_model_bytes,
    )
    quota = Quota(
        settings.max_queued_jobs, settings.max_trials_per_day, settings.max_seconds_per_day
    )
    authenticator = Authenticator(
        engine, None if requires_keys(settings, engine) else local_principal
    )
    jobs = JobService(engine, limits, quota, settings.rules_dir)
    return Dependencies(
        settings=settings,
        authenticator=authenticator,
        rates=RateLimiter(
            {
                "read": settings.read_rate,
                "tune": settings.tune_rate,
                "admin": settings.admin_rate,
                "denied": settings.denied_rate,
            },
            settings.rate_storage,
        ),
        metrics=metrics,
        streams=EventStreams(
            EventPoller(jobs.new_events, authenticator.valid_keys, settings.event_poll_s),
            settings.event_stream_s,
            Slots(
                "open an event stream", settings.max_event_streams,
                settings.max_event_streams_in_all,
            ),
            metrics.streams,
        ),
        jobs=jobs,
        kernels=KernelService(engine),
        bundles=BundleService(engine),
        models=ModelService(engine, ModelQuota(settings.max_models, settings.max_models_bytes)),
        reader=ModelReader(
            settings.sandbox,
            ReadLimits(settings.model_memory_bytes, settings.model_cpu_s, settings.max_model_bytes),
            Slots("simplify a model", 1, settings.max_model_readers),
            BoundedSemaphore(settings.max_model_readers),
        ),
        uploads=Uploads(
            settings.data_dir,
            Slots("take a file", settings.max_uploads, settings.max_uploads_in_all),
        ),
        explain=ExplainService(engine, settings.rules_dir),
        info=queries,
        records=RecordService(engine),
        charts=ChartService(engine),
        dashboard=DashboardService(engine),
        lists=ListService(engine),
        trials=TrialService(engine),
        heavy=HeavyWork(CapacityLimiter(HEAVY)),
        derivations=HeavyWork(CapacityLimiter(1)),
    )  # fmt: skip
