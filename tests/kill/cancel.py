"""`python -m tests.kill.cancel --times 60`: how long after its acknowledgement a cancel is done.

A cancel is done when the tuner process and all measuring processes of the job are gone.
Every other job is cancelled at a random moment of its search, the others between their last round
and their end: race, export, delivery. Processes of the job show its activity.
"""

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import Engine, func, select

from ansorpy.server.db.engine import reading
from ansorpy.server.db.models import RecordRow
from tests.kill.processes import Process, lives, processes, state
from tests.kill.run import SETTINGS, WORK, database, end_well, say
from tests.kill.service import RefusedError, Service

LIMIT_S = 2.0
LOOK_S = 0.01
POLL_S = 0.03
SEARCH_S = 6.0  # seconds of a search: its first rounds
ENDLESS, SHORT = 100_000, 8  # trials
SHORTER = 0.8  # if a job ended before its cancel
OVER = 409


@dataclass(slots=True)
class Cancels:
    """Measurements of the cancels so far."""

    waits_s: list[tuple[float, str]] = field(default_factory=list)  # and the activity of the job
    answers_s: list[float] = field(default_factory=list)
    late: int = 0  # records after the reply
    over: int = 0  # jobs that ended before they were cancelled

    def report(self) -> dict[str, object]:
        """Return a line of text."""
        waits_s = [wait_s for wait_s, _ in self.waits_s]
        moments = sorted({moment for _, moment in self.waits_s})
        of = {moment: [w for w, what in self.waits_s if what == moment] for moment in moments}
        return {
            "cancels": len(waits_s), "p50_s": quantile(waits_s, 0.5),
            "p99_s": quantile(waits_s, 0.99), "max_s": quantile(waits_s, 1.0),
            "moments": {m: {"times": len(w), "max_s": quantile(w, 1.0)} for m, w in of.items()},
            "answer_p50_s": quantile(self.answers_s, 0.5),
            "answer_max_s": quantile(self.answers_s, 1.0),
            "ended_before": self.over, "records_after_the_answer": self.late,
        }  # fmt: skip


class Cancelling:
    """Submits jobs to a service and cancels them."""

    def __init__(self, service: Service, engine: Engine, rng: random.Random) -> None:
        self.service, self.engine, self.rng = service, engine, rng
        self.seen = Cancels()
        self.end_s = 0.0  # approximate time from the last round of a job to its end
        self._jobs = 0

    def in_the_search(self) -> None:
        """Cancel a job within its first seconds."""
        job_id = self._submit(ENDLESS)
        self._wait(job_id, lambda job: job["state"] == "running")
        time.sleep(self.rng.uniform(0.0, SEARCH_S))
        self._cancel(job_id, "search")

    def in_the_end(self) -> None:
        """Cancel a job between its last round and its end; learn the moment from ended jobs."""
        job_id = self._submit(SHORT)
        self._wait(job_id, lambda job: job["trials"] >= SHORT)
        time.sleep(self.rng.uniform(0.0, self.end_s))
        if not self._cancel(job_id, "end"):
            self.end_s *= SHORTER

    def time_the_end(self) -> None:
        """Measure the time of a job from its last round to its end."""
        job_id = self._submit(SHORT)
        self._wait(job_id, lambda job: job["trials"] >= SHORT)
        begin_s = time.monotonic()
        self._wait(job_id, lambda job: job["state"] == "succeeded")
        self.end_s = time.monotonic() - begin_s

    def _submit(self, trials: int) -> str:
        self._jobs += 1
        body = {
            "text": WORK.format(n=64), "seed": self._jobs, "fresh": True,
            "budget": {"trials": trials},
        }  # fmt: skip
        return str(self.service.ask("POST", "/v1/jobs", body)["id"])

    def _wait(self, job_id: str, until: Callable[[Any], bool]) -> None:
        while not until(self.service.ask("GET", f"/v1/jobs/{job_id}")):
            time.sleep(POLL_S)

    def _cancel(self, job_id: str, part: str) -> bool:
        """Cancel a job and wait for the end of its processes; return False if it had ended."""
        at_work = [p for p in processes(self.service.marker) if p.kind in ("tuner", "slot")]
        doing = f"{part}: {moment(at_work)}"
        begin_s = time.monotonic()
        try:
            self.service.ask("POST", f"/v1/jobs/{job_id}/cancel")
        except RefusedError as error:
            if error.status != OVER:
                raise
            self.seen.over += 1
            return False
        answered_s = time.monotonic()
        self.seen.answers_s.append(answered_s - begin_s)
        count = select(func.count()).select_from(RecordRow)
        with reading(self.engine) as tx:
            before = tx.scalar(count)
        while any(lives(process.pid) for process in at_work):
            time.sleep(LOOK_S)
        while any(p.kind == "slot" and lives(p.pid) for p in processes(self.service.marker)):
            time.sleep(LOOK_S)
        self.seen.waits_s.append((time.monotonic() - answered_s, doing))
        with reading(self.engine) as tx:
            self.seen.late += tx.scalar(count) != before
        return True


def moment(at_work: Sequence[Process]) -> str:
    """Return the activity of the processes of a job: the last one in the order of a trial."""
    daemons = {process.pid for process in at_work if process.kind == "slot"}
    runs = [process for process in at_work if state(process.pid) in "RD"]
    children = [p for p in runs if p.kind == "slot" and p.parent in daemons]
    if any(not child.builds for child in children):
        return "checks and times"
    if children:
        return "builds"
    if any(process.kind == "slot" for process in runs):
        return "processes come up"
    return "tuner works" if runs else "waits"


def quantile(values: Sequence[float], share: float) -> float:
    """Return a quantile of the values."""
    ordered = sorted(values)
    return round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 3)


def run(times: int, kind: str, seed: int) -> int:
    """Run all cancels; return the exit code."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="ansorpy-cancel-")))
        url, engine = stack.enter_context(database(kind, folder))
        service = Service(folder, url, **{**SETTINGS, "watch_s": 0.2})
        stack.callback(service.end)
        service.start()
        cancelling = Cancelling(service, engine, random.Random(seed))
        cancelling.time_the_end()
        seen = cancelling.seen
        while (done := len(seen.waits_s)) < times:
            if done % 2:
                cancelling.in_the_end()
            else:
                cancelling.in_the_search()
        service.stop()
    say(json.dumps({"database": kind, **seen.report(), "seed": seed}))
    return 1 if seen.late or quantile([s for s, _ in seen.waits_s], 0.99) > LIMIT_S else 0


def main() -> int:
    """Read the command line."""
    end_well()
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    return run(given.times, given.database, given.seed)


if __name__ == "__main__":
    sys.exit(main())
