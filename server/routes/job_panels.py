"""The parts of the page of a job: each gathers the values of its template."""

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Literal

from ansorpy.plot.sized import VARIANT
from ansorpy.server.jobs.errors import NotFoundError
from ansorpy.server.routes.dependencies import Dependencies
from ansorpy.server.schemas.job import JobReply, ModelProgress, TaskReply
from ansorpy.server.service.dashboard import JobView, Winner
from ansorpy.server.service.derivation_tree import path_to
from ansorpy.server.service.explain import NO_TASK, contrast_of, differences
from ansorpy.server.service.trials import TaskTrials, TrialQuery
from ansorpy.server.web.model_graph import memory_parts, model_graph
from ansorpy.server.web.parallel_picture import parallel_picture
from ansorpy.server.web.rivals import bundle_bars, rival_bars, rival_lines
from ansorpy.server.web.roofline_picture import roofline_picture
from ansorpy.server.web.snippets import bundle_calls, c_call_of, call_of, kernel_body

Tab = Literal["overview", "trials", "code", "request"]  # and "why", which has a path of its own
MANIFEST: Final = "manifest.json"
SOURCE: Final = "kernel.py"
HEADER: Final = "kernel.h"
PTX: Final = "kernel.ptx"
ROWS: Final = 100  # trials of the table; the download has all
SIZES: Final = 14  # columns of sizes


@dataclass(frozen=True, slots=True)
class PanelRequest:
    """The request for a page of a job, and the query of its table."""

    deps: Dependencies
    tenant_id: int
    look: JobView
    chosen: TaskReply
    query: TrialQuery

    @property
    def job(self) -> JobReply:
        """The job as the API replies it."""
        return self.look.job

    @property
    def trials(self) -> TaskTrials:
        """The trials of the chosen task."""
        return self.deps.trials.of_task(self.tenant_id, self.job.id, self.chosen)

    @property
    def winner(self) -> Winner:
        """The best program of the chosen task."""
        return self.deps.dashboard.winner(self.tenant_id, self.job.id, self.chosen.name)

    def file(self, name: str) -> str:
        """Return a file of the newest package of the chosen task, "" without one."""
        if self.chosen.kernel is None:
            return ""
        with suppress(NotFoundError):  # a package of PTX alone has no kernel.py
            return self.deps.kernels.file(self.tenant_id, self.chosen.kernel, name).decode()
        return ""

    @property
    def snippet(self) -> str:
        """Python that loads the newest package and calls it; "" without one."""
        manifest = self.file(MANIFEST)
        name = f"kernel-{(self.chosen.kernel or '')[:12]}.zip"
        return call_of(json.loads(manifest), name) if manifest else ""


def task_of(job: JobReply, name: str | None) -> TaskReply:
    """Return the task of a name, the first one unless given.

    Raises:
        NotFoundError
    """
    for task in job.tasks:
        if name in (None, task.name):
            return task
    raise NotFoundError(NO_TASK)


def _overview(asked: PanelRequest) -> Mapping[str, Any]:
    trials = asked.trials
    if asked.job.estimated:
        cuda = json.loads(asked.file(MANIFEST) or "{}").get("cuda")
        return {"estimate": trials.estimate, "cuda": cuda}
    roofline = trials.roofline
    return {
        "bars": rival_bars(asked.chosen),
        "lines": rival_lines(asked.chosen, roofline),
        "roofline": roofline and roofline_picture(roofline),
    }


def _trials(asked: PanelRequest) -> Mapping[str, Any]:
    trials = asked.trials
    rows = list(trials.rows())
    chosen = asked.query.of(rows)
    sized = trials.sized
    return {
        "query": asked.query,
        "rows": chosen[:ROWS],
        "count": len(chosen),
        "of": len(rows),
        "variants": max((one.variant for one in rows), default=0),
        "names": () if sized is None else [name for name in sized.names if name != VARIANT][:SIZES],
        "importance": trials.importance,
        "parallel": sized and parallel_picture(sized),
    }


def _why(asked: PanelRequest) -> Mapping[str, Any]:
    explain = asked.deps.explain
    look = explain.look(asked.tenant_id, asked.job.id, asked.chosen.name)
    winner = asked.winner
    contrast = contrast_of(look.known.job.results, asked.chosen.name)
    return {
        "look": look,
        "winner": winner,
        "path": path_to(look.derivation, winner.sketch) if look.derivation else [],
        "meanings": explain.meanings(look),
        "rows": [] if contrast is None else differences(contrast),
        "contrast": contrast,
    }


def _code(asked: PanelRequest) -> Mapping[str, Any]:
    source, manifest, header = map(asked.file, (SOURCE, MANIFEST, HEADER))
    return {
        "winner": asked.winner,
        "source": source,
        "body": kernel_body(source),
        "header": header,
        "ptx": asked.file(PTX),
        "c_call": c_call_of(json.loads(manifest)) if header else "",
    }


def model_panel(look: JobView) -> Mapping[str, Any]:
    """Return the values of the page of a model."""
    model = look.job.model
    assert model is not None
    tasks = {task.name: task for task in look.job.tasks}
    parts = sorted(model.tasks, key=lambda one: -(one.share or 0.0))
    peers = () if model.verdict is None else model.verdict.peers
    return {
        "ranked": [(part, tasks[part.name]) for part in parts],
        "graph": model_graph(look.outline, model),
        "bars": bundle_bars(model.verdict),
        "lines": [(one.name, one.seconds) for one in peers if one.seconds is not None],
        "memory": memory_parts(look.memory),
    }


def calls_of(model: ModelProgress) -> Mapping[str, str]:
    """Return code that runs the newest bundle of a model, by language; {} without one."""
    digest = "" if model.bundle is None else model.bundle.sha256
    return bundle_calls(f"model-{digest[:12]}.zip") if digest else {}


PANELS: Final[Mapping[str, Callable[[PanelRequest], Mapping[str, Any]]]] = {
    "overview": _overview,
    "trials": _trials,
    "why": _why,
    "code": _code,
    "request": lambda _: {},
}
MODEL_TABS: Final = ("overview", "trials", "code", "request")
