"""The page of a new job: a form, checked while it is filled, that needs no script."""

import json
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from starlette.datastructures import QueryParams

from ansorpy.errors import AnsorError
from ansorpy.frontends.tc.text import symbols
from ansorpy.server.access.authentication import Principal
from ansorpy.server.http.body import read_bounded
from ansorpy.server.http.json_body import parse
from ansorpy.server.http.validation import InvalidBodyError
from ansorpy.server.routes.dependencies import Deps, TuneAccess
from ansorpy.server.routes.page_route import PageRoute, own_form
from ansorpy.server.routes.pages import page
from ansorpy.server.schemas.job import JobRequest
from ansorpy.server.schemas.model import ModelSummary
from ansorpy.server.service.serializers import Asked

router = APIRouter(include_in_schema=False, route_class=PageRoute)

MOST_SIZES: Final = 64  # sizes of a request
MODELS: Final = 40  # stored models that the form offers
ALL_TRIALS: Final = 100_000  # the limit of a job whose budget is a time
SIZE: Final = "size."  # fields of sizes begin so
EXAMPLE: Final = """def mm(float(M,K) A, float(K,N) B) -> (C) {
  C(i,j) +=! A(i,k) * B(k,j)
}"""
DEFAULTS: Final = {
    "by": "text", "text": EXAMPLE, "size.M": "256", "size.K": "256", "size.N": "256",
    "limit": "trials", "amount": "64", "race": "on", "json": "", "model": "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class FormCheck:
    """The result of a check: open sizes, and the facts of the request or the reason against it."""

    sizes: tuple[str, ...] = ()
    facts: Asked | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class JobForm:
    """The fields of the form; a missing one is ""."""

    fields: dict[str, str] = field(default_factory=lambda: dict(DEFAULTS))

    def __getitem__(self, name: str) -> str:
        return self.fields.get(name, "")

    def request(self, sizes: tuple[str, ...]) -> JobRequest:
        """Return the request of a job.

        Raises:
            InvalidBodyError: a field has a wrong value.
        """
        by = self["by"]
        if by == "json":
            return parse(JobRequest, self["json"].encode())
        bind = {name: _number(self[SIZE + name]) for name in sizes if self[SIZE + name].strip()}
        budget = {"trials": _number(self["amount"])}
        if self["limit"] == "seconds":
            budget = {"seconds": budget["trials"], "trials": ALL_TRIALS}
        told: dict[str, Any] = {
            "bind": bind, "budget": budget, "cores": _number(self["threads"]),
            "race": self["race"] == "on",
        }  # fmt: skip
        told |= {"model": self["model"]} if by == "model" else {"text": self["text"]}
        return parse(JobRequest, json.dumps(told).encode())


def _number(text: str) -> int | float | str:
    """Return a number; a range of sizes, or a mistake, stays a text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip()


@router.get("/jobs/new", response_class=HTMLResponse)
def new_job(
    request: Request, principal: TuneAccess, deps: Deps, model: str = "", by: str = ""
) -> Response:
    """Return the form."""
    told = {**DEFAULTS, "threads": str(_cores(deps, principal))}
    if model or by == "model":
        told |= {"by": "model", "model": model}
    return _form(request, principal, deps, JobForm(told))


@router.post("/jobs/new", dependencies=[Depends(own_form)])
async def submit_form(request: Request, principal: TuneAccess, deps: Deps) -> Response:
    """Queue the job and redirect to its page; after a mistake, show the form."""
    body = await read_bounded(request, deps.settings.max_body_bytes)
    form = JobForm(dict(QueryParams(body.decode("utf-8", "replace")).items()))
    work = partial(_submitted, request, principal, deps, form)
    return await deps.heavy.run(request, principal.tenant_id, work)


def _submitted(request: Request, principal: Principal, deps: Deps, form: JobForm) -> Response:
    if form["check"]:
        return _form(request, principal, deps, form)
    try:
        wanted = form.request(_sizes(deps, principal, form))
        job = deps.jobs.submit(principal.tenant_id, wanted, None)
    except AnsorError:
        return _form(request, principal, deps, form, HTTPStatus.UNPROCESSABLE_ENTITY)
    return RedirectResponse(f"/jobs/{job.id}", HTTPStatus.SEE_OTHER)


def _form(
    request: Request,
    principal: Principal,
    deps: Deps,
    form: JobForm,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    models = deps.models.page(principal.tenant_id, None, MODELS).models
    shown = page(
        request, principal, "new_job.html", "new", form=form, models=_with(models, form["model"]),
        checked=_check(deps, principal, form), size=SIZE,
    )  # fmt: skip
    shown.status_code = status
    return shown


def _with(models: list[ModelSummary], chosen: str) -> list[tuple[str, str]]:
    """Return digests and names of models, with the chosen one."""
    told = {one.sha256: one.name or one.sha256[:12] for one in models}
    return list(({chosen: chosen[:12]} | told if chosen else told).items())


def _check(deps: Deps, principal: Principal, form: JobForm) -> FormCheck:
    sizes: tuple[str, ...] = ()
    if (form["by"] == "model" and not form["model"]) or (form["by"] == "json" and not form["json"]):
        return FormCheck()
    try:
        sizes = _sizes(deps, principal, form)
        return FormCheck(sizes, deps.jobs.check(principal.tenant_id, form.request(sizes)))
    except InvalidBodyError as error:
        return FormCheck(
            sizes, reason="; ".join(f"{m.place}: expected {m.expected}" for m in error.mistakes)
        )
    except AnsorError as error:
        return FormCheck(sizes, reason=str(error))


def _sizes(deps: Deps, principal: Principal, form: JobForm) -> tuple[str, ...]:
    """Return the sizes that a text or a model leaves open.

    Raises:
        SpecError: the text is no definition.
        NotFoundError: the tenant has no such model.
    """
    if form["by"] == "text":
        return symbols(form["text"])[:MOST_SIZES]
    if form["by"] == "model":
        facts = deps.models.read(principal.tenant_id, form["model"])
        extents = (extent for one in facts.inputs for extent in one.shape)
        return tuple(dict.fromkeys(one for one in extents if isinstance(one, str)))
    return ()


def _cores(deps: Deps, principal: Principal) -> int:
    """Return the cores of the largest living worker, 1 without one."""
    workers = deps.info.workers(principal.tenant_id).workers
    return max((int(one.facts.get("target", {}).get("cores", 1)) for one in workers), default=1)
