"""`python -m tests.storm.run`: 100 crashing candidates, 10 hanging ones, and readers.

The API must answer as usual, and nothing may be left behind: no process, no open
descriptor.
"""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tests.kill.processes import descriptors, processes
from tests.kill.service import Service
from tests.storm.tuner import CRASHES, HANGS

TEXT = "def mm(float(16,8) A, float(8,16) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
READERS = 4
PAUSE_S = 0.02  # pause of a reader between two requests
QUIET_S = 5.0
LIMIT_S = 600.0
P99_S = 0.2


class Readers:
    """Threads that request a job, the list and the health, and collect the durations."""

    def __init__(self, service: Service, job_id: str) -> None:
        self.service = service
        self.paths = [f"/v1/jobs/{job_id}", "/v1/jobs", "/healthz"]
        self.latencies_s: list[float] = []
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(READERS)]

    def __enter__(self) -> "Readers":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _read(self) -> None:
        turn = 0
        while not self._over.wait(PAUSE_S):
            begin_s = time.monotonic()
            self.service.ask("GET", self.paths[turn % len(self.paths)])
            self.latencies_s.append(time.monotonic() - begin_s)
            turn += 1

    def summary(self) -> dict[str, float]:
        """Return the number of requests, and their milliseconds."""
        times = sorted(self.latencies_s)
        at = {"p50": 0.5, "p99": 0.99, "max": 1.0}
        found = {name: times[min(len(times) - 1, int(q * len(times)))] for name, q in at.items()}
        return {"requests": len(times), **{n: round(1e3 * s, 1) for n, s in found.items()}}


def run() -> int:
    """Run the storm; return the exit code."""
    with TemporaryDirectory(prefix="ansorpy-storm-") as name:
        folder = Path(name)
        rate = "1000000/minute"
        service = Service(folder, "", embedded_worker=0, heartbeat_s=1.0, read_rate=rate)
        service.start()
        body = {"text": TEXT, "budget": {"trials": CRASHES + HANGS}}
        job_id = service.ask("POST", "/v1/jobs", body)["id"]
        with Readers(service, job_id) as quiet:
            time.sleep(QUIET_S)
        with service.log.open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-P", "-m", "tests.storm.worker"], env=service.env, stderr=log
            )
        with Readers(service, job_id) as stormy:
            job, growth = watch(service, job_id)
        left_of_job = [p for p in processes(service.marker) if p.kind == "slot"]
        worker.terminate()
        code = worker.wait(60.0)
        service.stop()
        time.sleep(0.5)
        orphans = processes(service.marker)
        (task,) = job["tasks"]
        report = {
            "state": job["state"], "failures": task["failures"], "quiet_ms": quiet.summary(),
            "storm_ms": stormy.summary(), "descriptor_growth": growth,
            "slots_left": len(left_of_job), "orphans": [str(p) for p in orphans],
            "worker_exit": code,
        }  # fmt: skip
        good = (
            task["failures"] == {"crash": CRASHES, "run-timeout": HANGS}
            and stormy.summary()["p99"] < 1e3 * P99_S
            and not any(growth.values())
            and not left_of_job
            and not orphans
            and code == 0
        )
        sys.stdout.write(json.dumps({"good": good, **report}) + "\n")
        if not good:
            sys.stdout.write(service.log.read_text()[-4000:])
    return 0 if good else 1


def watch(service: Service, job_id: str) -> tuple[Any, Mapping[str, int]]:
    """Wait for the end of the job; return it, and the growth of open files per process."""
    first: dict[tuple[str, int], int] = {}
    last: dict[tuple[str, int], int] = {}
    end_s = time.monotonic() + LIMIT_S
    while True:
        job = service.ask("GET", f"/v1/jobs/{job_id}")
        if job["state"] not in ("queued", "running") or time.monotonic() > end_s:
            break
        if job["trials"]:  # all processes have started
            there = processes(service.marker)
            slots = {process.pid for process in there if process.kind == "slot"}
            for process in there:
                if process.parent in slots:
                    continue  # child of a candidate, which opens files and ends
                try:
                    count = descriptors(process.pid)
                except OSError:
                    continue  # the process has ended
                first.setdefault((process.kind, process.pid), count)
                last[process.kind, process.pid] = count
        time.sleep(0.5)
    lasting = {key for key in last if key[0] != "server"}
    growth = {f"{kind} {pid}": last[kind, pid] - first[kind, pid] for kind, pid in lasting}
    servers = {key: last[key] - first[key] for key in last if key[0] == "server"}
    # A reader may be connected.
    growth |= {f"{k} {p}": max(0, more - READERS - 1) for (k, p), more in servers.items()}
    return job, {name: max(0, more) for name, more in growth.items()}


if __name__ == "__main__":
    sys.exit(run())
