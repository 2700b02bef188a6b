"""Kernels that a running job of the service offers: how soon, and how fast.

    python -m benchmarks.early_kernels [--only CASE ...] [--trials 512] [--cancel 10] [--threads 1]

Runs `ansorpy serve` on SQLite with its embedded worker. Of each row of the suite, a job of that
many trials is submitted over REST and cancelled `--cancel` seconds after its start. Before the
first row a tiny job warms up the worker.

starts           from the submission to the start of the job
first kernel     from the start of the job to the end of the first download, whose digest is checked
speed-up         from the start to the event of the baseline
kernels          offered before the cancel; the newest is downloaded after it, and a call on random
                 numbers is compared with the float64 meaning of the row
faster by        the baseline, divided by the time of the newest kernel; both as the job tells them
"""

import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Any, Final

import numpy as np

import ansorpy
from ansorpy.client import Client, Event
from ansorpy.oracle.reference import evaluate
from ansorpy.te.dag import Dag
from benchmarks.common import Results, Row, arguments, chosen, duration, publish, say, table, times
from benchmarks.load import service
from benchmarks.machine import run_facts
from benchmarks.suite.rows import ROWS

KEYS: Final = ("case", "threads", "trials", "cancel_s")
CASES: Final = ("gmm_512", "gmm_1024", "c2d_r64", "c2d_1x1", "dep_384", "softmax_2048x512")
GOAL_S: Final = 3.0
TOLERANCE: Final = 1e-3  # relative and absolute; sums have up to 1024 terms of about 0.25
WARM_UP: Final = "def warm(float(64) A) -> (B) { B(i) = A(i) + A(i) }"


def measured(client: Client, dag: Dag, trials: int, threads: int, cancel_s: float) -> Row:
    """Submit a job, follow and cancel it; return seconds since its start, and its last kernel."""
    submit_s = time.time()
    job_id = client.submit(dags=[dag], trials=trials, cores=threads, fresh=True).id
    timer = Timer(cancel_s, client.cancel, [job_id])
    seen: dict[str, list[Event]] = {}
    first_s: float | None = None
    for event in client.events(job_id):
        seen.setdefault(event.kind, []).append(event)
        if event.kind == "state" and event.body["state"] == "running":
            timer.start()
        if event.kind == "kernel" and first_s is None:
            client.package(event.body["sha256"])
            first_s = time.time()
    job, kernels = client.job(job_id), seen.get("kernel", [])
    start_s = next(one.at_s for one in seen["state"] if one.body["state"] == "running")
    return {
        "starts_s": start_s - submit_s,
        "first_s": None if first_s is None else first_s - start_s,
        "baseline_s": next((one.at_s - start_s for one in seen.get("baseline", [])), None),
        "kernels": len(kernels),
        "measured": job.trials,
        "ended": job.state,
        "best_s": kernels[-1].body["best_s"] if kernels else None,
        "rival_s": job.task(dag.name).baseline_s,
        "right": bool(kernels) and is_right(client, job_id, dag),
    }


def is_right(client: Client, job_id: str, dag: Dag) -> bool:
    """Download the newest kernel of a job, call it, and compare all outputs."""
    rng = np.random.default_rng(0)
    inputs = {one.name: rng.random(one.shape, np.float32) for one in dag.placeholders}
    with tempfile.TemporaryDirectory() as folder:
        kernel = ansorpy.load(client.pull(job_id, dag.name, Path(folder)))
        found = kernel(*inputs.values())
    found = found if isinstance(found, tuple) else (found,)
    pairs = zip(found, evaluate(dag, inputs), strict=True)
    return all(np.allclose(one, true, TOLERANCE, TOLERANCE) for one, true in pairs)


def page(rows: Sequence[Row], machine: Row) -> str:
    """Return the Markdown page."""
    soon = [row for row in rows if row["first_s"] is not None and row["first_s"] <= GOAL_S]
    left = [row for row in rows if row["ended"] == "cancelled" and row["right"]]
    lines = table(
        rows,
        {
            "row": lambda r: r["case"],
            "threads": lambda r: r["threads"],
            "starts after": lambda r: duration(r["starts_s"]),
            "first kernel after": lambda r: duration(r["first_s"]),
            "speed-up after": lambda r: duration(r["baseline_s"]),
            "kernels": lambda r: r["kernels"],
            "trials": lambda r: r["measured"],
            "newest takes": lambda r: duration(r["best_s"]),
            "faster by": lambda r: times(_ratio(r)),
        },
    )
    asked = {f"{row['trials']} trials, cancelled after {row['cancel_s']:g} s" for row in rows}
    return (
        f"# Early kernels of a job\n\nJobs of {'; '.join(sorted(asked))}. First download within"
        f" {GOAL_S:g} s of the start on {len(soon)} of {len(rows)} rows; a right kernel is there"
        f" after the cancel on {len(left)} of {len(rows)}. {machine['model']}.\n\n{lines}\n"
    )


def _ratio(row: Row) -> float | None:
    found: float | None = (
        row["rival_s"] / row["best_s"] if row["rival_s"] and row["best_s"] else None
    )
    return found


def main() -> None:
    """Measure the missing rows; write JSON and table."""
    parser = arguments(__doc__, "early_kernels")
    parser.add_argument("--trials", type=int, default=512)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--cancel", type=float, default=10.0, help="seconds after the start")
    args = parser.parse_args()
    facts: dict[str, Any] = run_facts(args.threads, 0, trials=args.trials)
    results = Results(args.out, KEYS, facts, args.fresh)
    asked = {"threads": args.threads, "trials": args.trials, "cancel_s": args.cancel}
    with tempfile.TemporaryDirectory() as folder, service(Path(folder)) as client:
        client.wait(client.submit(WARM_UP, trials=1).id, 0.1)
        for case in chosen(CASES, args.only):
            if results.find(case=case, **asked) is None:
                dag = ROWS[case].dag(constant_weights=False)
                row = measured(client, dag, args.trials, args.threads, args.cancel)
                results.add({"case": case, **asked, **row})
                say(f"{case}: {duration(row['first_s'])}, {row['kernels']} kernels")
    if results.rows:
        publish(args.out, page(results.rows, facts["machine"]))
        print(page(results.rows, facts["machine"]))


if __name__ == "__main__":
    main()
