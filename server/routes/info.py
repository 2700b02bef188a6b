"""Routes for information about the service: targets, rules, workers, metrics, health."""

from typing import Any

from fastapi import APIRouter, Response

from ansorpy.server.routes.dependencies import AdminAccess, Deps, ReadAccess
from ansorpy.server.schemas.problem import problems
from ansorpy.server.schemas.service import (
    Capabilities,
    Health,
    Machines,
    Plugins,
    Ready,
    RuleSets,
    Targets,
    Workers,
)
from ansorpy.server.service.plugins import plugin_list

router = APIRouter(tags=["service"])

PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
METRICS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The text exposition format.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    },
    **problems(),
}


@router.get("/v1/targets", operation_id="listTargets", responses=problems())
def targets(_: ReadAccess, deps: Deps) -> Targets:
    """Return the targets of the living workers."""
    return deps.info.targets()


@router.get("/v1/capabilities", operation_id="listCapabilities", responses=problems())
def capabilities(_: ReadAccess, deps: Deps) -> Capabilities:
    """Return the instructions on products that kernels have and lack, by target."""
    return deps.info.capabilities()


@router.get("/v1/rules", operation_id="listRules", responses=problems())
def rules(_: ReadAccess, deps: Deps) -> RuleSets:
    """Return the derivation rules in their order, with documentation."""
    return deps.info.rules()


@router.get("/v1/plugins", operation_id="listPlugins", responses=problems())
def plugins(_: ReadAccess) -> Plugins:
    """Return the cost models, search strategies and rule sets that a job may choose by name."""
    return plugin_list()


@router.get("/v1/workers", operation_id="listWorkers", responses=problems())
def workers(principal: AdminAccess, deps: Deps) -> Workers:
    """Return the living workers."""
    return deps.info.workers(principal.tenant_id)


@router.get("/v1/machines", operation_id="listMachines", responses=problems())
def machines(principal: AdminAccess, deps: Deps) -> Machines:
    """Return the slots of clusters with their utilisation, and their rate of trials."""
    return deps.info.machines(principal.tenant_id)


@router.get("/metrics", operation_id="metrics", response_class=Response, responses=METRICS)
def metrics(_: AdminAccess, deps: Deps) -> Response:
    """Return the metrics for Prometheus."""
    return Response(deps.metrics.text(), media_type=PROMETHEUS)


@router.get("/healthz", operation_id="health")
async def health(deps: Deps) -> Health:
    """Return ok while the process answers, and whether the disk has room."""
    return Health(disk=deps.info.disk())


@router.get("/readyz", operation_id="ready", responses=problems(503, everywhere=False))
def ready(deps: Deps) -> Ready:
    """Return ok if the database answers, and the number of living workers."""
    return deps.info.ready()
