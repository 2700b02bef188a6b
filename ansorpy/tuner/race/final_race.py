"""The end of a task: the race against the baselines, and the zip of the winner."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from hashlib import sha256
from math import inf
from pathlib import Path
from statistics import median
from typing import Final

from ansorpy.artifact import Test, make_test, pack
from ansorpy.artifact.archive import kernel_files
from ansorpy.artifact.kernel_file import helpers_text, output_names
from ansorpy.artifact.rate import rate_of
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.events import TaskResult
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.measure.timing.own_kernel import OwnKernel
from ansorpy.measure.verify.inputs import constants
from ansorpy.records import Record
from ansorpy.search import Candidate
from ansorpy.tuner.race.contestant import Contestant, untuned
from ansorpy.tuner.race.ranking import NAIVE, Ranking, Winner
from ansorpy.tuner.race.settle import race_of, record_of, settle
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.twins import renamed, schedule_of
from ansorpy.verdict import BUSY, verdict_of_race

LATE: Final = "not exported: no time was left"
OUTCLASSED = 20.0  # times the best trial
OUTCLASSED_S = 1.0
RACES: Final = 3  # on a busy machine
WINNERS: Final[Mapping[str, Winner]] = {"tuned": "tuned", "baseline": "baseline", "own": "own"}


@dataclass(frozen=True, slots=True)
class RaceResult:
    """A finished race: the record that ends the tuning, and the delivered kernel.

    `native` is the verified library of the same program, or why there is none.
    """

    record: Record
    entry: Contestant
    native: Library | str

    @property
    def best_s(self) -> float:
        """The fastest sample of the delivered kernel."""
        assert self.record.race is not None
        return self.record.race.best_s


def race(
    task: Task,
    finalists: Mapping[Candidate, Contestant | Failed],
    pool: RacePool,
    request: str,
    clock: Callable[[], float] = time.time,
    late: Callable[[], bool] = lambda: False,
    own: Sequence[OwnKernel] = (),
    peers: bool = False,
    expected_s: float | None = None,
) -> RaceResult | list[Failed]:
    """Race the finalists against the untuned kernel and NumPy; return the kernel to deliver.

    The delivered file was called once as its user calls it. Without any kernel that survives the
    checks in its delivered form: the failures. A finalist that does not is one more failure of the
    task, and the next one in the race is delivered.

    Args:
        finalists: as they would be delivered, the most promising first.
        late: once it says so, one process of the race has to be enough.
        own: kernels of the user's own, which are timed and told, and never delivered.
        peers: installed libraries are timed and told, too, and never win.
        expected_s: time of a finalist if there was no trial, for the patience with the untuned one.
    """
    entries: dict[str, Contestant | Failed] = {NAIVE: untuned(task)}
    named = {f"tuned {place}": candidate for place, candidate in enumerate(finalists)}
    entries |= {name: finalists[candidate] for name, candidate in named.items()}
    fit = {name: e for name, e in entries.items() if isinstance(e, Contestant)}
    kernels_of = {name: entry.kernel for name, entry in fit.items()}
    test_of = cache(partial(make_test, task.dag))

    def prepare_files() -> None:
        """Make the parts of the delivered files that depend on no time."""
        helpers_text()
        for kernel in kernels_of.values():
            test_of(kernel.meaning)

    best_s = expected_s if task.best_s is None else task.best_s

    def hold() -> dict[str, Times | Failed]:
        return pool.race(
            kernels_of, first_case_s=patience(best_s), late=late, beside=prepare_files,
            own=own, peers=peers,
        )  # fmt: skip

    costs_s = {name: task.history.costs_s.get(candidate) for name, candidate in named.items()}
    times, slowdown = calm_race(hold, costs_s, late)

    def record(entry: Contestant, ranking: Ranking) -> RaceResult | Failed:
        # The untuned kernel may have run the first case only.
        wrong = pool.verify(entry.kernel) if ranking.chosen == NAIVE else None
        test = test_of(entry.kernel.meaning)
        done = task, pool, entry, ranking, test, request, clock()
        return wrong or recorded(*done, slowdown, late())

    return settle(task, named, entries, times, record)


def calm_race(
    hold: Callable[[], dict[str, Times | Failed]],
    costs_s: Mapping[str, float | None],
    late: Callable[[], bool],
) -> tuple[dict[str, Times | Failed], float]:
    """Hold a race, again while the machine is slow, RACES times at most; return the calmest.

    Args:
        costs_s: of the finalists by name, in seconds: their times in trials on a quiet machine.
        late: once it says so, no race is repeated.

    Returns:
        The times of the race, and the slowdown of the machine during it.
    """
    best: tuple[dict[str, Times | Failed], float] = {}, inf
    for _ in range(RACES):
        times = hold()
        slowdown = slowdown_of(times, costs_s)
        if slowdown < best[1]:
            best = times, slowdown
        if best[1] <= BUSY or late():
            break
    return best


def slowdown_of(times: Mapping[str, Times | Failed], costs_s: Mapping[str, float | None]) -> float:
    """Return how many times as long finalists took in a race as in trials: the median.

    A cost is corrected for the machine (ADR-0074), a time of a race is not. 1.0 without a finalist
    of both; never below, because costs are the luckiest of many.
    """
    ratios = [
        found.median_s / cost_s
        for name, cost_s in costs_s.items()
        if cost_s and isinstance(found := times.get(name), Times)
    ]
    return max(1.0, median(ratios)) if ratios else 1.0


def recorded(
    task: Task,
    pool: RacePool,
    entry: Contestant,
    ranking: Ranking,
    test: Test,
    request: str,
    now_s: float,
    slowdown: float = 1.0,
    late: bool = False,
) -> RaceResult | Failed:
    """Return a finished race as a record with its delivered kernel, or the failure of its file.

    The file that is to be delivered is called as its user will call it. That goes on beside the
    export of the library, for which there is no time if it is late.
    """
    result = replace(
        race_of(task, entry, ranking, test, request),
        peak_flop_per_s=pool.attainable_flop_per_s(),
        slowdown=slowdown,
    )
    files = kernel_files(task.dag, entry.kernel, entry.schedule, result, task.target)
    end_call = pool.begin_call(files, entry.kernel.meaning)
    library, digest, native_s = (LATE, "", ()) if late else exported(task, pool, entry)
    compile_s = end_call()
    if isinstance(compile_s, Failed):
        return compile_s
    result = replace(
        result,
        native_sha256=digest,
        native_s=native_s,
        native_note=library if isinstance(library, str) else "",
    )
    source = sha256(entry.kernel.source.encode()).hexdigest()
    record = record_of(task, entry, result, source, now_s, compile_s)
    return RaceResult(record, entry, library)


def sealed(task: Task, raced: RaceResult, request: str) -> RaceResult:
    """Return a race as the answer to a request, after a search that found nothing better."""
    race = raced.record.race
    assert race is not None
    trials = task.history.trials + task.history.known
    ended = replace(race, request=request, trials=trials, seconds=task.history.seconds)
    return replace(raced, record=replace(raced.record, race=ended))


def patience(best_s: float | None) -> dict[str, float]:
    """Return how many seconds the untuned kernel may take where there is a tuned one.

    It may be hundreds of times slower: then it is out of the race without having run to the end.

    Args:
        best_s: time of the tuned kernel in seconds; None if there is none.
    """
    return {} if best_s is None else {NAIVE: max(OUTCLASSED_S, OUTCLASSED * best_s)}


def exported(
    task: Task, pool: RacePool, entry: Contestant
) -> tuple[Library | str, str, tuple[float, ...]]:
    """Return the verified library of a kernel, the digest of its object, and its times.

    Where none could be made: why, "" and ().
    """
    done = pool.export(export_of(task, entry))
    if isinstance(done, Failed):
        return f"not exported: {done.message}", "", ()
    return done.library, done.library.object_sha256, done.outcome.times_s


def export_of(task: Task, entry: Contestant) -> Export:
    """Return the export of a kernel as a library; equal kernels have equal symbols."""
    return export_program(task, entry.program, entry.kernel.source)


def export_program(task: Task, program: Program, text: str) -> Export:
    """Return the export of a program as a library; `text` identifies the program."""
    return Export(
        program=program,
        inputs=tuple(node.name for node in task.dag.placeholders),
        outputs=output_names(task.dag),
        constants={name: array.tobytes() for name, array in constants(task.dag).items()},
        prefix=f"ansorpy_{sha256(text.encode()).hexdigest()[:12]}",
    )


def deliver(
    task: Task,
    record: Record,
    entry: Contestant,
    native: Library | str,
    folder: Path,
    best_so_far: bool = False,
) -> Path:
    """Write the zip, and one for each twin under its own names; return the zip of the task.

    Args:
        best_so_far: the search goes on; the manifests say so.
    """
    written = []
    for dag in (task.dag, *task.identity.twins):
        kernel = replace(entry.kernel, buffers=renamed(entry.kernel.buffers, task, dag))
        library = native
        if isinstance(native, Library):
            library = replace(native, buffers=renamed(native.buffers, task, dag))
        schedule = schedule_of(entry.schedule, task, dag)
        path = pack(folder, dag, kernel, schedule, record, task.target, library, best_so_far)
        written.append(path)
    return written[0]


def result_of(task: Task, record: Record, path: Path, from_store: bool = False) -> TaskResult:
    """Return the result of a task that was raced."""
    outcome = record.race
    assert outcome is not None
    rate = rate_of(task.dag, outcome)
    return TaskResult(
        name=task.name,
        key=task.key,
        best_s=outcome.best_s,
        baseline_s=outcome.baseline_s,
        trials=task.history.trials,
        seconds=task.history.seconds,
        verified=True,
        winner=WINNERS[outcome.winner],
        own=outcome.own,
        peers=outcome.peers,
        kernel=path,
        flop=task.identity.flop,
        naive_s=min(outcome.naive_s, default=None),
        numpy_s=min(outcome.numpy_s, default=None),
        numpy_note=outcome.numpy_note,
        failures=dict(task.history.failures),
        examples=dict(task.history.examples),
        from_store=from_store,
        rate=rate,
        candidate=(record.plan, record.row) if outcome.delivered == "tuned" else None,
        compile_s=record.compile_s,
        verdict=verdict_of_race(outcome, task.target.cores),
    )


def empty_result(task: Task, failures: list[Failed]) -> TaskResult:
    """Return the result of a task of which nothing survived."""
    task.history.note(failures)
    return TaskResult(
        name=task.name,
        key=task.key,
        best_s=None,
        baseline_s=None,
        trials=task.history.trials,
        seconds=task.history.seconds,
        verified=False,
        winner=None,
        kernel=None,
        flop=task.identity.flop,
        failures=dict(task.history.failures),
        examples=dict(task.history.examples),
    )
