"""The end of a task: the race against the baselines, and the zip of the winner."""

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

from ansorpy.artifact import make_test
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.measure.timing.own_kernel import OWN, PEER
from ansorpy.measure.timing.paired_benchmark import NUMPY
from ansorpy.records import RacedOwn
from ansorpy.search import Candidate
from ansorpy.tuner.race.contestant import Code, Contestant, untuned
from ansorpy.tuner.race.form import DeliveredForm, Finalists, RaceResult
from ansorpy.tuner.race.race_record import race_of
from ansorpy.tuner.race.ranking import NAIVE, Ranking, rank
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.twins import written


def race(
    task: Task,
    form: DeliveredForm[Code],
    finalists: Finalists[Code],
    pool: RacePool,
    request: str,
    clock: Callable[[], float] = time.time,
    late: Callable[[], bool] = lambda: False,
    expected_s: float | None = None,
) -> RaceResult[Code] | list[Failed]:
    """Race the finalists against the untuned kernel; return the kernel to deliver.

    Without any kernel that survives the checks in its delivered form: the failures. A finalist that
    does not is one more failure of the task, and the next one in the race is delivered.

    Args:
        finalists: as they would be delivered, the most promising first.
        late: once it says so, one process of the race has to be enough.
        expected_s: time of a finalist if there was no trial, for the patience with the untuned one.
    """
    entries: dict[str, Contestant[Code] | Failed] = {NAIVE: untuned(task, form.emit)}
    named = {f"tuned {place}": candidate for place, candidate in enumerate(finalists)}
    entries |= {name: finalists[candidate] for name, candidate in named.items()}
    fit = {name: entry for name, entry in entries.items() if not isinstance(entry, Failed)}
    test_of = cache(partial(make_test, task.dag))

    def prepare_tests() -> None:
        """Make the parts of the delivered files that depend on no time."""
        for entry in fit.values():
            test_of(entry.program.meaning)

    kernels = {name: entry.kernel for name, entry in fit.items()}
    best_s = expected_s if task.best_s is None else task.best_s
    costs_s = {name: task.history.costs_s.get(candidate) for name, candidate in named.items()}
    times, slowdown = form.hold(task, kernels, pool, best_s, costs_s, late, prepare_tests)

    def record(entry: Contestant[Code], ranking: Ranking) -> RaceResult[Code] | Failed:
        # The untuned kernel may have run the first case only.
        wrong = pool.verify(entry.kernel) if ranking.chosen == NAIVE else None
        if wrong is not None:
            return wrong
        test = test_of(entry.program.meaning)
        raced = race_of(task, entry, ranking, test, request, slowdown)
        return form.recorded(task, pool, entry, raced, clock(), late())

    return settle(task, named, entries, times, record)


def settle(
    task: Task,
    named: Mapping[str, Candidate],
    entries: Mapping[str, Contestant[Code] | Failed],
    times: Mapping[str, Times | Failed],
    record: Callable[[Contestant[Code], Ranking], RaceResult[Code] | Failed],
) -> RaceResult[Code] | list[Failed]:
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


def deliver(
    task: Task,
    form: DeliveredForm[Code],
    raced: RaceResult[Code],
    folder: Path,
    best_so_far: bool = False,
) -> Path:
    """Write the zip, and one for each twin under its own names; return the zip of the task.

    Args:
        best_so_far: the search goes on; the manifests say so.

    Raises:
        BuildError: a file of the kernel cannot be made.
    """
    return written(task, lambda dag: form.write(task, dag, raced, folder, best_so_far))
