"""The composition root of the service: builds every object once and connects them."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from ansorpy.errors import SpecError
from server.db.upgrade import open_database
from server.jobs.errors import BusyError, UnknownError
from server.jobs.service import Jobs
from server.routes import jobs
from server.schemas import Health, Mistake, Problem
from server.settings import Settings
from server.worker import Supervisor

MAX_MISTAKES = 20
MAX_DETAIL = 500


def create_app(settings: Settings) -> FastAPI:
    """Return the service; with `settings.embedded_worker` it runs its own worker process."""
    engine = open_database(settings.url)
    supervisor = Supervisor(settings, engine) if settings.embedded_worker else None

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncGenerator[None]:
        if supervisor is not None:
            supervisor.start()
        yield
        if supervisor is not None:
            supervisor.stop()
        engine.dispose()

    app = FastAPI(title="ansorpy", version=version("ansorpy"), lifespan=lifespan)
    app.state.max_body_bytes = settings.max_body_bytes
    app.state.jobs = Jobs(engine, settings.max_queued_jobs)
    app.include_router(jobs.router)

    @app.get("/healthz", operation_id="health", tags=["service"])
    def health() -> Health:
        """Say that the service answers, and how its worker is."""
        if supervisor is None:
            return Health(status="ok", worker="none", pid=None)
        return Health(status="ok", worker=supervisor.state, pid=supervisor.pid)

    _answer_problems(app)
    return app


def _answer_problems(app: FastAPI) -> None:
    """Map every expected error to problem details, once; no answer repeats what was sent."""

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    def _(_: Request, error: RequestValidationError | ValidationError) -> JSONResponse:
        return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, "", _mistakes(error.errors()))

    @app.exception_handler(SpecError)
    def _(_: Request, error: SpecError) -> JSONResponse:
        return _problem(HTTPStatus.UNPROCESSABLE_ENTITY, str(error))

    @app.exception_handler(UnknownError)
    def _(_: Request, error: UnknownError) -> JSONResponse:
        return _problem(HTTPStatus.NOT_FOUND, str(error))

    @app.exception_handler(BusyError)
    def _(_: Request, error: BusyError) -> JSONResponse:
        reply = _problem(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        reply.headers["Retry-After"] = str(error.retry_after_s)
        return reply

    @app.exception_handler(HTTPException)
    def _(_: Request, error: HTTPException) -> JSONResponse:
        return _problem(HTTPStatus(error.status_code), "")


def _problem(status: HTTPStatus, detail: str, errors: Sequence[Mistake] = ()) -> JSONResponse:
    body = Problem(
        title=status.phrase,
        status=status,
        detail=_ascii(detail)[:MAX_DETAIL],
        errors=list(errors),
    )
    return JSONResponse(body.model_dump(), status, media_type="application/problem+json")


def _mistakes(errors: Sequence[Any]) -> list[Mistake]:
    return [
        Mistake(place=".".join(_ascii(str(part))[:80] for part in error["loc"]), code=error["type"])
        for error in errors[:MAX_MISTAKES]
    ]


def _ascii(text: str) -> str:
    return text.encode("ascii", "backslashreplace").decode()
