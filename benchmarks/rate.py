"""Trials per second on this machine, and where their time goes.

    python -m benchmarks.rate [--trials 256] [--threads 1] [--only WORKLOAD ...]

propose, train       wall time of the engine, on one core
bind, compile        time of the builders, which work side by side, one per core
load, check, time    wall time of the slot, one trial after the other
rest                 remainder of the wall time: pipes, forks, waiting for the last builder;
                     builders and the slot overlap, so that the sum of the parts may exceed it

Bind and compile are one step of a builder; afterwards the same candidates are built again in this
process, and the time of a builder is divided in that proportion. A phase that candidates share is
compiled once there, and once per builder in the tuning (ADR-0039).
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import Any, Final

from ansorpy.codegen.compile_cache import phase_objects
from ansorpy.errors import BuildError, LoweringError
from ansorpy.events import Derived, Event, Finished, RoundDone, TimeSpent
from ansorpy.loopir.nodes import Program
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalBackEnd, LocalPool, LocalProcesses
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.measure.unbound import Unbound, bound
from ansorpy.records import MemoryStore
from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d_bias_relu, matmul_relu
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
    table,
)
from benchmarks.machine import run_facts

WORKLOADS: Final[dict[str, Callable[[], Dag]]] = {
    "matmul 512 + relu": partial(matmul_relu, 512, 512, 512),
    "conv2d 1x64x56x56, 64 3x3, + bias + relu": partial(
        conv2d_bias_relu, 1, 64, 56, 56, 64, 3, Window(padding=1)
    ),
}
KEYS: Final = ("workload", "trials", "threads", "seed")
BUILD: Final = ("bind", "compile")
PARTS: Final = ("propose", *BUILD, "load", "check", "time", "train", "rest")


@dataclass
class Log:
    """Candidates, outcomes and times of the pool of one tuning."""

    open_s: float = 0.0  # seconds for starting processes and computing references
    measure_s: float = 0.0
    candidates: list[Program | Unbound] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)


class LoggingPool(LocalPool):
    """A pool that logs its candidates, outcomes and times."""

    def __init__(
        self,
        log: Log,
        dag: Dag,
        target: Target,
        settings: MeasureSettings,
        shared: LocalProcesses,
    ) -> None:
        begin_s = time.perf_counter()
        super().__init__(dag, target, settings, shared)
        self.log = log
        log.open_s += time.perf_counter() - begin_s

    def measure(
        self,
        candidates: Sequence[Program | Unbound],
        best_s: float | None = None,
        late: Callable[[], bool] = lambda: False,
    ) -> list[Outcome | None]:
        """Return one outcome per candidate, in order."""
        begin_s = time.perf_counter()
        outcomes = super().measure(candidates, best_s, late)
        self.log.measure_s += time.perf_counter() - begin_s
        self.log.candidates += candidates
        self.log.outcomes += [outcome for outcome in outcomes if outcome is not None]
        return outcomes


def build_shares(candidates: Sequence[Program | Unbound], target: Target) -> dict[str, float]:
    """Return the parts of building: the loops, then LLVM's text and machine code."""
    spent_s = dict.fromkeys(BUILD, 0.0)
    for candidate in candidates:
        ticks = [time.perf_counter()]
        try:
            program = bound(candidate, target)
            ticks.append(time.perf_counter())
            phase_objects(program, target)
            ticks.append(time.perf_counter())
        except (BuildError, LoweringError):
            continue
        for part, (begin_s, end_s) in zip(BUILD, pairwise(ticks), strict=True):
            spent_s[part] += end_s - begin_s
    total_s = sum(spent_s.values()) or 1.0
    return {part: seconds / total_s for part, seconds in spent_s.items()}


def breakdown(
    spent: TimeSpent, outcomes: Sequence[Outcome], shares: Mapping[str, float], builders: int
) -> dict[str, float]:
    """Return the seconds of every part of the rounds; `all` is their wall time.

    Building overlaps measuring: the sum of the parts exceeds `all` if both cores work.

    Args:
        shares: of building, by part.
        builders: number of parallel builders, by which their time is divided.

    Failures of builds count towards building, all other failures towards check.
    """
    done = [outcome for outcome in outcomes if isinstance(outcome, Measured)]
    failed = [outcome for outcome in outcomes if isinstance(outcome, Failed)]
    lost_build_s = sum(f.seconds for f in failed if f.kind.startswith("build"))
    build_s = (sum(m.build_s for m in done) + lost_build_s) / builders
    parts = {
        "propose": spent.propose_s,
        **{part: build_s * share for part, share in shares.items()},
        "load": sum(m.load_s for m in done),
        "check": sum(m.check_s for m in done)
        + sum(f.seconds for f in failed if not f.kind.startswith("build")),
        "time": sum(m.run_s for m in done),
        "train": spent.train_s,
    }
    total_s = spent.propose_s + spent.measure_s + spent.train_s + spent.store_s
    return {**parts, "rest": max(0.0, total_s - sum(parts.values())), "all": total_s}


def measured(name: str, trials: int, threads: int, seed: int) -> Row:
    """Tune without records; return rate and parts."""
    target, log = local_target(threads), Log()
    request = Request((WORKLOADS[name](),), target, trials=trials, seed=seed, fresh=True)

    def pools() -> Pools:
        return Pools(LocalBackEnd(target, MeasureSettings(), partial(LoggingPool, log)))

    begin_s = time.perf_counter()
    events: list[Event] = []
    for event in run(request, CPU, MemoryStore(), RAW / "rate", pools=pools):
        events.append(event)
    total_s = time.perf_counter() - begin_s
    last = events[-1]
    assert isinstance(last, Finished)
    if last.stopped == "interrupted":
        raise KeyboardInterrupt
    rounds = [event for event in events if isinstance(event, RoundDone)]
    spent = sum((event.spent for event in rounds), TimeSpent())
    builders = len(usable_cores())
    parts = breakdown(spent, log.outcomes, build_shares(log.candidates, target), builders)
    rounds_s, result = parts["all"], last.results[0]
    derive_s = sum(event.seconds for event in events if isinstance(event, Derived))
    return {
        "workload": name,
        "trials": trials,
        "threads": threads,
        "seed": seed,
        "done": result.trials,
        "cores": builders,
        "failures": dict(result.failures),
        "best_s": result.best_s,
        "parts_s": parts,
        "derive_s": derive_s,
        "open_s": log.open_s,
        "finish_s": max(0.0, total_s - rounds_s - derive_s),
        "total_s": total_s,
        "per_second": result.trials / rounds_s,
        "per_second_in_all": result.trials / total_s,
    }


def page(rows: Sequence[Row], machine: Row) -> str:
    """Return the Markdown page."""
    whole = table(
        rows,
        {
            "workload": lambda r: r["workload"],
            "trials": lambda r: r["done"],
            "failures": lambda r: sum(r["failures"].values()),
            "trials/s in rounds": lambda r: f"{r['per_second']:.2f}",
            "trials/s in all": lambda r: f"{r['per_second_in_all']:.2f}",
            "derive": lambda r: duration(r["derive_s"]),
            "rounds": lambda r: duration(_rounds_s(r)),
            "final race, zip": lambda r: duration(r["finish_s"]),
            "best": lambda r: duration(r["best_s"]),
        },
    )

    def cell(part: str, row: Row) -> str:
        seconds = row["parts_s"][part]
        return f"{seconds / row['done'] * 1e3:.1f} ({percent(seconds / _rounds_s(row))})"

    columns: dict[str, Callable[[Row], Any]] = {"ms per trial": lambda r: r["workload"]}
    columns |= {part: partial(cell, part) for part in PARTS}
    columns["all"] = lambda r: f"{_rounds_s(r) / r['done'] * 1e3:.1f}"
    return (
        f"# Trials per second\n\n{machine['model']}, {machine['cores']} cores, kernels on"
        f" {machine['threads']} thread(s).\n\n{whole}\n{table(rows, columns)}\n"
        "Wall time of the rounds. Bind and compile happen in one builder per core: their time"
        " is divided by the number of builders. Load, check and time happen one trial after the"
        " other, beside a builder on another core, so that parts may add up to more than `all`;"
        " the start of the measuring processes is part of `rest`.\n"
    )


def _rounds_s(row: Row) -> float:
    return float(row["parts_s"]["all"])


def main() -> None:
    """Measure the missing rows; write JSON and tables."""
    parser = arguments(__doc__, "rate", 256)
    args = parser.parse_args()
    facts = run_facts(args.threads, args.seed, trials=args.trials)
    results = Results(args.out, KEYS, facts, args.fresh)
    key = {"trials": args.trials, "threads": args.threads, "seed": args.seed}
    for name in chosen(WORKLOADS, args.only):
        if results.find(workload=name, **key) is None:
            results.add(measured(name, args.trials, args.threads, args.seed))
            say(f"{name}: {results.rows[-1]['per_second']:.2f} trials/s")
            publish(args.out, page(results.rows, facts["machine"]))
    print(page(results.rows, facts["machine"]))


if __name__ == "__main__":
    main()
