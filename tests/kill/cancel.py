"""`python -m tests.kill.cancel --times 50`: how long after its acknowledgement a cancel is done.

Done: the driver and every measuring process of the job are gone, and no record comes any more.
"""

import argparse
import json
import os
import random
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import func, select

from server.db.engine import reading
from server.db.models import RecordRow
from server.db.upgrade import open_database
from tests.kill.processes import lives, processes
from tests.kill.run import SETTINGS, WORK, say
from tests.kill.service import Service

LIMIT_S = 2.0
LOOK_S = 0.01


def run(times: int, seed: int) -> int:
    """Run it all; return the exit code."""
    rng = random.Random(seed)
    waits_s: list[float] = []
    late = 0
    with TemporaryDirectory(prefix="ansorpy-cancel-") as name:
        service = Service(Path(name), "", **{**SETTINGS, "watch_s": 0.2})
        service.start()
        engine = open_database(f"sqlite:///{Path(name) / 'ansorpy.db'}")
        count = select(func.count()).select_from(RecordRow)
        for number in range(times):
            body = {"text": WORK.format(n=64), "seed": number, "fresh": True,
                    "budget": {"trials": 100_000}}  # fmt: skip
            job_id = service.ask("POST", "/v1/jobs", body)["id"]
            while service.ask("GET", f"/v1/jobs/{job_id}")["state"] != "running":
                time.sleep(0.05)
            time.sleep(rng.uniform(0.0, 6.0))
            at_work = {p.pid for p in processes(service.marker) if p.kind in ("driver", "slot")}
            service.ask("POST", f"/v1/jobs/{job_id}/cancel")
            begin_s = time.monotonic()
            with reading(engine) as tx:
                before = tx.scalar(count)
            while any(map(lives, at_work)):
                time.sleep(LOOK_S)
            waits_s.append(time.monotonic() - begin_s)
            with reading(engine) as tx:
                late += tx.scalar(count) != before
        service.stop()
        engine.dispose()
    times_s = sorted(waits_s)
    p99_s = times_s[min(len(times_s) - 1, int(0.99 * len(times_s)))]
    say(
        json.dumps(
            {
                "cancels": times, "p50_s": round(times_s[len(times_s) // 2], 3),
                "p99_s": round(p99_s, 3), "max_s": round(times_s[-1], 3),
                "records_after_the_answer": late,
            }
        )
    )  # fmt: skip
    return 1 if late or p99_s > LIMIT_S else 0


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--seed", type=int, default=os.getpid())
    given = parser.parse_args()
    return run(given.times, given.seed)


if __name__ == "__main__":
    sys.exit(main())
