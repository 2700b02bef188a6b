"""A service with jobs that were really tuned, which the tests of the systems share."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ansorpy.frontends.json.write import to_json
from ansorpy.frontends.tc.text import parse
from ansorpy.server.settings import ServiceSettings
from ansorpy.server.worker.tuner_main import load_engine, run_job
from tests.server.service import MM, Service

FIRST = 100  # priority of a job that is run at once: jobs that are only submitted stay queued


def left(reason: str) -> pytest.MarkDecorator:
    """Mark a row that no user can see yet; docs/coverage.md has the same reason."""
    return pytest.mark.skip(reason=f"left: {reason}")


@dataclass(frozen=True)
class Stage:
    """A service, and the folder of its worker; the rules of users lie in `folder / "rules"`."""

    service: Service
    folder: Path

    @property
    def client(self) -> TestClient:
        return self.service.client

    def tuned(self, **body: Any) -> Mapping[str, Any]:
        """Submit a job, tune it with the engine of a worker, and return the ended job."""
        settings = ServiceSettings(
            data_dir=self.folder,
            database_url=str(self.service.engine.url),
            rules_dir=self.folder / "rules",
        )
        reply = self.client.post("/v1/jobs", json={"priority": FIRST, "cores": 1, **body})
        assert reply.status_code == 202, reply.text
        claim, tune = self.service.claim(), load_engine(settings)
        assert claim.job_id == reply.json()["id"]
        run_job(settings, self.service.engine, claim, self.folder, tune, lambda what, **told: None)
        job: Mapping[str, Any] = self.client.get(f"/v1/jobs/{claim.job_id}").json()
        assert job["state"] == "succeeded", job["reason"]
        return job

    @cached_property
    def auto(self) -> Mapping[str, Any]:
        """Return a job of a Dag in JSON, without a schedule: two trials."""
        return self.tuned(dags=[to_json(parse(MM)[0])], budget={"trials": 2})

    @cached_property
    def template(self) -> Mapping[str, Any]:
        """Return a job of a template, whose tuner goes through the grid of one knob."""
        return self.tuned(**template_body(), tuner="grid")

    @cached_property
    def manual(self) -> Mapping[str, Any]:
        """Return a job of a schedule."""
        return self.tuned(text=MM, mode="manual", schedule="C.split(i, inner=[2])")

    def events(self, job: Mapping[str, Any], kind: str) -> Sequence[Mapping[str, Any]]:
        """Return the events of a job of one kind."""
        reply = self.client.get(f"/v1/jobs/{job['id']}/events?format=jsonl")
        return [one for one in map(json.loads, reply.text.splitlines()) if one["kind"] == kind]

    def records(self, job: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
        """Return the records of a job that are trials."""
        lines = self.client.get("/v1/records", params={"job": job["id"]}).text.splitlines()
        return [one for one in map(json.loads, lines) if not one.get("race")]

    def package(self, job: Mapping[str, Any], folder: Path) -> Path:
        """Download the kernel of the only task of a job."""
        path = folder / "kernel.zip"
        path.write_bytes(self.client.get(f"/v1/jobs/{job['id']}/kernels/mm").content)
        return path


def template_body() -> dict[str, Any]:
    """Return the request for a template with one knob of two values."""
    template = "knob unroll = [0, 16]\nC.split(j, inner=[2])\nC.unroll = $unroll"
    return {"text": MM, "mode": "template", "template": template, "budget": {"trials": 2}}
