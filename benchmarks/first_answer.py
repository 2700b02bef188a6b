"""The first answer, which needs no trials: its delay, and its ratio to the final best.

    python -m benchmarks.first_answer [--rows CASE ...] [--trials 256] [--seconds S] [--threads 1]

first answer    `ansorpy.tune(dag, trials=0)` in fresh interpreters, after the imports: from the
                call to its return with a checked library written; the median of --times
ratio           the first answer against the best of a search of that many trials that began with
                it, both timed again in turns, in fresh processes

Existing rows are not measured again; weights are constants. `--seconds` stops before the next
row.
"""

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

import ansorpy
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.plan.bind import bind
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.race import first_answer
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tune import play
from benchmarks.common import (
    Results,
    Row,
    arguments,
    chosen,
    duration,
    publish,
    say,
    table,
    times,
)
from benchmarks.machine import run_facts
from benchmarks.suite.cases import ONE
from benchmarks.suite.rows import ROWS

KEYS: Final = ("case", "threads", "trials", "seed")
CASES: Final = tuple(case.name for case in ONE)
GOAL_S: Final = 2.0
GOAL_RATIO: Final = 1.6
ROUND: Final = 16
FIRST: Final = "first"
BEST: Final = "best"


def answer(case: str, threads: int, seed: int) -> Row:
    """Tune without trials in this process; return the result."""
    dag = ROWS[case].dag(constant_weights=True)
    with TemporaryDirectory(prefix="ansorpy-first-") as folder:
        begin_s = time.perf_counter()
        result = ansorpy.tune(
            dag, trials=0, cores=threads, seed=seed, store=MemoryStore(), out=Path(folder),
            progress=False,  # its output would count towards the time
        )  # fmt: skip
        seconds = time.perf_counter() - begin_s
    return {"seconds": seconds, "verified": result.tasks[0].verified}


def ask(case: str, threads: int, seed: int, count: int) -> list[float]:
    """Return the seconds of `count` first answers, each in an interpreter of its own."""
    command = [
        sys.executable, "-m", "benchmarks.first_answer", "--rows", case,
        "--threads", str(threads), "--seed", str(seed), "--answer",
    ]  # fmt: skip
    found = []
    for _ in range(count):
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found.append(float(json.loads(done.stdout)["seconds"]))
    return found


def compared(case: str, target: Target, trials: int, seed: int) -> Row:
    """Search from the first answer on; return both times of a race, in seconds."""
    task = Task.of(ROWS[case].dag(constant_weights=True), target, rules_name(target.kind, CPU))
    task.space.explore(CPU, first_answer.PLANS)
    model = default_model(target, seed)
    task.queue.first, *_ = first_answer.choose(task, model, seed)
    task.space.explore(CPU)
    rng = np.random.default_rng(seed)
    with LocalPool(task.dag, target) as pool:
        while task.history.trials < trials:
            count = min(ROUND, trials - task.history.trials)
            if not play(task, count, model, pool, rng, _clock).chosen:
                break
        ranked = task.history.ranked()
        if not ranked:
            return {"failures": dict(task.history.failures)}
        pair = {FIRST: task.queue.first, BEST: ranked[0]}
        programs = {
            name: bind(task.space.plans[one.plan], one.row, target) for name, one in pair.items()
        }
        raced = pool.race(programs, numpy=False)
    found = {name: one.median_s for name, one in raced.items() if isinstance(one, PairedTimes)}
    return {
        "first_s": found.get(FIRST),
        "best_s": found.get(BEST),
        "first_plan": task.space.texts[task.queue.first.plan],
        "best_plan": task.space.texts[ranked[0].plan],
        "failures": dict(task.history.failures),
    }


def _clock() -> float:
    return time.monotonic()


def ratio(row: Row) -> float | None:
    """Return the time of the first answer divided by the best."""
    if not row["first_s"] or not row["best_s"]:
        return None
    found: float = row["first_s"] / min(row["first_s"], row["best_s"])
    return found


def page(rows: Sequence[Row], machine: Row) -> str:
    """Return the Markdown page."""
    ratios = [found for row in rows if (found := ratio(row)) is not None]
    waits = [median(row["answers_s"]) for row in rows]
    lines = table(
        rows,
        {
            "row": lambda r: r["case"],
            "threads": lambda r: r["threads"],
            "first answer after": lambda r: duration(median(r["answers_s"])),
            "it takes": lambda r: duration(r["first_s"]),
            "best of the search": lambda r: duration(r["best_s"]),
            "trials": lambda r: r["trials"],
            "ratio": lambda r: times(ratio(r)),
        },
    )
    soon = sum(wait <= GOAL_S for wait in waits)
    near = sum(found <= GOAL_RATIO for found in ratios)
    mean = geometric_mean(ratios) if ratios else 1.0
    return (
        f"# The first answer\n\nWithin {GOAL_S:g} s on {soon} of {len(waits)} rows (median"
        f" {duration(median(waits))}); within {GOAL_RATIO}x of the best on {near} of"
        f" {len(ratios)}, geometric mean {mean:.2f}x. {machine['model']}.\n\n{lines}\n"
        "From the call of `tune(trials=0)` in a fresh interpreter, after the imports, to a checked"
        " library on disk.\n"
    )


def main() -> None:
    """Measure the missing rows; write JSON and table."""
    parser = arguments(__doc__, "first_answer")
    parser.add_argument("--rows", nargs="+", metavar="CASE", dest="only", help="as --only")
    parser.add_argument("--trials", type=int, default=256)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--times", type=int, default=3, help="first answers per row")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--answer", action="store_true", help="one first answer, as JSON")
    args = parser.parse_args()
    cases = chosen(CASES, args.only)
    if args.answer:
        print(json.dumps(answer(cases[0], args.threads, args.seed)))
        return
    deadline_s = time.monotonic() + args.seconds
    target = local_target(args.threads)
    facts: dict[str, Any] = run_facts(args.threads, args.seed, trials=args.trials)
    results = Results(args.out, KEYS, facts, args.fresh)
    for case in cases:
        key = {
            "case": case, "threads": args.threads, "trials": args.trials, "seed": args.seed,
        }  # fmt: skip
        if results.find(**key) is not None:
            continue
        if time.monotonic() > deadline_s:
            say("time is up")
            break
        row = {
            **key,
            "answers_s": ask(case, args.threads, args.seed, args.times),
            **compared(case, target, args.trials, args.seed),
        }
        results.add(row)
        say(f"{case}: after {duration(median(row['answers_s']))}, {times(ratio(row))} of the best")
    mine = [row for row in results.rows if row["threads"] == args.threads]
    if mine:
        publish(args.out, page(mine, facts["machine"]))
        print(page(mine, facts["machine"]))


if __name__ == "__main__":
    main()
