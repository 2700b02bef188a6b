"""The first answer: the choice of the cost model, built and checked before the first trial.

Without trials, the best choices of several plans are timed, and the fastest is the answer.

Source: docs/adr/0058-first-answers.md.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.artifact import Test, make_test
from ansorpy.artifact.archive import pack_native
from ansorpy.artifact.rate import Rate
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.cost.model import CostModel, ForTask
from ansorpy.errors import LoweringError
from ansorpy.events import FirstAnswer, TaskResult
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.libraries import Exported
from ansorpy.records import Record
from ansorpy.search import Candidate, EvolutionSettings, best_of_plans, evolve
from ansorpy.state.steps import reformulated
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.export import export_program
from ansorpy.tuner.race.range_choices import (
    JOINED,
    Timer,
    choose_ranges,
    cost_of_score,
    weights_are_cold,
)
from ansorpy.tuner.race.results import empty_result
from ansorpy.tuner.tasks.ranges import join
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.twins import renamed, written

PLANS: Final = 16  # about 16 plans are looked at: to record their features takes longest
FEW_PLANS: Final = 5  # likewise in a hurry: kernels of squeezenet take 1.2 times as long in all
ATTEMPTS: Final = 3  # the next best, where a choice cannot be built or is wrong
TIMED: Final = 4  # plans whose best choices are timed if there are no trials
CASES: Final = ("random",)  # cases that it passed: dense numbers, both ways, between guard pages
ALL_CASES: Final = ("all",)  # the cases of a final kernel
SHORTER: Final = 4  # ratio of populations: from good rows, a quarter finds as good ones
# No trial will correct a choice, so that the pressure is higher than in a search. More pressure or
# a smaller population ends at the first good row; after six iterations little is left to gain.
SETTINGS: Final = EvolutionSettings(
    population=2048,
    iterations=6,
    keep=TIMED * ATTEMPTS,
    keep_of_plan=ATTEMPTS,
    plan_floor=0.1,
    pressure=16.0,
)


@dataclass(frozen=True, slots=True)
class First:
    """A delivered first answer."""

    candidate: Candidate
    kernel: Path
    best_s: float
    library: Library
    cases: tuple[str, ...]  # the library passed them
    record: Record
    test: Test | None  # the self-test of its zip; None: of a part of a model
    trial_s: float = 0.0  # seconds of its checks and its timing

    def event(self, task: Task, seconds: float) -> FirstAnswer:
        """Return the event of the answer, `seconds` after the tuning began."""
        return FirstAnswer(
            task.name, self.kernel, self.best_s, seconds, self.cases,
            from_store=task.history.known > 0 and not task.history.trials, library=self.library,
        )  # fmt: skip

    def as_last(self, task: Task, out: Path) -> "First":
        """Write the zips again, as the last ones of a tuning."""
        path = _write(task, self.candidate, self.library, self.record, self.cases, self.test, out)
        return replace(self, kernel=path)

    def result(self, task: Task, seconds: float) -> TaskResult:
        """Return the result of a tuning without trials."""
        flop = task.identity.flop
        return replace(
            empty_result(task),
            best_s=self.best_s,
            seconds=seconds,
            verified=True,
            winner="tuned",
            kernel=self.kernel,
            rate=Rate(flop / self.best_s, effective=True) if flop else None,
            compile_s=self.record.compile_s,
            library=self.library,
            candidate=(task.space.texts[self.candidate.plan], self.candidate.row),
        )


def choose(task: Task, model: CostModel, seed: int, timer: Timer | None = None) -> list[Candidate]:
    """Return the best candidates, best first: as measured where something was, else as foretold.

    The random numbers are its own: a search does not depend on whether it was asked.

    Args:
        timer: times choices of single ranges of a dim, if no trial has measured the task.
    """
    if task.parts and not task.history.ranked():
        ranker = partial(_ranked, model=model, seed=seed)
        return join(task.space, choose_ranges(task.parts, ranker, model, seed, timer))
    return [one for one, _ in _ranked(task, model, seed)]


def _ranked(
    task: Task,
    model: CostModel,
    seed: int,
    keep: int = ATTEMPTS,
    starts: Sequence[Candidate] = (),
) -> list[tuple[Candidate, float]]:
    """Return the best candidates with their costs, which are comparable within the task.

    Args:
        keep: candidates of each plan, at most; of all, if something was measured.
        starts: good candidates of a neighbouring range, which a shorter search begins with.
    """
    measured = task.history.ranked()[:keep]
    if measured:
        return [(one, task.history.costs_s[one]) for one in measured]
    settings = replace(SETTINGS, keep=SETTINGS.keep * keep // ATTEMPTS, keep_of_plan=keep)
    if starts:
        population = SETTINGS.population // SHORTER
        settings = replace(settings, population=population, iterations=SETTINGS.iterations - 2)
    rng = np.random.default_rng((seed, 1))
    ranker = ForTask(model, task.key)
    found = evolve(task.space.plans, ranker, (), rng, settings, starts, task.target)
    return [(one.candidate, cost_of_score(one.score)) for one in found]


def attempts_of(
    task: Task, model: CostModel, seed: int, timer: Timer | None = None
) -> list[list[Candidate]]:
    """Return the choices that may become the first answer: a list per attempt, timed together.

    Args:
        timer: times choices of single ranges of a dim. The best choices of several plans are
            timed, too, unless trials are known, and the fastest is taken: no trial will correct
            the model. None: nothing is timed.
    """
    found = choose(task, model, seed, timer)
    joined = 1 if weights_are_cold(task.parts) else JOINED  # times alone tell the best
    first = found[:joined] if task.parts else found
    unknown = timer is not None and not task.history.ranked()
    together = best_of_plans(first, TIMED) if unknown else []
    rest = [one for one in found if one not in together]
    return [one for one in (together, *([one] for one in rest[:ATTEMPTS])) if one]


def prebuild(
    task: Task, candidates: Sequence[Candidate], pool: RacePool, later: bool = False
) -> None:
    """Start to build the libraries of candidates beside other work; return at once.

    Args:
        later: as `RacePool.prebuild` takes it.
    """
    pool.prebuild(*(one for _, one in exports_of(task, candidates).values()), later=later)


def deliver_library(
    task: Task,
    attempts: Sequence[Sequence[Candidate]],
    pool: RacePool,
    out: Path,
    clock: Callable[[], float] = time.time,
    first_only: bool = False,
    best_so_far: bool = False,
    tested: bool = True,
) -> First | None:
    """Write the zips of the fastest library of the first attempt that has one; None if none has.

    Args:
        attempts: candidates that are timed together; a library that fails its cases is no library.
        first_only: the first case instead of all.
        best_so_far: the search goes on; manifests say so.
        tested: the zips have a self-test, whose tolerances are computed beside the build.
    """
    for candidates in attempts:
        with ThreadPoolExecutor(1, "tolerances") as thread:
            found = _exported(task, candidates, pool, first_only, thread if tested else None)
        if found is not None:
            candidate, done, test = found
            (record,) = task.records([candidate], [done.outcome], clock)
            cases = CASES if first_only else ALL_CASES
            took, library = done.outcome, done.library
            path = _write(task, candidate, library, record, cases, test, out, best_so_far)
            trial_s = took.check_s + took.run_s
            return First(candidate, path, took.best_s, library, cases, record, test, trial_s)
    return None


def _write(
    task: Task,
    candidate: Candidate,
    library: Library,
    record: Record,
    cases: Sequence[str],
    test: Test | None,
    out: Path,
    best_so_far: bool = False,
) -> Path:
    """Write the zip of a library, and one for each twin; return the zip of the task."""
    became = reformulated(task.space.plans[candidate.plan].state)

    def write(dag: Dag) -> Path:
        named = replace(library, buffers=renamed(library.buffers, task, dag))
        return pack_native(out, dag, named, record, task.target, cases, became, test, best_so_far)

    return written(task, write)


def _exported(
    task: Task,
    candidates: Sequence[Candidate],
    pool: RacePool,
    first_only: bool,
    beside: Executor | None,
) -> tuple[Candidate, Exported, Test | None] | None:
    """Return the fastest candidate with its checked library, None if none can be called.

    Args:
        beside: runs the computation of the tolerances of the self-test; None: there is none.
    """
    exports = exports_of(task, candidates)
    if not exports:
        return None
    meanings = {export.program.meaning for _, export in exports.values()}
    tests = {one: beside.submit(make_test, task.dag, one) for one in meanings} if beside else {}
    done = pool.export(*(export for _, export in exports.values()), first_only=first_only)
    if isinstance(done, Failed) and done.kind != "build":  # a race delivers it then
        task.history.note([done])
    if not isinstance(done, Exported) or not done.library.linked:
        return None
    candidate, export = exports[done.library.prefix]
    return candidate, done, tests[export.program.meaning].result() if tests else None


def exports_of(task: Task, candidates: Sequence[Candidate]) -> dict[str, tuple[Candidate, Export]]:
    """Return candidates and their exports by prefix, without those that cannot be lowered."""
    found: dict[str, tuple[Candidate, Export]] = {}
    for candidate in candidates:
        text = f"{task.identity.workload} {task.space.texts[candidate.plan]} {candidate.row}"
        with suppress(LoweringError):
            program = task.space.program(candidate)
            export = export_program(task, program, text)
            found[export.prefix] = candidate, export
    return found
