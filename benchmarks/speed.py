"""Our tuned kernels against NumPy and torch, in turns, in fresh processes.

    python -m benchmarks.speed [--trials 256] [--threads 1] [--processes 5] [--only WORKLOAD ...]

A kernel is tuned first unless its zip is in `--kernels` (WORKLOAD-TRIALSxTHREADS.zip); with
`--retune` in any case. All contestants get the same arrays; outputs are written into the same
memory at every call if the library can do so. One process is one sample, because the same machine
code may run at another speed in the next process; the FMA peak is measured in every process.
"""

import json
import os
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any, Final

from ansorpy.codegen.kernel import Kernel
from ansorpy.events import Finished
from ansorpy.loopir.nodes import Program
from ansorpy.measure.cores import exclusive, lock_folder, slot_cores
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalBackEnd, LocalPool
from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.workers.pool import THREAD_COUNTS
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Dag
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tune import run
from benchmarks.common import (
    RAW,
    Results,
    Row,
    arguments,
    chosen,
    duration,
    percent,
    publish,
    say,
    spread,
    table,
    times,
)
from benchmarks.contest import CALLED, OURS
from benchmarks.machine import has_torch, run_facts
from benchmarks.workloads import FIVE, PACKED, TITLES

WORKLOADS: Final = {**FIVE, **PACKED}
KEYS: Final = ("workload", "trials", "threads", "seed")
GOAL: Final = 0.75  # share of the FMA peak, for matmul and conv2d
PROCESS_S: Final = 300.0  # seconds until a process is killed


class OursOnly(LocalPool):
    """A pool whose final race is without NumPy: if NumPy wins, a zip has the untuned kernel."""

    def race(
        self,
        contestants: Mapping[str, Program | Kernel],
        numpy: bool = True,
        first_case_s: Mapping[str, float] | None = None,
        late: Callable[[], bool] = lambda: False,
        beside: Callable[[], object] = lambda: None,
        own: Sequence[OwnKernel] = (),
        peers: bool = False,
    ) -> dict[str, PairedTimes | Failed]:
        """Race the contestants, without NumPy and libraries."""
        return super().race(contestants, False, first_case_s, late, beside, own)


def kernel_of(workload: str, dag: Dag, args: Namespace) -> Path | None:
    """Return the zip of a tuned kernel, from the folder or from a tuning; None if none passed."""
    kept: Path = args.kernels / f"{workload}-{args.trials}x{args.threads}.zip"
    if kept.exists() and not args.retune:
        return kept
    say(f"{workload}: tuning, {args.trials} trials")
    request = Request(
        (dag,), local_target(args.threads), trials=args.trials, seed=args.seed, fresh=True
    )

    def pools() -> Pools:
        return Pools(LocalBackEnd(request.target, MeasureSettings(), OursOnly))

    for event in run(request, CPU, MemoryStore(), args.kernels / "tuned", pools=pools):
        last = event
    assert isinstance(last, Finished)
    if last.stopped == "interrupted":
        raise KeyboardInterrupt
    made = last.results[0].kernel
    if made is None:
        return None
    shutil.copyfile(made, kept)
    return kept


def contest(workload: str, kernel: Path, threads: int, visits: int) -> dict[str, Any]:
    """Run one process and return its JSON object."""
    command = [
        sys.executable, "-m", "benchmarks.contest", workload, str(kernel),
        "--threads", str(threads), "--visits", str(visits),
    ]  # fmt: skip
    counts = dict.fromkeys(THREAD_COUNTS, str(threads))
    with exclusive(slot_cores(threads), lock_folder()):
        done = subprocess.run(
            command, env={**os.environ, **counts}, cwd=Path(__file__).parents[1],
            stdout=subprocess.PIPE, text=True, check=True, timeout=PROCESS_S,
        )  # fmt: skip
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def merged(processes: Sequence[Mapping[str, Any]], flop: int) -> Row:
    """Return one row of several processes: the median of their median visits.

    Ratios and shares are formed within a process, then their median is taken: drift cancels.
    """
    names = list(processes[0]["times_s"])
    visits = [{n: median(p["times_s"][n]) for n in names} for p in processes]
    peaks = [p["fma_flop_per_s"] for p in processes]
    return {
        "flop": flop,
        "fma_flop_per_s": median(peaks),
        "times": {n: asdict(spread(v[n] for v in visits)) for n in names},
        "within": {n: median(spread(p["times_s"][n]).iqr for p in processes) for n in names},
        "share_of_fma": {
            n: median(flop / v[n] / peak for v, peak in zip(visits, peaks, strict=True))
            for n in names
        },
        "over": {n: median(v[n] / v[OURS] for v in visits) for n in names},
        "away": processes[0]["away"],
    }


def measured(workload: str, args: Namespace) -> Row | None:
    """Return the row of a workload, None if no kernel passed its checks."""
    dag = WORKLOADS[workload]()
    kernel = kernel_of(workload, dag, args)
    if kernel is None:
        return None
    processes = [
        contest(workload, kernel, args.threads, args.visits) for _ in range(args.processes)
    ]
    return {
        "workload": workload,
        "trials": args.trials,
        "threads": args.threads,
        "seed": args.seed,
        "kernel": kernel.name,
        **merged(processes, flop_count(dag)),
    }


def page(rows: Sequence[Row], machine: Row) -> str:
    """Return the Markdown page."""
    ordered = sorted(rows, key=lambda r: (r["threads"], list(TITLES).index(r["workload"])))
    lines = [{**row, "who": who} for row in ordered for who in row["times"]]
    body = table(
        lines,
        {
            "workload": lambda r: TITLES[r["workload"]],
            "who": lambda r: r["who"],
            "threads": lambda r: r["threads"],
            "median": lambda r: duration(r["times"][r["who"]]["median"]),
            "spread": lambda r: percent(r["times"][r["who"]]["most"] / _median(r) - _least(r)),
            "processes": lambda r: r["times"][r["who"]]["samples"],
            "GFLOP/s": lambda r: f"{r['flop'] / _median(r) / 1e9:.1f}",
            "of FMA peak": lambda r: percent(r["share_of_fma"][r["who"]]),
            "we are faster by": lambda r: times(r["over"][r["who"]]),
        },
    )
    goals = [r for r in ordered if r["workload"].startswith(("matmul", "conv2d"))]
    told = "; ".join(
        f"{TITLES[r['workload']]}, {r['threads']} thread(s): {r['share_of_fma'][OURS]:.0%}"
        for r in goals
    )
    torch = "" if has_torch() else " torch was not installed."
    return (
        f"# Speed against NumPy and torch\n\n{machine['model']}, {machine['vector_bits']} bits."
        f" Goal: {GOAL:.0%} of the FMA peak of the same process. {told}.{torch}\n\n{body}\n"
        f"Median over fresh processes of each process' median visit, everyone in turns, on the"
        f" same arrays; spread = distance of the extreme processes over the median. `{OURS}` and"
        f" NumPy write into the same output at every call (torch where it has `out=`);"
        f" `{CALLED}` is the call as delivered, which returns a new array. FLOP are those that"
        " ansorpy counts, bias and relu included.\n"
    )


def _median(row: Row) -> float:
    value: float = row["times"][row["who"]]["median"]
    return value


def _least(row: Row) -> float:
    value: float = row["times"][row["who"]]["least"] / _median(row)
    return value


def main() -> None:
    """Measure the missing rows; write JSON and table."""
    parser = arguments(__doc__, "speed", 256)
    parser.add_argument("--processes", type=int, default=5)
    parser.add_argument("--visits", type=int, default=15)
    parser.add_argument("--kernels", type=Path, default=RAW / "kernels", help="folder of the zips")
    parser.add_argument("--retune", action="store_true", help="tune even where there is a zip")
    args = parser.parse_args()
    args.kernels.mkdir(parents=True, exist_ok=True)
    facts = run_facts(
        args.threads, args.seed, trials=args.trials, processes=args.processes, visits=args.visits
    )
    results = Results(args.out, KEYS, facts, args.fresh)
    key = {"trials": args.trials, "threads": args.threads, "seed": args.seed}
    for workload in chosen(WORKLOADS, args.only):
        if results.find(workload=workload, **key) is not None:
            continue
        row = measured(workload, args)
        if row is None:
            say(f"{workload}: no kernel survived")
            continue
        results.add(row)
        share, over = row["share_of_fma"][OURS], times(row["over"]["numpy"])
        say(f"{workload}: {share:.0%} of the FMA peak, {over} NumPy")
        publish(args.out, page(results.rows, facts["machine"]))
    print(page(results.rows, facts["machine"]))


if __name__ == "__main__":
    main()
