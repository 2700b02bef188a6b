"""The dashboard: pages, forms, and downloads of chart data."""

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from itertools import islice
from shlex import quote
from typing import Annotated, Any, Final, Literal, get_args

from fastapi import APIRouter, Depends, Path, Query, Request
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import StringConstraints
from starlette.datastructures import QueryParams

from ansorpy.errors import SpecError
from ansorpy.server.access.authentication import Principal
from ansorpy.server.access.errors import ForbiddenError
from ansorpy.server.http.body import read_bounded
from ansorpy.server.jobs.listing import Order
from ansorpy.server.jobs.states import ENDED, WAITING, State
from ansorpy.server.routes.dependencies import (
    Dependencies,
    Deps,
    ReadAccess,
    TuneAccess,
    cookie_name,
    in_turn,
)
from ansorpy.server.routes.job_panels import (
    MODEL_TABS,
    PANELS,
    PanelRequest,
    Tab,
    calls_of,
    model_panel,
    task_of,
)
from ansorpy.server.routes.page_route import PageRoute, own_form
from ansorpy.server.schemas.base import NAME_PATTERN
from ansorpy.server.service.charts import COLUMNS, TRIAL_COLUMNS, Chart
from ansorpy.server.service.dashboard import JobView
from ansorpy.server.service.derivation_tree import rule_uses, tree_rows
from ansorpy.server.service.job_list import JobEntry
from ansorpy.server.service.jobs import StateChange
from ansorpy.server.service.simplify import passes
from ansorpy.server.service.trials import Show, Sort, TrialQuery
from ansorpy.server.web.templating import render

router = APIRouter(include_in_schema=False, route_class=PageRoute)

PAGE: Final = 20
NEWEST: Final = 10  # jobs of a part of the overview, and of a search
CHOICES: Final = 40  # jobs offered for a comparison
ID: Final = "^[0-9a-f]{32}$"
MEDIA_TYPES: Final = {"csv": "text/csv; charset=utf-8", "jsonl": "application/x-ndjson"}
ROWS: Final = 400  # rows of a derivation per page
SLOTS: Final = 400  # slots on the page of machines
MAX_FORM_BYTES: Final = 1 << 14
MOST_COMPARED: Final = 5
Change = StateChange | Literal["retry", "delete"]
CHANGES: Final[Mapping[str, tuple[Change, ...]]] = {
    "queued": ("pause", "cancel", "delete"),
    "running": ("pause", "cancel", "delete"),
    "paused": ("resume", "cancel", "delete"),
    **dict.fromkeys(ENDED, ("retry", "delete")),
}

JobId = Annotated[str, Path(pattern=ID)]
Chosen = Annotated[Sequence[Annotated[str, StringConstraints(pattern=ID)]], Query(alias="job")]
OtherId = Annotated[str | None, Query(pattern=f"{ID}|^$")]
Word = Annotated[str, Query(alias="q", max_length=100)]
Task = Annotated[str | None, Query(pattern=NAME_PATTERN)]


def page(
    request: Request, principal: Principal, template: str, section: str, **values: Any
) -> Response:
    """Return a page of a section of the navigation, from a template and its values."""
    tenant = principal.tenant if cookie_name(request) in request.cookies else None
    return HTMLResponse(
        render(template, tenant=tenant, scopes=principal.scopes, section=section, **values)
    )


@router.get("/", response_class=HTMLResponse)
def overview(request: Request, principal: ReadAccess, deps: Deps) -> Response:
    """Return the jobs that have not ended, the last results, and the machines."""
    lists, tenant_id = deps.lists, principal.tenant_id
    admin = "admin" in principal.scopes
    return page(
        request, principal, "overview.html", "overview",
        now=lists.jobs(tenant_id, states=WAITING, limit=NEWEST),
        ended=lists.jobs(tenant_id, states=ENDED, order="ended", limit=NEWEST),
        workers=deps.info.workers(tenant_id).workers if admin else [],
        slots=deps.info.machines(tenant_id).slots if admin else [],
        service_url=quote(str(request.base_url).rstrip("/")),
        keys=deps.authenticator.local is None,
    )  # fmt: skip


@router.get("/search", response_class=HTMLResponse)
def search(request: Request, principal: ReadAccess, deps: Deps, word: Word = "") -> Response:
    """Return the jobs, models and kernels whose names have a word, or whose ids begin so."""
    tenant_id, word = principal.tenant_id, word.strip()
    return page(
        request, principal, "search.html", "", q=word,
        page=deps.lists.jobs(tenant_id, word=word, limit=NEWEST),
        models=deps.models.page(tenant_id, None, NEWEST, word).models,
        kernels=deps.lists.kernels(tenant_id, word, None, NEWEST)[0],
    )  # fmt: skip


@router.get("/kernels", response_class=HTMLResponse)
def kernels(
    request: Request,
    principal: ReadAccess,
    deps: Deps,
    word: Word = "",
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> Response:
    """Return the delivered kernels, newest first."""
    found, after = deps.lists.kernels(principal.tenant_id, word, before, PAGE)
    return page(
        request, principal, "kernels.html", "kernels", kernels=found, q=word, before=before,
        next=after, now_s=deps.dashboard.now_s(),
    )  # fmt: skip


@router.get("/jobs", response_class=HTMLResponse)
def jobs(
    request: Request,
    principal: ReadAccess,
    deps: Deps,
    state: State | None = None,
    word: Word = "",
    order: Annotated[Order, Query(alias="sort")] = "newest",
    skip: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> Response:
    """Return the list of jobs."""
    found = deps.lists.jobs(
        principal.tenant_id, states=(state,) if state else (), word=word, order=order, skip=skip,
        limit=PAGE,
    )  # fmt: skip
    return page(
        request, principal, "jobs.html", "jobs", page=found, state=state, q=word, order=order,
        orders=get_args(Order), skip=skip, size=PAGE, most=MOST_COMPARED,
        keys=deps.authenticator.local is None, submit_url=quote(str(request.url_for("submit"))),
    )  # fmt: skip


@router.post("/jobs", dependencies=[Depends(own_form)])
async def change_jobs(request: Request, principal: TuneAccess, deps: Deps) -> RedirectResponse:
    """Delete the chosen jobs, or run them again; then redirect to the list."""
    body = await read_bounded(request, MAX_FORM_BYTES)
    fields = QueryParams(body.decode("utf-8", "replace"))  # forms are encoded like queries
    chosen = fields.getlist("job")
    how: Change = "delete" if fields.get("how") == "delete" else "retry"
    if "how" not in fields or not chosen:
        raise SpecError("cannot change jobs because none is chosen; expected a box with a tick")
    for job_id in chosen:
        await run_in_threadpool(_changed, deps, principal, job_id, how)
    return RedirectResponse("/jobs", HTTPStatus.SEE_OTHER)


def _changed(deps: Deps, principal: Principal, job_id: str, how: Change) -> str:
    """Change a job and return the path of the page to be shown then."""
    tenant_id = principal.tenant_id
    if how == "delete":
        deps.jobs.delete(tenant_id, job_id)
        return "/jobs"
    if how == "retry":
        return f"/jobs/{deps.jobs.retry(tenant_id, job_id).id}"
    deps.jobs.set_state(tenant_id, job_id, how)
    return f"/jobs/{job_id}"


@router.get("/jobs/{job_id}", response_class=HTMLResponse)
@in_turn(lambda deps: deps.heavy)
def job(
    request: Request,
    job_id: JobId,
    principal: ReadAccess,
    deps: Deps,
    task: Task = None,
    tab: Tab = "overview",
    show: Show = "all",
    variant: Annotated[int | None, Query(ge=1, le=2**53)] = None,
    sort: Sort = "trial",
    descending: Annotated[Literal["1"] | None, Query(alias="desc")] = None,
) -> Response:
    """Return a part of the page of a job, which its script keeps up to date."""
    look = deps.dashboard.look(principal.tenant_id, job_id)
    query = TrialQuery(show, variant, sort, descending is not None)
    return _job_page(request, principal, deps, look, task, tab, query)


@router.get("/jobs/{job_id}/why", response_class=HTMLResponse)
@in_turn(lambda deps: deps.derivations)
def why(
    request: Request, job_id: JobId, principal: ReadAccess, deps: Deps, task: Task = None
) -> Response:
    """Return the reasons for the winner of a task, and the failures of the job."""
    look = deps.dashboard.look(principal.tenant_id, job_id)
    return _job_page(request, principal, deps, look, task, "why", TrialQuery())


def _job_page(
    request: Request, principal: Principal, deps: Dependencies, look: JobView, task: str | None,
    tab: Tab | Literal["why"], query: TrialQuery,
) -> Response:  # fmt: skip
    model = look.job.model
    common: dict[str, Any] = {"steps": CHANGES[look.job.state], "tab": tab, "look": look}
    common["job"] = look.job
    if model is not None:
        common |= {"calls": calls_of(model), "panels": MODEL_TABS}
        if tab != "trials":
            panel = model_panel(look)
            return page(
                request, principal, "model_job.html", "jobs", **common, panel=panel, chosen=None
            )
    asked = PanelRequest(deps, principal.tenant_id, look, task_of(look.job, task), query)
    common |= {"chosen": asked.chosen, "panel": PANELS[tab](asked)}
    if model is not None:
        return page(request, principal, "model_job.html", "jobs", **common)
    return page(
        request, principal, "job.html", "jobs", **common, panels=tuple(PANELS),
        snippet=asked.snippet,
    )  # fmt: skip


@router.post("/jobs/{job_id}/{how}", dependencies=[Depends(own_form)])
def change_job(job_id: JobId, how: Change, principal: TuneAccess, deps: Deps) -> RedirectResponse:
    """Cancel, pause, resume, delete a job or run it again, then redirect to a page of jobs."""
    return RedirectResponse(_changed(deps, principal, job_id, how), HTTPStatus.SEE_OTHER)


@router.get("/jobs/{job_id}/explain", response_class=HTMLResponse)
@in_turn(lambda deps: deps.derivations)
def explain(
    request: Request,
    job_id: JobId,
    principal: ReadAccess,
    deps: Deps,
    task: Task = None,
    after: Annotated[int, Query(ge=0, le=2**53)] = 0,
) -> Response:
    """Return the derivation of a task, and the failures of the job."""
    look = deps.explain.look(principal.tenant_id, job_id, task)
    known = look.derivation
    found = list(islice(tree_rows(known), after, after + ROWS + 1)) if known else []
    winner = deps.dashboard.winner(principal.tenant_id, job_id, look.task)
    return page(
        request, principal, "explain.html", "jobs", look=look, rows=found[:ROWS], winner=winner,
        uses=rule_uses(known.visits) if known else [], after=after,
        next=after + ROWS if len(found) > ROWS else None,
    )  # fmt: skip


@router.get("/jobs/{job_id}/charts/trials.{form}")
@in_turn(lambda deps: deps.heavy)
def trials(
    request: Request,
    job_id: JobId,
    form: Literal["csv", "jsonl"],
    principal: ReadAccess,
    deps: Deps,
    task: Task = None,
) -> Response:
    """Return the trials of a task, of all tasks unless given."""
    job = deps.dashboard.look(principal.tenant_id, job_id).job
    tasks = job.tasks if task is None else [task_of(job, task)]
    rows = deps.charts.trials(principal.tenant_id, job_id, tasks)
    return table(rows, TRIAL_COLUMNS, form, f"trials-{job_id[:8]}")


@router.get("/jobs/{job_id}/charts/{chart}.{form}")
@in_turn(lambda deps: deps.heavy)
def chart(
    request: Request,
    job_id: JobId,
    chart: Chart,
    form: Literal["csv", "jsonl"],
    principal: ReadAccess,
    deps: Deps,
) -> Response:
    """Return the data of a chart."""
    rows = deps.charts.rows(principal.tenant_id, job_id, chart)
    return table(rows, COLUMNS[chart], form, f"{chart}-{job_id[:8]}")


@router.get("/compare", response_class=HTMLResponse)
@in_turn(lambda deps: deps.heavy)
def compare(
    request: Request,
    principal: ReadAccess,
    deps: Deps,
    chosen: Chosen = (),
    a: OtherId = None,
    b: OtherId = None,
) -> Response:
    """Return jobs of one workload side by side, and the other jobs that fit to them."""
    tenant_id = principal.tenant_id
    entries = deps.lists.entries(tenant_id, _distinct(chosen, a, b))
    if len(entries) > MOST_COMPARED or len({one.same for one in entries}) > 1:
        raise SpecError(
            "cannot compare these jobs because their workloads differ, or they are too many;"
            f" expected at most {MOST_COMPARED} jobs of one workload"
        )
    groups: dict[str, list[JobEntry]] = {}
    for one in deps.lists.jobs(tenant_id, limit=CHOICES).entries:
        groups.setdefault(one.same, []).append(one)
    looks = [deps.dashboard.look(tenant_id, one.job.id) for one in entries]
    return page(
        request, principal, "compare.html", "compare", entries=entries, looks=looks,
        groups=[group for group in groups.values() if len(group) > 1], most=MOST_COMPARED,
        others=[one for group in groups.values() for one in group
                if entries and one.same == entries[0].same and one not in entries],
        sketches=[deps.dashboard.sketch(tenant_id, look.job) for look in looks],
    )  # fmt: skip


def _distinct(chosen: Sequence[str], *more: str | None) -> list[str]:
    return list(dict.fromkeys(filter(None, (*chosen, *more))))


@router.get("/compare/latency.{form}")
@in_turn(lambda deps: deps.heavy)
def compared(
    request: Request,
    principal: ReadAccess,
    deps: Deps,
    form: Literal["csv", "jsonl"],
    chosen: Chosen = (),
    a: OtherId = None,
    b: OtherId = None,
) -> Response:
    """Return the latencies of jobs in one table."""
    ids = _distinct(chosen, a, b)[:MOST_COMPARED]
    rows = [
        {"job": job_id, **row}
        for job_id in ids
        for row in deps.charts.rows(principal.tenant_id, job_id, "latency")
    ]
    name = "-".join(["latency", *(job_id[:8] for job_id in ids)])
    return table(rows, ("job", *COLUMNS["latency"]), form, name)


@router.get("/models", response_class=HTMLResponse)
def models(
    request: Request,
    principal: ReadAccess,
    deps: Deps,
    before: Annotated[int | None, Query(ge=0, le=2**53)] = None,
) -> Response:
    """Return the list of models with their jobs, newest first, and the graph passes."""
    found = deps.models.page(principal.tenant_id, before, PAGE)
    return page(
        request, principal, "models.html", "models", page=found, before=before,
        jobs=deps.dashboard.jobs_of(principal.tenant_id, found), now_s=deps.dashboard.now_s(),
        passes=passes().passes, keys=deps.authenticator.local is None,
        service_url=quote(str(request.base_url).rstrip("/")),
    )  # fmt: skip


@router.get("/workers")
def workers() -> RedirectResponse:
    """Redirect to the page of machines, which earlier versions called so."""
    return RedirectResponse("/machines")


@router.get("/machines", response_class=HTMLResponse)
def machines(request: Request, principal: ReadAccess, deps: Deps) -> Response:
    """Return the living workers, and the slots of clusters."""
    if "admin" not in principal.scopes:
        raise ForbiddenError(
            "cannot show the machines because of the scope of the key; expected admin"
        )
    return page(
        request, principal, "machines.html", "machines", now_s=deps.dashboard.now_s(),
        workers=deps.info.workers(principal.tenant_id).workers, most=SLOTS,
        machines=deps.info.machines(principal.tenant_id),
    )  # fmt: skip


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
