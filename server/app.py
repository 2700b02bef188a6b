"""The composition root of the service: builds every object once and connects them."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from fastapi.staticfiles import StaticFiles
from sqlalchemy import Engine

from ansorpy.errors import AnsorError
from ansorpy.server.access.principal import Gate, Principal
from ansorpy.server.access.quota import Quota
from ansorpy.server.access.rates import Rates
from ansorpy.server.access.start import keys_needed
from ansorpy.server.db.upgrade import LOCAL, local_tenant, open_database
from ansorpy.server.edge.feed import Feed
from ansorpy.server.edge.metrics import Metrics
from ansorpy.server.edge.openapi import describe
from ansorpy.server.edge.outside import Outside
from ansorpy.server.edge.problems import install
from ansorpy.server.edge.streams import Streams
from ansorpy.server.routes import about, docs, kernels, login, pages, records
from ansorpy.server.routes import jobs as job_routes
from ansorpy.server.routes.wired import Wired
from ansorpy.server.service.about import About
from ansorpy.server.service.charts import Charts
from ansorpy.server.service.dashboard import Dashboard
from ansorpy.server.service.explain import Explain
from ansorpy.server.service.jobs import Jobs
from ansorpy.server.service.kernels import Kernels
from ansorpy.server.service.limits import RequestLimits
from ansorpy.server.service.records import Records
from ansorpy.server.settings import Settings
from ansorpy.server.web.pages import STATIC
from ansorpy.server.worker import Supervisor


def create_app(settings: Settings) -> FastAPI:
    """Return the service; with `settings.embedded_worker` it runs its own worker process.

    Raises:
        SpecError: others could reach it and there is no key, or a setting is wrong.
    """
    engine = open_database(settings.url)
    try:
        parts = wire(settings, engine)
    except AnsorError:
        engine.dispose()
        raise
    supervisor = Supervisor(settings, engine) if settings.embedded_worker else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        if supervisor is not None:
            supervisor.start()
        yield
        await parts.streams.feed.close()
        if supervisor is not None:
            supervisor.stop()
        engine.dispose()

    app = FastAPI(
        title="ansorpy", version=version("ansorpy"), lifespan=lifespan, docs_url=None,
        redoc_url=None, redirect_slashes=False,
    )  # fmt: skip
    app.state.wired = parts
    app.add_middleware(Outside, metrics=parts.metrics, local_only=parts.gate.local is not None)
    app.mount("/static", StaticFiles(directory=STATIC), name="static")
    for part in (job_routes, kernels, records, about, docs, login, pages):
        app.include_router(part.router)
    install(app)
    describe(app)
    return app


def wire(settings: Settings, engine: Engine) -> Wired:
    """Return every object that a request may need."""
    tenant_id = local_tenant(engine)
    everything = frozenset(("read", "tune", "admin"))
    anybody = Principal(tenant_id, LOCAL, everything, caller="")
    queries = About(engine)
    metrics = Metrics.of(queries.facts)
    limits = RequestLimits(parts=settings.max_parts, tensor_bytes=settings.max_tensor_bytes)
    quota = Quota(
        settings.max_queued_jobs, settings.max_trials_per_day, settings.max_seconds_per_day
    )
    gate = Gate(engine, None if keys_needed(settings, engine) else anybody)
    jobs = Jobs(engine, limits, quota)
    return Wired(
        settings=settings,
        gate=gate,
        rates=Rates(
            {
                "read": settings.read_rate,
                "tune": settings.tune_rate,
                "admin": settings.admin_rate,
                "denied": settings.denied_rate,
            },
            settings.rate_storage,
        ),
        metrics=metrics,
        streams=Streams(
            Feed(jobs.news, gate.valid_keys, settings.event_poll_s), settings.event_stream_s,
            settings.max_event_streams, settings.max_event_streams_in_all, metrics.streams,
        ),
        jobs=jobs,
        kernels=Kernels(engine),
        explain=Explain(engine),
        about=queries,
        records=Records(engine),
        charts=Charts(engine),
        dashboard=Dashboard(engine),
    )  # fmt: skip
