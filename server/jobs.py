"""Use cases of a job: submit, read, fetch a kernel. Knows no HTTP."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Engine

from ansorpy.errors import AnsorError, SpecError
from ansorpy.te.check import check
from ansorpy.te.dag import Dag
from ansorpy.te.spec import from_json
from ansorpy.te.text import parse
from server.db.engine import transaction
from server.db.models import JobRow
from server.db.store import add_job, count_queued, find_job, find_kernel
from server.schemas import JobReply, JobRequest, TaskProgress, TaskReply


class UnknownError(AnsorError):
    """There is no such job or kernel."""


class BusyError(AnsorError):
    """The queue is full; try again later."""


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A finished zip."""

    path: Path
    sha256: str
    size_bytes: int
    name: str  # what a download is called


@dataclass(frozen=True, slots=True)
class Jobs:
    """The service that the routes call."""

    engine: Engine
    kernel_dir: Path
    max_queued: int = 1000
    clock: Callable[[], float] = time.time

    def submit(self, request: JobRequest) -> JobReply:
        """Queue one job.

        Raises:
            SpecError: the workload does not parse, or a weight names no task.
            BusyError: too many jobs wait.
        """
        dags = read_dags(request.text, request.dags, request.bind)
        names = {dag.name for dag in dags}
        for name in request.weights:
            if name not in names:
                raise SpecError(f"weights: no task {name!r}; there are {', '.join(sorted(names))}")
        with transaction(self.engine) as tx:
            if count_queued(tx) >= self.max_queued:
                raise BusyError(f"{self.max_queued} jobs wait already")
            return reply(add_job(tx, request.model_dump(), self.clock()))

    def read(self, job_id: str) -> JobReply:
        """Return a job; UnknownError if there is none."""
        with transaction(self.engine) as tx:
            row = find_job(tx, job_id)
        if row is None:
            raise UnknownError("no such job")
        return reply(row)

    def kernel(self, job_id: str, task: str) -> KernelFile:
        """Return the zip of one task; UnknownError where there is none (yet)."""
        with transaction(self.engine) as tx:
            row = find_kernel(tx, job_id, task)
        if row is None:
            raise UnknownError("no such kernel")
        path = self.kernel_dir / f"{row.sha256}.zip"
        return KernelFile(path, row.sha256, row.size_bytes, f"{task}-{row.sha256[:12]}.zip")


def read_dags(
    text: str | None, dags: list[dict[str, Any]] | None, bind: Mapping[str, int]
) -> tuple[Dag, ...]:
    """Return the checked DAGs of a request.

    Raises:
        SpecError: the text or an object is wrong, or two tasks have one name.
    """
    found = tuple(map(from_json, dags)) if dags is not None else parse(text or "", bind)
    names = [dag.name for dag in found]
    for dag in found:
        check(dag)
        if names.count(dag.name) > 1:
            raise SpecError(f"{names.count(dag.name)} tasks are called {dag.name!r}, limit 1")
    return found


def reply(row: JobRow) -> JobReply:
    """Return the wire shape of a job."""
    progress = json.loads(row.progress)
    return JobReply.model_validate(
        {
            "id": row.id,
            "state": row.state,
            "created_s": row.created_s,
            "attempt": row.attempt,
            "progress": {task: TaskProgress(**facts) for task, facts in progress.items()},
            "tasks": [
                TaskReply(**{**task, "kernel": _kernel_url(row.id, task)})
                for task in json.loads(row.results)
            ],
            "error": row.error or None,
        }
    )


def _kernel_url(job_id: str, task: Mapping[str, Any]) -> str | None:
    if not task["kernel"]:
        return None
    return f"/v1/jobs/{job_id}/kernels/{task['name']}"
