"""One search on several machines: its rate, and the trials that faults cost.

    python -m benchmarks.cluster rate [--way processes|namespaces]
    python -m benchmarks.cluster partition [--times 20]
    python -m benchmarks.cluster kill [--times 5]
    python -m benchmarks.cluster shares [--trials 512]
    python -m benchmarks.cluster storm
    python -m benchmarks.cluster flight [--times 5]
    python -m benchmarks.cluster cores
    python -m benchmarks.cluster join

`shares` are two tunings of two tenants on two machines, `storm` 1,000 candidates that crash and 100
that hang, `flight` the best time of searches with four rounds under way against one, `cores` the
rate of real trials on one and on two cores, `join` a machine that comes in the middle of a search.
All but `flight` and `cores` need the extra ray; `namespaces` and `partition` need root, and make
network namespaces with a bridge: each is a machine of its own to Ray. But for `storm`, `flight` and
`cores`, slots take a measured duration per candidate in place of builds and timings, so that many
of them fit on two cores (`tests.cluster.formula_slot`). Rows go to results/cluster.json and
cluster.md.
"""

import argparse
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from itertools import pairwise
from math import exp, log
from multiprocessing import get_context
from pathlib import Path
from statistics import mean, median
from typing import Final, NamedTuple

from ansorpy.cluster.pool import ClusterBackEnd
from ansorpy.cluster.processes import MAIN, ProcessSlots
from ansorpy.cluster.ray.environment import TOKEN_FILE
from ansorpy.events import Derived, Finished, RoundDone
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.cores import usable_cores
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.records import MemoryStore, Record
from ansorpy.rules import CPU
from ansorpy.tuner.parts.pools import CLUSTER_POOLS, Pools
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.history import cost_of
from ansorpy.tuner.tune import run
from benchmarks.cluster_machines import (
    CANDIDATE_S,
    MODULE,
    UP_S,
    KeptSlots,
    cluster,
    clusters,
    complete,
    ip,
    kept,
    started,
)  # fmt: skip
from benchmarks.common import RESULTS, Results, Row, publish, say, table
from benchmarks.machine import run_facts
from tests.kill.processes import processes
from tests.measure.fake import BACKEND, matmul, program

TEXT: Final = "def mm(float(512,512) A, float(512,512) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
WORDS: Final = {  # words of the command of a process, by its kind
    "slot": (f"-m {MODULE}",),
    "node": ("raylet/raylet", "ansorpy_slot_0"),
    "head": ("gcs/gcs_server",),
}
CRASHES: Final = 1000
HANGS: Final = 100


def search(slots: KeptSlots, trials: int) -> tuple[float, list[Record]]:
    """Return the seconds and the trials of a search on slots."""
    target = local_target(1)
    settings = MeasureSettings(run_timeout_s=2.0)
    return searched(ClusterBackEnd(slots, target, settings), trials)


def searched(back_end: ClusterBackEnd, trials: int, seed: int = 0) -> tuple[float, list[Record]]:
    """Return the seconds from the first to the last round of a search, and its trials."""
    store = MemoryStore()
    request = Request(
        parse(TEXT), local_target(1), trials=trials, fresh=True, first_answer=False, race=False,
        seed=seed,
    )  # fmt: skip
    begin_s = end_s = time.monotonic()
    with tempfile.TemporaryDirectory() as out:
        pools = Pools(back_end, most=CLUSTER_POOLS)
        for event in run(request, CPU, store, Path(out), pools=lambda: pools):
            if isinstance(event, Derived):
                begin_s = time.monotonic()
            if isinstance(event, RoundDone):
                end_s = time.monotonic()
            if isinstance(event, Finished) and event.stopped != "trials":
                raise SystemExit(f"the search stopped: {event.stopped}")
    return end_s - begin_s, [one for one in store.export() if one.race is None]


def judged(records: Sequence[Record], trials: int) -> Row:
    """Return the number of trials that were lost, made twice, and failed."""
    keys = [(one.plan, one.row) for one in records]
    failed = sum(isinstance(one.outcome, Failed) for one in records)
    return {"lost": trials - len({*keys}), "twice": len(keys) - len({*keys}), "failed": failed}


def rates(results: Results, way: str, counts: Sequence[int], trials: int) -> None:
    """Measure trials per second with several numbers of machines."""
    for count in counts:
        with cluster(way, count) as slots:
            seconds, records = search(slots, trials)
        row = {"experiment": "rate", "way": way, "count": count, "seconds": seconds}
        results.add({**row, "rate": trials / seconds, **judged(records, trials)})
        say(f"{way}, {count} machines: {trials / seconds:.1f} trials/s")


def disturbed(
    results: Results, kind: str, way: str, times: int, trials: int,
    disturb: Callable[[KeptSlots], float],
) -> None:  # fmt: skip
    """Search several times on two machines, each time disturbed after 2 s."""
    total = dict.fromkeys(("lost", "twice", "failed"), 0)
    longest = 0.0
    with cluster(way, 2) as slots:
        for number in range(times):
            if not complete(slots, 2):
                raise SystemExit(f"{kind}: a machine did not come back")
            with ThreadPoolExecutor(1) as thread:
                disturbing = thread.submit(later, disturb, slots)
                seconds, records = search(slots, trials)
                noticed_s = disturbing.result()
            found = judged(records, trials)
            total = {name: total[name] + found[name] for name in total}
            longest = max(longest, noticed_s)
            say(f"{kind} {number + 1}: noticed after {noticed_s:.1f} s of {seconds:.1f}, {found}")
    row = {"experiment": kind, "way": way, "count": times, "seconds": longest, "rate": 0.0}
    results.add({**row, **total})


def later(disturb: Callable[[KeptSlots], float], slots: KeptSlots) -> float:
    """Disturb a search that has begun."""
    time.sleep(2.0)
    return disturb(slots)


def cut(slots: KeptSlots) -> float:
    """Take the link of a machine down; return the seconds until its slot is gone; link up."""
    ip("link set anpv1 down")
    noticed_s = seconds_until_lost(slots)
    ip("link set anpv1 up")
    return noticed_s


def seconds_until_lost(slots: KeptSlots) -> float:
    """Return the seconds until a slot that is there is known to be lost."""
    begin_s, before = time.monotonic(), {*slots.present()}
    while before <= {*slots.present()} and time.monotonic() < begin_s + UP_S:
        time.sleep(0.05)
    return time.monotonic() - begin_s


def kill(kind: str, slots: KeptSlots) -> float:
    """Send SIGKILL to a process of a kind; return the seconds until slots are gone."""
    if kind == "bridge":
        os.kill(slots.bridge.process.pid, signal.SIGKILL)
    else:
        os.kill(max(of_cluster(*WORDS[kind])), signal.SIGKILL)
    return seconds_until_lost(slots)


def of_cluster(*words: str) -> list[int]:
    """Return the processes of the cluster's machines whose commands have some words."""
    found = []
    for one in processes(os.environ[TOKEN_FILE]):
        with suppress(OSError):
            command = Path(f"/proc/{one.pid}/cmdline").read_text().replace("\0", " ")
            if all(word in command for word in words):
                found.append(one.pid)
    return found


def shared(results: Results, trials: int) -> None:
    """Let two tenants search at once on two machines."""
    with tempfile.TemporaryDirectory() as folder:
        count, parts, overlaps, seconds = shares_of(Path(folder) / "trace", trials)
    note = (
        f"of {count} trials while both searched the tenant with more of them had {max(parts):.1%}"
        f" of a slot; {overlaps} trials overlapped another one on their slot"
    )
    say(note)
    row = {"experiment": "shares", "way": "processes", "count": 2, "seconds": seconds}
    results.add({**row, "rate": count / seconds, "lost": 0, "twice": 0, "failed": 0, "note": note})


def shares_of(trace: Path, trials: int) -> tuple[int, list[float], int, float]:
    """Search for two tenants at once on two machines, and look at the time that both searched.

    Return the number of its trials, the larger tenant's part of each slot, the number of trials
    that overlapped another one on their slot, and the seconds.
    """
    trace.touch()
    with (
        ProcessPoolExecutor(2, get_context("spawn")) as children,
        clusters("processes", 2, [], trace=str(trace)) as (head, _),
    ):
        work = [children.submit(tenant_search, head, name, trials) for name in ("a", "b")]
        begins_s, ends_s = zip(*(one.result() for one in work), strict=True)
    lines = trace.read_text().splitlines()
    intervals = sorted(Interval(*map(float, line.split())) for line in lines)
    begin_s, end_s = max(begins_s), min(ends_s)
    overlaps = sum(
        one.slot == other.slot and other.begin_s < one.end_s for one, other in pairwise(intervals)
    )
    inside = [one for one in intervals if begin_s <= one.begin_s and one.end_s <= end_s]
    parts = [
        max(Counter(one.daemon for one in inside if one.slot == slot).values())
        / sum(one.slot == slot for one in inside)
        for slot in {one.slot for one in inside}
    ]
    return len(inside), parts, overlaps, end_s - begin_s


class Interval(NamedTuple):
    """A trial: ids of its slot and daemon, and its time."""

    slot: float
    begin_s: float
    end_s: float
    daemon: float


def tenant_search(head: str, tenant: str, trials: int) -> tuple[float, float]:
    """Search for a tenant; return the monotonic seconds of begin and end."""
    slots = kept(head, tenant, MODULE)
    if not complete(slots, 2):
        raise SystemExit("the slots did not come")
    begin_s = time.monotonic()
    search(slots, trials)
    end_s = time.monotonic()
    slots.end()
    return begin_s, end_s


def storm(results: Results) -> None:
    """Measure candidates that crash or hang on two machines with the real daemon."""
    dag = matmul()
    settings = MeasureSettings(backend=BACKEND, run_timeout_s=0.5)
    names = ["crash", "hang"] * HANGS + ["crash"] * (CRASHES - HANGS)
    with clusters("processes", 2, ["one"], MAIN) as (_, (slots,)):
        begin_s = time.monotonic()
        back_end = ClusterBackEnd(slots, local_target(2), settings)
        pool = back_end.open(dag, local_target(2), 0)
        outcomes = pool.measure([program(name, dag) for name in names])
        seconds = time.monotonic() - begin_s
        kinds = Counter(one.kind for one in outcomes if isinstance(one, Failed))
        alive = [pool.measure([program("good", dag)]) for _ in range(4)]
        stuck = sum(not isinstance(one, Measured) for (one,) in alive)
        running = of_cluster()
        pool.close()
    time.sleep(5.0)
    left = of_cluster()
    say(f"storm: {dict(kinds)} in {seconds:.1f} s, {stuck} of 4 later trials failed,"
        f" {len(left)} of {len(running)} processes left")  # fmt: skip
    row = {"experiment": "storm", "way": "processes", "count": 2, "seconds": seconds}
    results.add({
        **row, "rate": len(names) / seconds, "lost": outcomes.count(None), "twice": 0,
        "failed": sum(kinds.values()),
        "note": f"{kinds['crash']} crashes, {kinds['run-timeout']} time-outs, {stuck} of 4 later"
        f" trials failed, {len(left)} of {len(running)} processes left",
    })  # fmt: skip


class InFlight(ClusterBackEnd):
    """Slots with a fixed number of rounds under way."""

    fixed = 1

    def rounds(self) -> int:
        """Return the fixed number."""
        return self.fixed


def real_search(
    sets: Sequence[Sequence[int]], rounds: int, seed: int, trials: int
) -> tuple[float, float]:
    """Return the trials per second of a real search on core sets, and its best time in seconds."""
    back_end = InFlight(ProcessSlots(sets), local_target(1), MeasureSettings())
    back_end.fixed = rounds
    seconds, records = searched(back_end, trials, seed)
    return trials / seconds, min(cost_of(one.outcome) for one in records)


def in_flight(results: Results, times: int, trials: int) -> None:
    """Compare the best of real searches with four rounds under way and with one, in turns.

    One core measures, the other one has the driver.
    """
    sets = [usable_cores()[-1:]]
    ratios, begin_s = [], time.monotonic()
    for seed in range(times):
        alone, four = (real_search(sets, rounds, seed, trials)[1] for rounds in (1, 4))
        ratios.append(four / alone)
        say(f"seed {seed}: best {alone * 1e6:.1f} us, with four rounds {four * 1e6:.1f} us")
    row = {"experiment": "flight", "way": "one core", "count": times, "rate": 0.0}
    results.add({
        **row, "seconds": time.monotonic() - begin_s, "lost": 0, "twice": 0, "failed": 0,
        "note": f"best at {trials} trials, four rounds under way in place of one: geometric mean"
        f" {exp(mean(map(log, ratios))):.3f} of the time ({min(ratios):.3f} to {max(ratios):.3f})",
    })  # fmt: skip


def cores(results: Results, times: int, trials: int) -> None:
    """Measure the rate of real searches on one and on two slots of one core, in turns.

    The driver has no core of its own.
    """
    rates: dict[int, list[float]] = {1: [], 2: []}
    for seed in range(times):
        for count in rates:
            sets = [(core,) for core in usable_cores()[-count:]]
            rates[count].append(real_search(sets, count, seed, trials)[0])
            say(f"{count} slots of one core: {rates[count][-1]:.1f} trials/s")
    ratios = [two / alone for alone, two in zip(*rates.values(), strict=True)]
    for count, found in rates.items():
        row = {"experiment": "real rate", "way": "slots of one core", "count": count}
        rate = median(found)
        note = f"{median(ratios):.2f} times one slot" if count > 1 else ""
        results.add({
            **row, "seconds": trials / rate, "rate": rate, "lost": 0, "twice": 0, "failed": 0,
            "note": note,
        })  # fmt: skip


def joined(results: Results, times: int, trials: int) -> None:
    """Start a second machine in the middle of a search; time its first trial."""
    longest = 0.0
    for _ in range(times):
        with tempfile.NamedTemporaryFile("r") as trace, ExitStack() as stack:
            orders = {"trace": trace.name}
            head, (slots,) = stack.enter_context(clusters("processes", 1, ["one"], **orders))
            thread = stack.enter_context(ThreadPoolExecutor(1))
            searching = thread.submit(search, slots, trials)
            time.sleep(3.0)
            begin_s = time.monotonic()
            words = "slot", "--cluster", head, "--address", "127.0.0.1"
            machine = started(words, orders, Path(os.devnull))
            stack.callback(machine.wait)
            stack.callback(machine.terminate)
            found = judged(searching.result()[1], trials)
            first: dict[str, float] = {}
            for line in trace:
                slot, trial_s, _ = line.split(" ", 2)
                first.setdefault(slot, float(trial_s))
        longest = max(longest, max(first.values()) - begin_s)
        say(f"first trial {max(first.values()) - begin_s:.1f} s after the start; {found}")
    row = {"experiment": "join", "way": "processes", "count": times, "rate": 0.0}
    note = "from the start of `ansorpy slot` to its first trial"
    results.add({**row, "seconds": longest, **found, "note": note})


def page(rows: Sequence[Row]) -> str:
    """Return the Markdown page."""
    body = table(
        rows,
        {
            "experiment": lambda one: one["experiment"],
            "machines are": lambda one: one["way"],
            "machines or repetitions": lambda one: one["count"],
            "seconds": lambda one: f"{one['seconds']:.1f}",
            "trials per second": lambda one: f"{one['rate']:.1f}" if one["rate"] else "",
            "lost": lambda one: one["lost"],
            "made twice": lambda one: one["twice"],
            "failed": lambda one: one["failed"],
            "beside": lambda one: one.get("note", ""),
        },
    )
    return (
        "# One search on several machines\n\n"
        f"{CANDIDATE_S * 1e3:.0f} ms per candidate stand for its build and its trial; proposals,"
        " training, transport and records are real. Seconds are those from the first to the last"
        " round; of a partition (a link down) and of `kill -9` the longest time until the tuning"
        " knew.\n\n" + body
    )


def main() -> None:
    """Run an experiment."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "experiment",
        choices=("rate", "partition", "kill", "shares", "storm", "flight", "cores", "join"),
    )
    parser.add_argument("--way", choices=("processes", "namespaces"), default="processes")
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 3, 4])
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--trials", type=int, default=512)
    args = parser.parse_args()
    results = Results(
        RESULTS / "cluster.json", ("experiment", "way", "count"), run_facts(1, 0), fresh=False
    )
    if args.experiment == "rate":
        rates(results, args.way, args.counts, args.trials)
    elif args.experiment == "partition":
        disturbed(results, "partition", "namespaces", args.times, args.trials, cut)
    elif args.experiment == "shares":
        shared(results, args.trials)
    elif args.experiment == "storm":
        storm(results)
    elif args.experiment in ("flight", "cores", "join"):
        measure = {"flight": in_flight, "cores": cores, "join": joined}[args.experiment]
        measure(results, args.times, args.trials)
    else:
        for kind in ("slot", "bridge", "node", "head"):
            end = partial(kill, kind)
            disturbed(results, f"kill {kind}", "processes", args.times, args.trials, end)
    publish(results.path, page(results.rows))


if __name__ == "__main__":
    main()
