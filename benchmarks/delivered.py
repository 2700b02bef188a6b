"""Timed form against delivered form: two compilations of the same kernels, in turns.

    python -m benchmarks.delivered [--threads 1] [--trials 128] [--only ROW ...]

The search times LLVM IR that is compiled without the optimiser; the delivered form is Python source
that numba compiles. If their times differ, the choice of the search was not the fastest delivered
kernel. The kernels come from `python -m benchmarks.suite.tune`; rows without a kernel are left
out. Each kernel is timed in three fresh processes; rows are written as they finish.
"""

import json
import zipfile
from math import exp, log
from pathlib import Path
from statistics import mean
from typing import Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.numba_source import emit
from ansorpy.loopir.nodes import Program
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.plan.bind import bind
from ansorpy.replay import plan_from_text
from ansorpy.target import Target
from benchmarks.common import (
    Results,
    Row,
    arguments,
    chosen,
    duration,
    percent,
    publish,
    say,
    table,
    times,
)
from benchmarks.machine import run_facts
from benchmarks.suite.cases import CASES
from benchmarks.suite.contestants import OURS_RUNTIME
from benchmarks.suite.rows import ROWS
from benchmarks.suite.tune import Wanted

KEYS: Final = ("case", "threads", "trials", "seed")
SEARCHED, DELIVERED = "searched", "delivered"
APART: Final = 0.05  # relative difference from which a row is listed


def raced(case: str, path: Path, target: Target) -> Row:
    """Time both forms of a kernel in turns; return seconds and spread of each, or the failure."""
    dag = ROWS[case].dag(constant_weights=False)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
    plan = plan_from_text(dag, target, json.dumps(manifest["plan"]))
    program = bind(plan, tuple(manifest["row"]), target)
    forms: dict[str, Program | Kernel] = {
        SEARCHED: program,
        DELIVERED: emit(program, target, target.cores),
    }
    with LocalPool(dag, target) as pool:
        found = pool.race(forms, numpy=False)
    races = {name: one for name, one in found.items() if isinstance(one, PairedTimes)}
    if len(races) < len(forms):
        return {"failed": {n: one.message for n, one in found.items() if isinstance(one, Failed)}}
    row: Row = {f"{name}_s": one.median_s for name, one in races.items()}
    return {**row, "spread": max(one.spread for one in races.values())}


def ratio(row: Row) -> float | None:
    """Return the time of the delivered form divided by the time of the timed form."""
    if "failed" in row:
        return None
    found: float = row["delivered_s"] / row["searched_s"]
    return found


def page(rows: list[Row], machine: Row) -> str:
    """Return the Markdown page, for one number of threads."""
    ratios = {row["case"]: found for row in rows if (found := ratio(row)) is not None}
    body = table(
        rows,
        {
            "row": lambda r: CASES[r["case"]].title,
            "searched": lambda r: duration(r.get("searched_s")),
            "delivered": lambda r: duration(r.get("delivered_s")),
            "delivered takes": lambda r: times(ratio(r)) if "failed" not in r else "failed",
            "spread": lambda r: percent(r.get("spread")),
        },
    )
    far = [CASES[case].title for case, found in ratios.items() if abs(found - 1) > APART]
    told = f"More than {APART:.0%} apart: {', '.join(far)}." if far else ""
    average = exp(mean(map(log, ratios.values()))) if ratios else 1.0
    return (
        f"# Searched and delivered\n\n{machine['model']}, {rows[0]['threads']} thread(s). What is"
        f" delivered takes {average:.3f} times as long in the mean of {len(ratios)} rows. {told}"
        f"\n\n{body}\nMedians of three fresh processes, both forms in turns. Spread: of the two"
        " forms the larger distance between the slowest and the fastest process, over the median.\n"
    )


def main() -> None:
    """Time the missing rows; write JSON and table."""
    args = arguments(__doc__, "delivered", trials=128).parse_args()
    facts = run_facts(args.threads, args.seed, trials=args.trials)
    results = Results(args.out, KEYS, facts, args.fresh)
    target = local_target(args.threads)
    for case in chosen(CASES, args.only):
        key = {
            "case": case, "threads": args.threads, "trials": args.trials, "seed": args.seed,
        }  # fmt: skip
        path = Wanted(case, OURS_RUNTIME, args.threads, args.trials, None, args.seed).path
        if results.find(**key) is not None or not path.exists():
            continue
        row = {**key, **raced(case, path, target)}
        results.add(row)
        say(f"{case}: {row.get('failed') or times(ratio(row))}")
    mine = [row for row in results.rows if row["threads"] == args.threads]
    if not mine:
        raise SystemExit("no kernels: python -m benchmarks.suite.tune makes them")
    publish(args.out, page(mine, facts["machine"]))
    print(page(mine, facts["machine"]))


if __name__ == "__main__":
    main()
