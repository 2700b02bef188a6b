"""The end of a race: the fastest kernel that passes its last checks is delivered and recorded."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Protocol, TypeVar

from ansorpy.artifact import Test
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.measure.timing.own_kernel import OWN, PEER
from ansorpy.measure.timing.paired_benchmark import NUMPY
from ansorpy.records import Race, RacedOwn, Record
from ansorpy.search import Candidate
from ansorpy.tuner.race.ranking import NAIVE, Ranking, rank
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.trust import versions

Entry = TypeVar("Entry")
Raced = TypeVar("Raced")


class Entrant(Protocol):
    """A kernel in a race, of any back end."""

    @property
    def plan(self) -> str:
        """The text of its plan."""
        ...

    @property
    def row(self) -> tuple[int, ...]:
        """Its sizes."""
        ...

    @property
    def reformulated(self) -> str:
        """Its reformulations, for people; "": none."""
        ...

    @property
    def flop(self) -> int:
        """The operations that it executes."""
        ...


def settle(
    task: Task,
    named: Mapping[str, Candidate],
    entries: Mapping[str, Entry | Failed],
    times: Mapping[str, Times | Failed],
    record: Callable[[Entry, Ranking], Raced | Failed],
) -> Raced | list[Failed]:
    """Return the race as `record` makes it; without a kernel that survives, the failures.

    A finalist that fails is one more failure of the task, and the next one is taken.

    Args:
        named: the finalists among the entries.
        entries: kernels as they would be delivered; those that could not be built are failures.
        times: of the entries that were built, of NumPy, of kernels of the user's own, and of
            libraries.
        record: checks a kernel as it is delivered, and makes the record.
    """
    fit = {name: entry for name, entry in entries.items() if not isinstance(entry, Failed)}
    finished = {name: t for name, t in times.items() if isinstance(t, Times)}
    failed = {n: one for n, one in {**entries, **times}.items() if isinstance(one, Failed)}
    without = failed.pop(NUMPY, None)
    own, peers = (
        tuple(
            RacedOwn(name.removeprefix(kind), (), failed.pop(name).message)
            for name in list(failed)
            if name.startswith(kind)
        )
        for kind in (OWN, PEER)
    )
    for name, candidate in named.items():
        if name in failed:
            task.history.discard(candidate, failed[name])
    note = "" if without is None else without.message
    while any(name in finished for name in (named if task.space.fixed else fit)):
        ranking = rank(finished, note, task.space.fixed)
        ranking = replace(ranking, own=(*ranking.own, *own), peers=(*ranking.peers, *peers))
        raced = record(fit[ranking.chosen], ranking)
        if not isinstance(raced, Failed):
            return raced
        del finished[ranking.chosen]
        failed[ranking.chosen] = raced
        if ranking.chosen in named:
            task.history.discard(named[ranking.chosen], raced)
    return [one for name, one in failed.items() if name not in named]


def race_of(task: Task, entry: Entrant, ranking: Ranking, test: Test, request: str) -> Race:
    """Return the race of a task that `ranking` ended, without facts of one back end alone.

    Args:
        entry: the kernel to deliver.
        test: the check of the delivered kernel.
        request: the digest of the request that the kernel answers.
    """
    return Race(
        winner=ranking.winner,
        delivered="naive" if ranking.chosen == NAIVE else "tuned",
        tuned_s=ranking.tuned_s,
        naive_s=ranking.naive_s,
        numpy_s=ranking.numpy_s,
        span=(test.low, test.high),
        tolerances=test.tolerances,
        magnitude=test.magnitude,
        trials=task.history.trials + task.history.known,
        seconds=task.history.seconds,
        request=request,
        reformulated=entry.reformulated,
        errors=ranking.errors,
        flop=entry.flop,
        numpy_note=ranking.numpy_note,
        own=ranking.own,
        peers=ranking.peers,
    )


def record_of(
    task: Task, entry: Entrant, race: Race, digest: str, now_s: float, compile_s: float = 0.0
) -> Record:
    """Return the record of a race that delivers `entry`.

    Args:
        digest: sha256 of the delivered source in hex.
        now_s: Unix time in seconds.
        compile_s: seconds in which `entry` was compiled as it is delivered; 0.0: not known.
    """
    return Record(
        key=task.key,
        workload=task.identity.workload,
        rules=task.identity.rules,
        plan=entry.plan,
        row=entry.row,
        outcome=Measured(race.delivered_s, build_s=compile_s),
        source_sha256=digest,
        versions=versions(task.dag),
        created_s=now_s,
        race=race,
        parts=task.identity.parts,
        **task.identity.carried,
    )
