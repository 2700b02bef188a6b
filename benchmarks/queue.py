"""Claims and submissions in a long queue of the service.

    python -m benchmarks.queue [--queued 10000] [--running 300] [--tenants 20]
                               [--times 40] [--database sqlite|postgres] [--json]

Fills an empty database with jobs and times whole transactions, commit included: a claim; a
submission that is coalesced with an equal queued job of its tenant; a submission whose equal jobs
all have smaller budgets, so that a job is created; a submission without equal jobs. The goal is a
median of at most 20 ms for each at 10,000 queued jobs.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final
from uuid import uuid4

from sqlalchemy import Engine, insert, select

from ansorpy.frontends.tc.text import parse
from ansorpy.server.db.engine import connect, now, transaction
from ansorpy.server.db.models import JobRow, TenantRow
from ansorpy.server.db.upgrade import upgrade
from ansorpy.server.jobs import lease, queries
from ansorpy.server.jobs.submission import Submission
from benchmarks.common import duration, say
from tests.server.databases import cluster

GOAL_S: Final = 0.02
LEASE_S: Final = 1e6  # seconds; no lease of a running job expires
MM: Final = parse("def mm(float(64,64) A, float(64,64) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
ADD: Final = parse("def add(float(64) A, float(64) B) -> (C) { C(i) = A(i) + B(i) }")


@contextmanager
def database(kind: str) -> Iterator[str]:
    """Give the URL of an empty database for the block."""
    if kind == "postgres":
        with cluster(fsync=True) as running:
            yield running.new_database()
    else:
        with TemporaryDirectory() as folder:
            yield f"sqlite:///{Path(folder) / 'queue.db'}"


def fill(engine: Engine, queued: int, running: int, tenants: int) -> None:
    """Queue jobs equal to `MM` for tenant 1, and add running jobs of all tenants."""
    with transaction(engine) as tx:
        names = [{"name": f"tenant{number}", "created_s": 0.0} for number in range(2, tenants + 1)]
        if names:
            tx.execute(insert(TenantRow), names)
        owners = tx.scalars(select(TenantRow.id).order_by(TenantRow.id)).all()
        template = _row(queries.submit(tx, 1, Submission(MM, fresh=True), now(tx)).job)
        rows = [{**template, "id": uuid4().hex} for _ in range(queued - 1)]
        rows += [
            {
                **template, "id": uuid4().hex, "tenant_id": owners[number % len(owners)],
                "state": "running", "lease_owner": "w", "lease_until_s": now(tx) + LEASE_S,
            }
            for number in range(running)
        ]  # fmt: skip
        tx.execute(insert(JobRow), rows)


def _row(job: JobRow) -> dict[str, Any]:
    columns = (column.key for column in JobRow.__table__.columns)
    return {name: getattr(job, name) for name in columns if name != "seq"}


def actions(engine: Engine) -> Mapping[str, Callable[[], object]]:
    """Return the transactions to time, by name."""

    def claim() -> None:
        with transaction(engine) as tx:
            assert lease.claim(tx, "w", now(tx), LEASE_S, target="t") is not None

    def submit(submission: Submission, how: str) -> None:
        with transaction(engine) as tx:
            found = queries.submit(tx, 1, submission, now(tx), max_queued=1 << 30)
            assert found.how == how, found.how

    larger = iter(range(1000, 1 << 30))
    return {
        "claim": claim,
        "coalesced": lambda: submit(Submission(MM), "coalesced"),
        "twins too small": lambda: submit(Submission(MM, trials=next(larger)), "created"),
        "no twin": lambda: submit(Submission(ADD, seed=next(larger), fresh=True), "created"),
    }


def measure(engine: Engine, times: int) -> Mapping[str, Mapping[str, float]]:
    """Return median and worst seconds of every transaction."""
    found = {}
    for name, action in actions(engine).items():
        action()  # the first call prepares statements
        taken_s = []
        for _ in range(times):
            begin_s = time.perf_counter()
            action()
            taken_s.append(time.perf_counter() - begin_s)
        found[name] = {"median_s": statistics.median(taken_s), "max_s": max(taken_s)}
    return found


def main() -> None:
    """Fill a database, time the transactions, print them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--queued", type=int, default=10_000)
    parser.add_argument("--running", type=int, default=300)
    parser.add_argument("--tenants", type=int, default=20)
    parser.add_argument("--times", type=int, default=40)
    parser.add_argument("--database", choices=("sqlite", "postgres"), default="sqlite")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with database(options.database) as url:
        engine = connect(url)
        upgrade(engine)
        fill(engine, options.queued, options.running, options.tenants)
        found = measure(engine, options.times)
        engine.dispose()
    if options.json:
        print(json.dumps({**vars(options), "seconds": found}))
        return
    say(f"{options.queued} queued, {options.running} running, {options.database}")
    for name, taken in found.items():
        held = "" if taken["median_s"] <= GOAL_S else f"  (more than {duration(GOAL_S)})"
        say(f"{name:16} {duration(taken['median_s'])}, at most {duration(taken['max_s'])}{held}")


if __name__ == "__main__":
    main()
