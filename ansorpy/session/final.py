"""The end of a task: the race against the baselines, and the zip of the winner."""

import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Literal

from ansorpy.artifact import make_test, pack
from ansorpy.artifact.kernel_file import output_names
from ansorpy.artifact.rate import rate_of
from ansorpy.codegen.exported import Export, Library
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.numba_source import emit
from ansorpy.errors import BuildError, LoweringError
from ansorpy.events import TaskResult
from ansorpy.loopir.nodes import Program
from ansorpy.measure.inputs import constants
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.measure.pool import MeasurePool
from ansorpy.measure.timing import Race as Times
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.plan.plan import Plan
from ansorpy.records import Race, Record
from ansorpy.replay import plan_text
from ansorpy.search import Candidate
from ansorpy.session.task import Task, versions
from ansorpy.state.steps import executed_flop, reformulations

OUTCLASSED = 20.0  # times the best trial
OUTCLASSED_S = 1.0
NUMPY = "numpy"
NAIVE = "naive"


@dataclass(frozen=True, slots=True)
class Contestant:
    """One kernel of the race, as it would be delivered."""

    plan: str
    row: tuple[int, ...]
    schedule: str  # for people
    kernel: Kernel
    program: Program
    reformulated: str = ""  # for people
    flop: int = 0  # operations that it executes; 0: not known


@dataclass(frozen=True, slots=True)
class Raced:
    """A finished race: the record that ends the tuning, and what it delivers.

    `native` is the verified library of the same program, or why there is none.
    """

    record: Record
    entry: Contestant
    native: Library | str

    @property
    def best_s(self) -> float:
        """The fastest sample of what is delivered."""
        assert self.record.race is not None
        return self.record.race.best_s


def contestant(task: Task, plan: Plan, text: str, row: tuple[int, ...]) -> Contestant | Failed:
    """Return the delivered form of one row; a row that has none is a failure."""
    try:
        program = bind(plan, row, task.target)
        kernel = emit(program, task.target, task.target.cores)
        became = "; ".join(map(str, reformulations(plan.state)))
        flop, schedule = executed_flop(plan.state), schedule_text(plan, row)
        return Contestant(text, row, schedule, kernel, program, became, flop)
    except (LoweringError, BuildError) as error:
        return Failed("build", str(error))


def schedule_text(plan: Plan, row: tuple[int, ...]) -> str:
    """Return loops, choices and sizes for people."""
    lines = str(plan.state).splitlines()
    for stage, choice in plan.choices:
        facts = [str(choice.location)] if str(choice.location) != "root" else []
        facts += [f"{choice.parallel} parallel loops"] if choice.parallel else []
        facts += [f"lanes along {choice.lane}"] if choice.lane else []
        facts += [f"packs {', '.join(choice.pack)}"] if choice.pack else []
        if facts:
            lines.append(f"{stage}: {'; '.join(facts)}")
    sizes = [f"{size.name} = {value}" for size, value in zip(plan.sizes, row, strict=True)]
    return "\n".join([*lines, *textwrap.wrap(", ".join(sizes), 88)])


def finalist(task: Task, candidate: Candidate) -> Contestant | Failed:
    """Return the delivered form of a candidate."""
    number = candidate.plan
    return contestant(task, task.plans[number], task.texts[number], candidate.row)


def untuned(task: Task) -> Contestant | Failed:
    """Return the naive loops of a task: every open size at its smallest."""
    plan = naive(task.dag, task.target)
    row = tuple(min(size.values, default=1) for size in plan.sizes)
    return contestant(task, plan, plan_text(plan), row)


def race(
    task: Task,
    finalists: Mapping[Candidate, Contestant | Failed],
    pool: MeasurePool,
    request: str,
    clock: Callable[[], float] = time.time,
    late: Callable[[], bool] = lambda: False,
) -> Raced | list[Failed]:
    """Race the finalists against the untuned kernel and NumPy; return what to deliver.

    Without any kernel that survives the checks in its delivered form: the failures. A finalist
    that does not is one more failure of the task.

    Args:
        finalists: as they would be delivered, the most promising first.
        late: once it says so, one process of the race has to be enough.
    """
    entries: dict[str, Contestant | Failed] = {NAIVE: untuned(task)}
    named = {f"tuned {place}": candidate for place, candidate in enumerate(finalists)}
    entries |= {name: finalists[candidate] for name, candidate in named.items()}
    fit = {name: e for name, e in entries.items() if isinstance(e, Contestant)}
    kernels_of = {name: entry.kernel for name, entry in fit.items()}
    times = pool.race(kernels_of, looked_at=patience(task), late=late)
    finished = {name: t for name, t in times.items() if isinstance(t, Times)}
    failed = {n: one for n, one in (entries | times).items() if isinstance(one, Failed)}
    without = failed.pop(NUMPY, None)
    for name, candidate in named.items():
        if name in failed:
            task.lose(candidate, failed[name])
    kernels = [name for name in fit if name in finished]
    if not kernels:
        return [one for name, one in failed.items() if name not in named]
    tuned = [name for name in kernels if name != NAIVE]
    best = min(tuned, key=lambda name: finished[name].median_s, default=NAIVE)
    winner, chosen = judge(best, {name: times.median_s for name, times in finished.items()})
    delivered = fit[chosen]
    if chosen == NAIVE:  # seldom: then it has to pass what the others have passed
        wrong = pool.verify(delivered.kernel)
        if wrong is not None:
            return [wrong]
    native, digest, native_s = exported(task, pool, delivered)
    test = make_test(task.dag, delivered.kernel.meaning)
    result = Race(
        winner=winner,
        delivered="naive" if chosen == NAIVE else "tuned",
        tuned_s=_samples(finished.get(best)) if best != NAIVE else (),
        naive_s=_samples(finished.get(NAIVE)),
        numpy_s=_samples(finished.get(NUMPY)),
        numpy_note="" if without is None else without.message,
        span=(test.low, test.high),
        tolerances=test.tolerances,
        magnitude=test.magnitude,
        trials=task.trials + task.known,
        seconds=task.seconds,
        request=request,
        native_sha256=digest,
        native_s=native_s,
        native_note=native if isinstance(native, str) else "",
        reformulated=delivered.reformulated,
        errors=finished[chosen].errors,
        flop=delivered.flop,
        peak_flop_per_s=pool.attainable_flop_per_s(),
    )
    record = Record(
        key=task.key,
        workload=task.workload,
        rules=task.rules,
        plan=delivered.plan,
        row=delivered.row,
        outcome=Measured(result.delivered_s),
        source_sha256=sha256(delivered.kernel.source.encode()).hexdigest(),
        versions=versions(),
        created_s=clock(),
        race=result,
    )
    return Raced(record, delivered, native)


def sealed(task: Task, raced: Raced, request: str) -> Raced:
    """Return a race as the answer to a request, after a search that found nothing better."""
    race = raced.record.race
    assert race is not None
    trials = task.trials + task.known
    ended = replace(race, request=request, trials=trials, seconds=task.seconds)
    return replace(raced, record=replace(raced.record, race=ended))


def patience(task: Task) -> dict[str, float]:
    """Return how many seconds the untuned kernel may take where there is a tuned one.

    It may be hundreds of times slower: then it is out of the race without having run to the end.
    """
    return {} if task.best_s is None else {NAIVE: max(OUTCLASSED_S, OUTCLASSED * task.best_s)}


def exported(
    task: Task, pool: MeasurePool, entry: Contestant
) -> tuple[Library | str, str, tuple[float, ...]]:
    """Return the verified library of a kernel, the digest of its object, and its times.

    Where none could be made: why, "" and ().
    """
    done = pool.export(export_of(task, entry))
    if isinstance(done, Failed):
        return f"not exported: {done.message}", "", ()
    return done.library, done.library.object_sha256, done.outcome.times_s


def export_of(task: Task, entry: Contestant) -> Export:
    """Return what becomes the library of a kernel; equal kernels have equal symbols."""
    return export_program(task, entry.program, entry.kernel.source)


def export_program(task: Task, program: Program, text: str) -> Export:
    """Return what becomes the library of a program; `text` tells programs apart."""
    return Export(
        program=program,
        inputs=tuple(node.name for node in task.dag.placeholders),
        outputs=output_names(task.dag),
        constants={name: array.tobytes() for name, array in constants(task.dag).items()},
        prefix=f"ansorpy_{sha256(text.encode()).hexdigest()[:12]}",
    )


def judge(best: str, times_s: Mapping[str, float]) -> tuple[Literal["tuned", "baseline"], str]:
    """Return who won, and which of our kernels is delivered: the fastest (ADR-0085).

    Args:
        best: the name of the fastest tuned kernel, NAIVE where none survived.
        times_s: of everything that ran: tuned kernels, NAIVE, NUMPY.
    """
    own = min((best, NAIVE), key=lambda name: times_s.get(name, inf))
    beaten = own == NAIVE or times_s.get(NUMPY, inf) < times_s[own]
    return "baseline" if beaten else "tuned", own


def _samples(times: Times | None) -> tuple[float, ...]:
    return () if times is None else tuple(s for run in times.times_s for s in run)


def deliver(
    task: Task, record: Record, entry: Contestant, native: Library | str, folder: Path
) -> Path:
    """Write the zip."""
    return pack(folder, task.dag, entry.kernel, entry.schedule, record, task.target, native)


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
        trials=task.trials,
        seconds=task.seconds,
        verified=True,
        winner="tuned" if outcome.winner == "tuned" else "baseline",
        kernel=path,
        flop=task.flop,
        naive_s=min(outcome.naive_s, default=None),
        numpy_s=min(outcome.numpy_s, default=None),
        numpy_note=outcome.numpy_note,
        failures=dict(task.failures),
        examples=dict(task.examples),
        from_store=from_store,
        rate=rate,
    )


def empty_result(task: Task, failures: list[Failed]) -> TaskResult:
    """Return the result of a task of which nothing survived."""
    task.note(failures)
    return TaskResult(
        name=task.name,
        key=task.key,
        best_s=None,
        baseline_s=None,
        trials=task.trials,
        seconds=task.seconds,
        verified=False,
        winner=None,
        kernel=None,
        flop=task.flop,
        failures=dict(task.failures),
        examples=dict(task.examples),
    )
