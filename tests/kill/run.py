"""`python -m tests.kill.run --kills 200 --database sqlite`: kill -9 at random, count the losses.

A service tunes small jobs while its server, worker loop, tuner process and measuring processes
are killed at random moments, equally often. A witness collects every record and
event that was committed. At the end every acknowledged job must have succeeded with exactly
the requested trials, and no seen row may be missing or duplicated.
"""

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from sqlalchemy import Engine, select, text

from ansorpy.server.db.engine import connect, reading
from ansorpy.server.db.models import JobRow
from ansorpy.server.db.upgrade import local_tenant, open_database, upgrade
from ansorpy.server.schemas.model import ModelFacts
from ansorpy.server.service.models import ModelService
from tests.kill.ledger import Witness, judge
from tests.kill.processes import VICTIMS, processes
from tests.kill.service import GoneError, Service
from tests.server.databases import cluster, missing
from tests.server.onnx_models import small

WORK = "def mm(float(8,{n}) A, float({n},8) B) -> (C) {{ C(i,j) +=! A(i,k) * B(k,j) }}"
SETTINGS = {
    "lease_s": 5.0, "heartbeat_s": 0.5, "poll_s": 0.05, "watch_s": 0.05, "max_attempts": 1000,
}  # fmt: skip
PATIENCE_S = 120.0  # time until a job is claimed again after a kill
WITNESS_S = 0.2
MODEL_EACH = 3


@contextmanager
def database(kind: str, folder: Path) -> Iterator[tuple[str, Engine]]:
    """Give the URL and an engine of a new database with its tables."""
    with ExitStack() as stack:
        if kind == "sqlite":
            url = f"sqlite:///{folder / 'ansorpy.db'}"
        elif why := missing():
            raise SystemExit(why)
        else:
            url = stack.enter_context(cluster(fsync=True)).new_database()
        made = connect(url)
        upgrade(made)
        made.dispose()
        engine = open_database(url)
        stack.callback(engine.dispose)
        yield url, engine


class Killing:
    """One run: keep a job running, kill processes, wait for its recovery.

    Every third job tunes a model, the first one too.
    """

    def __init__(
        self, service: Service, engine: Engine, rng: random.Random, trials: int, model: Path
    ) -> None:
        self.model = sha256(model.read_bytes()).hexdigest()
        facts = ModelFacts(
            node_count=5, operators={}, inputs=[], outputs=[], input_count=1, output_count=1,
            refusal=None,
        )  # fmt: skip
        ModelService(engine).store(local_tenant(engine), self.model, model, facts)
        self.service = service
        self.engine = engine
        self.rng = rng
        self.trials = trials
        self.submitted: list[str] = []
        self.kills: Counter[str] = Counter()
        self.moments: Counter[str] = Counter()
        self.dead = ""  # the lease ended by the last kill

    def submit(self) -> None:
        """Submit a job, with retries under one Idempotency-Key, until it is acknowledged."""
        number = len(self.submitted)
        body = {"budget": {"trials": self.trials}, "seed": number}
        if number % MODEL_EACH == 0:
            body |= {"model": self.model, "bind": {"batch": 1 + number}}
        else:
            body |= {"text": WORK.format(n=8 + number)}
        headers = {"Idempotency-Key": uuid4().hex}
        while True:
            self.service.start()
            try:
                self.submitted.append(self.service.ask("POST", "/v1/jobs", body, headers)["id"])
            except GoneError:
                continue
            return

    def running(self) -> JobRow | None:
        """Return the running job, or None."""
        with reading(self.engine) as tx:
            return tx.scalar(select(JobRow).where(JobRow.state == "running").limit(1))

    def waiting(self) -> int:
        """Return the number of jobs that have not ended."""
        with reading(self.engine) as tx:
            states = tx.scalars(select(JobRow.state)).all()
        return sum(state in ("queued", "running", "paused") for state in states)

    def kill(self, window_s: float) -> bool:
        """Kill one process at a random moment of a running job; return False if it had ended."""
        time.sleep(self.rng.uniform(0.0, window_s))
        job = self.running()
        there = [p for p in processes(self.service.marker) if p.kind in VICTIMS]
        if job is None or not there:
            return False
        kind = self.rng.choice(sorted({process.kind for process in there}))
        victim = self.rng.choice([process for process in there if process.kind == kind])
        try:
            os.kill(victim.pid, signal.SIGKILL)
        except ProcessLookupError:
            return False
        self.kills[kind] += 1
        over = job.trials_done >= job.trials
        self.moments["race and delivery" if over else f"round {job.rounds_done + 1}"] += 1
        # A job continues after the kill of a measuring process; others must be claimed again.
        self.dead = "" if kind == "slot" else f"{job.id} {job.lease_token}"
        return True

    def recover(self) -> None:
        """Restart the server, keep a job queued, and wait until one is running."""
        end_s = time.monotonic() + PATIENCE_S
        while (job := self.running()) is None or f"{job.id} {job.lease_token}" == self.dead:
            self.service.start()
            if not self.waiting():
                self.submit()
            if time.monotonic() > end_s:
                told = self.service.log.read_text()[-3000:]
                raise SystemExit(f"no job was taken up within {PATIENCE_S} s\n{told}")
            time.sleep(0.05)


def run(kills: int, kind: str, seed: int, trials: int, window_s: float, limit_s: float) -> int:
    """Run all kills; return the exit code."""
    begin_s = time.monotonic()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ansorpy-kill-")))
        url, engine = stack.enter_context(database(kind, folder))
        witness = Witness(engine)
        model = small(folder / "small.onnx")
        service = Service(folder, url, **SETTINGS)
        killing = Killing(service, engine, random.Random(seed), trials, model)
        over = threading.Event()

        def watch() -> None:
            while not over.wait(WITNESS_S):
                witness.look()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        stack.callback(killing.service.end)
        while sum(killing.kills.values()) < kills and time.monotonic() - begin_s < limit_s:
            killing.recover()
            if killing.kill(window_s) and sum(killing.kills.values()) % 10 == 0:
                done_s = time.monotonic() - begin_s
                say(f"{sum(killing.kills.values())} kills, {witness.seen} records, {done_s:.0f} s")
        end_s = time.monotonic() + 10 * PATIENCE_S
        while killing.waiting() and time.monotonic() < end_s:
            killing.service.start()  # a killed process may still be ending
            time.sleep(0.2)
        over.set()
        watcher.join()
        witness.look()
        verdict = judge(engine, witness, killing.submitted)
        complaints = [*verdict.complaints, *after(killing, engine)]
        report = {
            "database": kind, "kills": dict(killing.kills), "moments": dict(killing.moments),
            "jobs": dict(verdict.jobs), "trials": verdict.trials, "records_seen": verdict.seen,
            "lost": verdict.lost, "doubled": verdict.doubled, "complaints": complaints,
            "seconds": round(time.monotonic() - begin_s), "seed": seed,
        }  # fmt: skip
        say(json.dumps(report))
        if complaints:
            say(killing.service.log.read_text()[-5000:])
    return 1 if complaints or verdict.lost or verdict.doubled else 0


def after(killing: Killing, engine: Engine) -> list[str]:
    """Stop the service; return the processes and folders that it leaves behind."""
    complaints = []
    code = killing.service.stop()
    if code not in (0, -signal.SIGTERM):  # uvicorn ends by the signal after its shutdown
        complaints.append(f"the server ended with exit code {code}")
    time.sleep(1.0)
    left = processes(killing.service.marker)
    if left:
        complaints.append(f"orphans: {left}")
    if engine.dialect.name == "sqlite":
        with reading(engine) as tx:
            found = tx.scalar(text("PRAGMA integrity_check"))
        if found != "ok":
            complaints.append(f"integrity_check: {found}")
    return complaints


def say(line: str) -> None:
    """Print progress to standard error."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def end_well() -> None:
    """Raise an exception on SIGTERM, so that all processes are ended."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))


def main() -> int:
    """Read the command line."""
    end_well()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=25)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--trials", type=int, default=48, help="of one job")
    parser.add_argument("--minutes", type=float, default=1e6, help="stop killing after so long")
    parser.add_argument("--window", type=float, default=4.0, help="seconds that a kill may wait")
    given = parser.parse_args()
    limit_s = 60.0 * given.minutes
    return run(given.kills, given.database, given.seed, given.trials, given.window, limit_s)


if __name__ == "__main__":
    sys.exit(main())
