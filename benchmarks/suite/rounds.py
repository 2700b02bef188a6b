"""Rounds of contests: in every round each contestant gets fresh processes, pinned to cores.

A round visits all cases at all thread counts before the next begins, so that a run that is cut
short still has every row, from fewer processes.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ansorpy.measure.cores import slot_cores
from ansorpy.measure.host import local_target
from benchmarks.common import RAW, Results, Row, duration, say
from benchmarks.suite.cases import takes_winograd
from benchmarks.suite.contest import Party, Terms, drop, hold, party, prepare
from benchmarks.suite.contestants import (
    CONTESTANTS,
    METASCHEDULE,
    OURS,
    OURS_64,
    OURS_64_WINOGRAD,
    WITH_WINOGRAD,
    Contestant,
)
from benchmarks.suite.metaschedule import tuning_of
from benchmarks.suite.peers.tvm_peer import LIBRARY
from benchmarks.suite.rows import ROWS
from benchmarks.suite.tune import Wanted, duellists

FOLDER: Final = RAW / "suite"
KEYS: Final = ("case", "threads", "round")


@dataclass(frozen=True, slots=True)
class Plan:
    """Cases, contestants and number of rounds of the contests."""

    cases: tuple[str, ...]
    threads: tuple[int, ...]
    rounds: int
    who: tuple[Contestant, ...]
    terms: Terms
    kernels: Mapping[tuple[str, str, int], Path]  # files by case, contestant, threads


def kernel_paths(some: Sequence[Wanted], cases: Sequence[str], seed: int) -> dict[Any, Path]:
    """Return the kernel files by case, contestant and threads."""
    found = {(one.case, one.who, one.threads): one.path for one in some}
    for threads in {one.threads for one in some}:
        for case in cases:
            folder = tuning_of(case, threads, seed)
            found[case, METASCHEDULE, threads] = folder / LIBRARY
    return found


def players(plan: Plan, case: str) -> list[Contestant]:
    """Return the contestants of a contest, without equal columns of ours."""
    left_out = set()
    if not ROWS[case].has_weights:
        left_out.add(OURS)
    if not takes_winograd(case):
        left_out.update(WITH_WINOGRAD.values())
    left_out.update({OURS_64, OURS_64_WINOGRAD} - {*duellists(case)})
    return [one for one in plan.who if one.name not in left_out]


def digests(plan: Plan, case: str, threads: int) -> dict[str, str]:
    """Return short digests of the kernels of a contest: a new kernel needs a new contest."""
    found = {}
    for one in plan.who:
        path = plan.kernels.get((case, one.name, threads))
        if path is not None and path.exists():
            found[one.name] = sha256(path.read_bytes()).hexdigest()[:12]
    return found


def play(plan: Plan, pythons: Mapping[str, Path], results: Results, deadline_s: float) -> bool:
    """Hold the missing contests; return False if the deadline passed first."""
    missing = [
        (at, threads, case)
        for at in range(plan.rounds)
        for threads in plan.threads
        for case in plan.cases
        if not _done(plan, results, case, threads, at)
    ]
    begin_s, done = time.monotonic(), 0
    for at in range(plan.rounds):
        for threads in plan.threads:
            cases = [case for a, t, case in missing if (a, t) == (at, threads)]
            if not cases:
                continue
            cores = sorted(slot_cores(threads))
            if len(cores) < threads:
                say(f"{threads} threads: this process may use {len(cores)} cores; left out")
                continue
            with party(pythons, threads, cores, FOLDER / "guests.log") as guests:
                for case in cases:
                    now_s = time.monotonic()
                    if now_s > deadline_s:
                        say(f"time is up: {len(missing) - done} of {len(missing)} contests left")
                        return False
                    left = (now_s - begin_s) / done * (len(missing) - done) if done else None
                    row = _contest(plan, guests, case, threads, at)
                    results.add(row)
                    done += 1
                    say(f"{done}/{len(missing)}, {duration(left)} left: {_told(row)}")
    return True


def _done(plan: Plan, results: Results, case: str, threads: int, at: int) -> bool:
    row = results.find(case=case, threads=threads, round=at)
    if row is None:
        return False
    names = {one.name for one in players(plan, case)}
    return row["kernels"] == digests(plan, case, threads) and names <= set(row["contestants"])


def warm(plan: Plan, pythons: Mapping[str, Path]) -> None:
    """Let all contestants prepare every case once, untimed, to fill their caches.

    Libraries of Halide and torch.compile take half a minute each and do not depend on the load of
    the machine: the function may run beside other work, on any cores.
    """
    for threads in plan.threads:
        cores = sorted(slot_cores(threads))
        with party(pythons, threads, cores, FOLDER / "guests.log") as guests:
            for case in plan.cases:
                begin_s = time.monotonic()
                who, variants = players(plan, case), _variants(plan, case, threads)
                found = prepare(case, variants, who, guests, plan.terms.seed, FOLDER)
                drop(who, guests)
                failed = {name: a["failed"] for name, a in found.items() if "failed" in a}
                say(f"{case} x{threads}: {time.monotonic() - begin_s:.0f} s {failed or ''}")


def _variants(plan: Plan, case: str, threads: int) -> dict[str, str]:
    return {
        name: str(path if CONTESTANTS[name].ours else path.parent)
        for (which, name, count), path in plan.kernels.items()
        if (which, count) == (case, threads)
    }


def _contest(plan: Plan, guests: Party, case: str, threads: int, at: int) -> Row:
    begin_s = time.monotonic()
    who, variants = players(plan, case), _variants(plan, case, threads)
    row = hold(case, variants, who, guests, local_target(threads), plan.terms, FOLDER)
    return {
        **row,
        "round": at,
        "kernels": digests(plan, case, threads),
        "terms": asdict(plan.terms),
        "seconds": time.monotonic() - begin_s,
    }


def _told(row: Row) -> str:
    """Return a line about a contest: our time and the fastest three peers."""
    times = {n: a["median_s"] for n, a in row["contestants"].items() if "median_s" in a}
    ours = {n: t for n, t in times.items() if CONTESTANTS[n].ours}
    peers = sorted((t, n) for n, t in times.items() if n not in ours)[:3]
    parts = [f"{n} {duration(t)}" for n, t in ours.items()]
    parts += [f"{n} {duration(t)}" for t, n in peers]
    failed = [n for n, a in row["contestants"].items() if "failed" in a]
    more = f"; failed: {', '.join(failed)}" if failed else ""
    return f"{row['case']} x{row['threads']}: {', '.join(parts)}{more}"
