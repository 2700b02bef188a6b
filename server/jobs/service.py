"""Use cases of a job: submit, read, fetch a kernel. Knows no HTTP."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Engine

from server.db.engine import now, transaction
from server.db.models import JobRow
from server.db.upgrade import local_tenant
from server.jobs import queries
from server.jobs.errors import UnknownError
from server.jobs.submission import Budget, Submission, read_dags
from server.schemas import JobReply, JobRequest, TaskProgress, TaskReply


@dataclass(frozen=True, slots=True)
class KernelFile:
    """A delivered zip."""

    content: bytes
    sha256: str
    name: str  # what a download is called


@dataclass(frozen=True, slots=True)
class Jobs:
    """The service that the routes call."""

    engine: Engine
    max_queued: int = 1000

    def submit(self, request: JobRequest) -> JobReply:
        """Queue one job.

        Raises:
            SpecError: the workload does not parse, or a weight names no task.
            BusyError: too many jobs wait.
        """
        submission = Submission(
            dags=read_dags(request.text, request.dags, request.bind),
            budget=Budget(request.trials, request.seconds),
            weights=request.weights,
            cores=request.cores,
            seed=request.seed,
            text=request.text,
        )
        tenant = local_tenant(self.engine)
        with transaction(self.engine) as tx:
            found = queries.submit(tx, tenant, submission, now(tx), max_queued=self.max_queued)
            return reply(found.job)

    def read(self, job_id: str) -> JobReply:
        """Return a job; UnknownError if there is none."""
        tenant = local_tenant(self.engine)
        with transaction(self.engine) as tx:
            return reply(queries.find(tx, tenant, job_id))

    def kernel(self, job_id: str, task: str) -> KernelFile:
        """Return the zip of one task; UnknownError where there is none (yet)."""
        tenant = local_tenant(self.engine)
        with transaction(self.engine) as tx:
            for row in queries.kernels_of(tx, tenant, job_id):
                if row.task == task:
                    content = queries.package(tx, tenant, row.sha256).content
                    return KernelFile(content, row.sha256, f"{task}-{row.sha256[:12]}.zip")
        raise UnknownError("no such kernel")


def reply(row: JobRow) -> JobReply:
    """Return the wire shape of a job."""
    progress = json.loads(row.progress)
    return JobReply.model_validate(
        {
            "id": row.id,
            "state": row.state,
            "created_s": row.created_s,
            "attempt": row.attempts,
            "progress": {task: _told(facts) for task, facts in progress.items()},
            "tasks": [
                TaskReply(**{**task, "kernel": _kernel_url(row.id, task)})
                for task in json.loads(row.results)
            ],
            "error": row.reason or None,
        }
    )


def _told(facts: Mapping[str, Any]) -> TaskProgress:
    return TaskProgress(**{k: v for k, v in facts.items() if k in TaskProgress.model_fields})


def _kernel_url(job_id: str, task: Mapping[str, Any]) -> str | None:
    if not task["kernel"]:
        return None
    return f"/v1/jobs/{job_id}/kernels/{task['name']}"
