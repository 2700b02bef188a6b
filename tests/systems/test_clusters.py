"""Clusters: workers of one service, each with the lease of another job."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.server.process import SOON_S, Live, process, until

WORKERS = 3
LONG = 4096  # trials of a job that does not end by itself while the test runs
ENDED = ("succeeded", "failed", "cancelled")


@contextmanager
def worker(url: str, folder: Path) -> Iterator[None]:
    """Run `ansorpy worker`, as `docker compose up --scale worker=3` runs three of them."""
    env = {**os.environ, "ANSORPY_DATABASE_URL": url, "ANSORPY_DATA_DIR": str(folder)}
    command = [sys.executable, "-m", "ansorpy", "worker"]
    child = subprocess.Popen(command, env=env, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        child.terminate()
        child.wait(timeout=SOON_S)


def submitted(service: Live, rows: int, trials: int) -> str:
    text = f"def mv(float({rows},8) A, float(8) B) -> (C) {{ C(i) +=! A(i,k) * B(k) }}"
    reply = service.post("/v1/jobs", json={"text": text, "budget": {"trials": trials}})
    assert reply.status_code == 202, reply.text
    return str(reply.json()["id"])


def states(service: Live, jobs: Sequence[str]) -> list[str]:
    return [service.get(f"/v1/jobs/{job}").json()["state"] for job in jobs]


def workers(service: Live) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = service.get("/v1/workers").json()["workers"]
    return found


@pytest.mark.night
def test_three_workers_lease_jobs_of_one_service(tmp_path: Path) -> None:
    """A user sees three leases at once; each job is done once, and the jobs that waited follow."""
    url = f"sqlite:///{tmp_path / 'ansorpy.db'}"
    with process(url) as service, ExitStack() as running:
        long = [submitted(service, 4 + n, LONG) for n in range(WORKERS)]
        short = [submitted(service, 10 + n, 0) for n in range(WORKERS)]
        for _ in range(WORKERS):
            running.enter_context(worker(url, tmp_path))
        until(lambda: {one["job"] for one in workers(service)} == set(long))
        found = workers(service)
        assert len({one["pid"] for one in found}) == WORKERS
        assert [one["state"] for one in found] == ["busy"] * WORKERS
        assert states(service, [*long, *short]) == ["running"] * 3 + ["queued"] * 3
        for job in long:
            assert service.post(f"/v1/jobs/{job}/cancel").status_code == 200
        until(lambda: set(states(service, short)) <= set(ENDED))
        assert states(service, short) == ["succeeded"] * WORKERS
        until(lambda: sum(one["jobs_done"] for one in workers(service)) == WORKERS)
        for job in short:
            events = service.get(f"/v1/jobs/{job}/events?format=jsonl").text
            assert events.count('"state":"running"') == 1, "leased once"
