"""The dashboard: pages for people, and the numbers of every chart for programs."""

import csv
import io
import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from itertools import islice
from shlex import quote
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response

from ansorpy.server.access.errors import ForbiddenError
from ansorpy.server.access.principal import Principal
from ansorpy.server.jobs.errors import UnknownError
from ansorpy.server.jobs.states import ENDED, MOVES, State
from ansorpy.server.routes.page_route import PageRoute, own_form
from ansorpy.server.routes.wired import Reads, Tunes, WiredDep, cookie_name
from ansorpy.server.schemas.base import NAME_PATTERN
from ansorpy.server.service.charts import COLUMNS, Chart
from ansorpy.server.service.jobs import Steer
from ansorpy.server.service.tree import rows, uses
from ansorpy.server.web.pages import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PAGE: Final = 20
CHOICES: Final = 40  # jobs that a comparison offers
ID: Final = "^[0-9a-f]{32}$"
MEDIA_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
SOURCE: Final = "kernel.py"
ROWS: Final = 400  # of a derivation on one page
STEERS: Final[Mapping[str, tuple[Steer, ...]]] = {
    "queued": ("pause", "cancel"),
    "running": ("pause", "cancel"),
    "paused": ("resume", "cancel"),
    **dict.fromkeys(ENDED, ()),
}

JobId = Annotated[str, Path(pattern=ID)]
OtherId = Annotated[str | None, Query(pattern=f"{ID}|^$")]
Task = Annotated[str | None, Query(pattern=NAME_PATTERN)]


def _page(request: Request, who: Principal, template: str, here: str, **values: Any) -> Response:
    name = who.tenant if cookie_name(request) in request.cookies else None
    return HTMLResponse(render(template, who=name, may=who.scopes, here=here, **values))


@router.get("/")
def home() -> RedirectResponse:
    """Lead to the jobs."""
    return RedirectResponse("/jobs")


@router.get("/jobs", response_class=HTMLResponse)
def jobs(
    request: Request,
    who: Reads,
    parts: WiredDep,
    state: State | None = None,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> Response:
    """Return the list of jobs, newest first."""
    page = parts.jobs.page(who.tenant_id, state, before, PAGE)
    return _page(
        request, who, "jobs.html", "jobs", page=page, states=tuple(MOVES), state=state,
        before=before, now_s=parts.dashboard.now_s(), keys=parts.gate.local is None,
        submit_url=quote(str(request.url_for("submit"))),
    )  # fmt: skip


@router.get("/jobs/{job_id}", response_class=HTMLResponse)
def job(
    request: Request, job_id: JobId, who: Reads, parts: WiredDep, task: Task = None
) -> Response:
    """Return the page of a job; its script goes on from there."""
    look = parts.dashboard.look(who.tenant_id, job_id)
    chosen = look.job.tasks[0] if task is None else _task_of(look.job, task)
    winner = parts.dashboard.winner(who.tenant_id, job_id, chosen.name)
    source = ""
    if chosen.kernel is not None:
        source = parts.kernels.file(who.tenant_id, chosen.kernel, SOURCE).decode()
    return _page(
        request, who, "job.html", "jobs", job=look.job, look=look, chosen=chosen, winner=winner,
        source=source, steps=STEERS[look.job.state],
    )  # fmt: skip


@router.post("/jobs/{job_id}/{how}", dependencies=[Depends(own_form)])
def steer(job_id: JobId, how: Steer, who: Tunes, parts: WiredDep) -> RedirectResponse:
    """Cancel, pause or resume a job; lead back to its page."""
    parts.jobs.steer(who.tenant_id, job_id, how)
    return RedirectResponse(f"/jobs/{job_id}", HTTPStatus.SEE_OTHER)


@router.get("/jobs/{job_id}/explain", response_class=HTMLResponse)
def explain(
    request: Request,
    job_id: JobId,
    who: Reads,
    parts: WiredDep,
    task: Task = None,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> Response:
    """Return why the sketches of a task are what they are, and what failed and why."""
    look = parts.explain.look(who.tenant_id, job_id, task)
    known = look.derivation
    found = list(islice(rows(known), after, after + ROWS + 1)) if known else []
    winner = parts.dashboard.winner(who.tenant_id, job_id, look.task)
    return _page(
        request, who, "explain.html", "jobs", look=look, rows=found[:ROWS], winner=winner,
        uses=uses(known.visits) if known else [], after=after,
        next=after + ROWS if len(found) > ROWS else None,
    )  # fmt: skip


def _task_of(job: Any, name: str) -> Any:
    for task in job.tasks:
        if task.name == name:
            return task
    raise UnknownError("the job has no such task")


@router.get("/jobs/{job_id}/charts/{chart}.{form}")
def chart(
    job_id: JobId,
    chart: Chart,
    form: Literal["csv", "jsonl"],
    who: Reads,
    parts: WiredDep,
) -> Response:
    """Return the numbers of a chart."""
    rows = parts.charts.rows(who.tenant_id, job_id, chart)
    return table(rows, COLUMNS[chart], form, f"{chart}-{job_id[:8]}")


@router.get("/compare", response_class=HTMLResponse)
def compare(
    request: Request, who: Reads, parts: WiredDep, a: OtherId = None, b: OtherId = None
) -> Response:
    """Return two jobs side by side."""
    choices = parts.jobs.page(who.tenant_id, None, None, CHOICES).jobs
    looks = [parts.dashboard.look(who.tenant_id, job_id) for job_id in (a, b) if job_id]
    return _page(request, who, "compare.html", "compare", choices=choices, looks=looks, a=a, b=b)


@router.get("/compare/latency.{form}")
def compared(
    who: Reads,
    parts: WiredDep,
    form: Literal["csv", "jsonl"],
    a: Annotated[str, Query(pattern=ID)],
    b: Annotated[str, Query(pattern=ID)],
) -> Response:
    """Return the latencies of two jobs in one table."""
    rows = [
        {"job": job_id, **row}
        for job_id in (a, b)
        for row in parts.charts.rows(who.tenant_id, job_id, "latency")
    ]
    return table(rows, ("job", *COLUMNS["latency"]), form, f"latency-{a[:8]}-{b[:8]}")


@router.get("/workers", response_class=HTMLResponse)
def workers(request: Request, who: Reads, parts: WiredDep) -> Response:
    """Return the living workers."""
    if "admin" not in who.scopes:
        raise ForbiddenError("the workers are shown to keys with the scope admin")
    found = parts.about.workers(who.tenant_id).workers
    now_s = parts.dashboard.now_s()
    return _page(request, who, "workers.html", "workers", workers=found, now_s=now_s)


def table(
    rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...], form: str, name: str
) -> Response:
    """Return rows as CSV or as JSONL, for download."""
    out = io.StringIO()
    if form == "csv":
        writer = csv.DictWriter(out, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    else:
        out.writelines(json.dumps(row, allow_nan=False) + "\n" for row in rows)
    headers = {"Content-Disposition": f'attachment; filename="{name}.{form}"'}
    return Response(out.getvalue(), HTTPStatus.OK, headers, MEDIA_TYPES[form])
