"""Tune every workload of the library: best time, baselines, share of the bound, failures.

    python -m benchmarks.builders [--trials 64] [--threads 1] [--only NAME ...]

Rows are written as they finish; the next start resumes behind the last one. A row with a speed-up
below 2x names its limit.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from math import prod
from typing import Any, Final

from ansorpy.errors import AnsorError
from ansorpy.events import Derived, Event, Finished, RoundDone, TaskResult, TimeSpent
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Call, walk
from ansorpy.expr.functions import BINARY_FUNCTIONS, FUNCTIONS, TRANSCENDENTAL_ROUNDOFFS
from ansorpy.measure.host import local_target
from ansorpy.measure.roofline import copy_bytes_per_s, peak_flop_per_s
from ansorpy.records import MemoryStore, Race
from ansorpy.rules import CPU
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count
from ansorpy.te.dag import Compute, Dag
from ansorpy.topi.suites import LIBRARY
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
from benchmarks.machine import run_facts

KEYS: Final = ("name", "trials", "threads", "seed")
GOAL: Final = 2.0  # speed-up over the untuned kernel
NEAR: Final = 0.7  # share of the bound from which a kernel counts as bound by the machine
FEW: Final = 0.5  # bound / time; below it, transcendental functions count as the limit
TRANSCENDENTAL: Final = (
    *(name for name, fn in FUNCTIONS.items() if fn.roundoffs == TRANSCENDENTAL_ROUNDOFFS),
    *BINARY_FUNCTIONS,
)


@dataclass(frozen=True, slots=True)
class Bound:
    """Lower bound of the time of a workload on this machine, by memory and by multiply-adds."""

    compute_s: float
    memory_s: float

    @property
    def least_s(self) -> float:
        """The longer of both times."""
        return max(self.compute_s, self.memory_s)

    @property
    def name(self) -> str:
        """Name of the longer time."""
        return "FMA peak" if self.compute_s >= self.memory_s else "bandwidth bound"


def moved_bytes(dag: Dag) -> int:
    """Return the least memory traffic in bytes: every input and every output once."""
    read = sum(prod(node.shape) * SIZE_BYTES[node.dtype] for node in dag.placeholders)
    outputs = [node for node in map(dag.node, dag.outputs) if isinstance(node, Compute)]
    return read + sum(prod(n.shape) * SIZE_BYTES[t] for n in outputs for t in n.dtypes)


def measured_bound(dag: Dag, target: Target) -> Bound:
    """Measure the FMA peak in the dtype of the workload, and a copy as large as its data.

    Integers are compared with the float32 peak: no integer peak is measured.
    """
    wide = any("float64" in node.dtypes for node in dag.computes)
    flop_per_s = peak_flop_per_s(target, "float64" if wide else "float32", 4)
    size_bytes = moved_bytes(dag)
    bytes_per_s = copy_bytes_per_s(target.cores, size_bytes, 4)
    return Bound(flop_count(dag) / flop_per_s, size_bytes / bytes_per_s)


def calls(dag: Dag) -> int:
    """Return the least number of calls of transcendental functions in one evaluation of a Dag."""
    count = 0
    for node in dag.computes:
        found = {e for body in node.body for e in walk(body) if isinstance(e, Call)}
        count += node.points * sum(e.fn in TRANSCENDENTAL for e in found)
    return count


def reason(best_s: float, naive_s: float, bound: Bound, transcendental: int = 0) -> str:
    """Return the reason why a row is below the goal; "" if the row reaches it."""
    if naive_s / best_s >= GOAL:
        return ""
    if transcendental and bound.least_s < FEW * best_s:
        each_s = best_s / transcendental
        return (
            f"{each_s * 1e9:.2f} ns for each exp, tanh or the like: arithmetic, not memory, is the"
            " limit; LLVM's loop vectoriser makes the same vectors of the naive loops"
        )
    share, naive_share = bound.least_s / best_s, bound.least_s / naive_s
    at = f"at {share:.0%} of the {bound.name} ({duration(bound.least_s)})"
    if share >= NEAR:
        return at
    if naive_share * GOAL > 1:
        return f"{at}; the naive kernel is at {naive_share:.0%} of it, so 2x cannot be"
    return f"{at}: not yet at its limit; the naive kernel is at {naive_share:.0%}"


def tuned(dag: Dag, target: Target, trials: int, seed: int) -> Row:
    """Tune a Dag without records and return its row."""
    store, events = MemoryStore(), []
    request = Request((dag,), target, trials=trials, seed=seed, fresh=True)
    for event in run(request, CPU, store, RAW / "builders"):
        events.append(event)
    last = events[-1]
    assert isinstance(last, Finished)
    if last.stopped == "interrupted":
        raise KeyboardInterrupt
    (result,) = last.results
    races = [record.race for record in store.all(result.key) if record.race is not None]
    return {
        **_space(events),
        "flop": result.flop,
        "trials_done": result.trials,
        "winner": result.winner,
        "failures": dict(result.failures),
        "examples": dict(result.examples),
        "seconds": last.seconds,
        **(_times(races[-1], result) if races else {"best": None}),
    }


def _space(events: list[Event]) -> Row:
    spent = sum((e.spent for e in events if isinstance(e, RoundDone)), TimeSpent())
    derived = [event for event in events if isinstance(event, Derived)]
    return {
        "sketches": derived[-1].sketches,
        "plans": derived[-1].plans,
        "derive_s": sum(event.seconds for event in derived),
        "spent": asdict(spent),
    }


def _times(race: Race, result: TaskResult) -> Row:
    found: dict[str, Any] = {"verified": result.verified, "delivered": race.delivered}
    samples = {
        "best": race.tuned_s or race.naive_s, "naive": race.naive_s, "numpy": race.numpy_s
    }  # fmt: skip
    for name, seconds in samples.items():
        found[name] = asdict(spread(seconds)) if seconds else None
    return found


def finished(row: Row, dag: Dag, before: Bound, after: Bound) -> Row:
    """Return the row with its ratios; the faster of two measurements of the limits counts."""
    bound = Bound(min(before.compute_s, after.compute_s), min(before.memory_s, after.memory_s))
    limits = {"compute_s": bound.compute_s, "memory_s": bound.memory_s, "bound": bound.name}
    done = {**row, **limits, "moved_bytes": moved_bytes(dag), "reason": "nothing survived"}
    best, naive, numpy = (row.get(name) for name in ("best", "naive", "numpy"))
    if best is None or naive is None:
        return done
    return {
        **done,
        "speedup": naive["median"] / best["median"],
        "over_numpy": numpy and numpy["median"] / best["median"],
        "share": bound.least_s / best["median"],
        "share_of_fma": bound.compute_s / best["median"],
        "reason": reason(best["median"], naive["median"], bound, calls(dag)),
    }


def measured(names: list[str], trials: int, threads: int, seed: int) -> Iterator[Row]:
    """Yield a row per workload; report a failed tuning, and leave its row for the next start."""
    target = local_target(threads)
    for name in names:
        dag = LIBRARY[name]()
        before = measured_bound(dag, target)
        try:
            row = tuned(dag, target, trials, seed)
        except AnsorError as error:
            say(f"{name}: {type(error).__name__}: {error}")
            continue
        row = finished(row, dag, before, measured_bound(dag, target))
        yield {"name": name, "trials": trials, "threads": threads, "seed": seed, **row}


def rendered(rows: list[Row]) -> str:
    """Return the table."""
    return table(
        rows,
        {
            "builder": lambda r: r["name"],
            "threads": lambda r: r["threads"],
            "best": lambda r: duration(r["best"] and r["best"]["median"]),
            "spread": lambda r: percent(r["best"] and r["best"]["iqr"]),
            "GFLOP/s": lambda r: (
                f"{r['flop'] / r['best']['median'] / 1e9:.1f}" if r["best"] else "-"
            ),
            "naive": lambda r: duration(r.get("naive") and r["naive"]["median"]),
            "NumPy": lambda r: duration(r.get("numpy") and r["numpy"]["median"]),
            "over naive": lambda r: times(r.get("speedup")),
            "over NumPy": lambda r: times(r.get("over_numpy")),
            "share": lambda r: percent(r.get("share")),
            "of": lambda r: r["bound"],
            "failures": lambda r: (
                ", ".join(f"{count} {kind}" for kind, count in r["failures"].items()) or "0"
            ),
            "seconds": lambda r: f"{r['seconds']:.0f}",
            "why below 2x": lambda r: r["reason"],
        },
    )


def page(rows: list[Row], machine: Row) -> str:
    """Return the Markdown page."""
    ordered = sorted(rows, key=lambda r: (r["threads"], list(LIBRARY).index(r["name"])))
    good = sum((r.get("speedup") or 0.0) >= GOAL for r in rows)
    peak, copied = machine["fma_float32_flop_per_s"], machine["copy_bytes_per_s"]
    return (
        f"# Every builder, tuned\n\n{good} of {len(rows)} are at least {GOAL:g}x faster than their"
        f" naive kernel. {machine['model']}, {machine['vector_bits']} bits; on"
        f" {machine['threads']} thread(s) {peak / 1e9:.0f} GFLOP/s float32 FMA,"
        f" {copied / 1e9:.1f} GB/s copied in memory.\n\n{rendered(ordered)}\n"
        "Medians of the final race: our delivered source, the naive loops through the same code"
        " generator, and NumPy where it has a call per node, in turns in fresh processes; spread ="
        " distance of the quartiles over the median. Share = max(flop / FMA peak, bytes /"
        " bandwidth) over the best; the bandwidth is that of a copy with as many bytes as inputs"
        " and outputs have, both measured beside every row. A kernel that only reads may beat a"
        " copy.\n"
    )


def main() -> None:
    """Measure the missing rows; write JSON and table."""
    parser = arguments(__doc__, "builders", 64)
    args = parser.parse_args()
    facts = run_facts(args.threads, args.seed, trials=args.trials)
    results = Results(args.out, KEYS, facts, args.fresh)
    key = {"trials": args.trials, "threads": args.threads, "seed": args.seed}
    names = [n for n in chosen(LIBRARY, args.only) if results.find(name=n, **key) is None]
    for row in measured(names, args.trials, args.threads, args.seed):
        results.add(row)
        found = duration(row["best"] and row["best"]["median"])
        say(f"{row['name']}: {found}, {times(row.get('speedup'))} in {row['seconds']:.0f} s")
        publish(args.out, page(results.rows, facts["machine"]))
    print(page(results.rows, facts["machine"]))


if __name__ == "__main__":
    main()
