"""Delivery of kernels for a GPU without a device: checked under the emulator, not timed (ADR-0143).

There is no race: estimates only order the candidates. The first candidate that passes every case,
in both orders of threads, becomes the zip; after some failures, the naive loops do. If a check
takes too long, because the sizes are large, there is no zip.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ansorpy.artifact.cuda import pack_emulated
from ansorpy.errors import BuildError, LoweringError
from ansorpy.events import TaskResult
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Estimated, Failed
from ansorpy.measure.pool import MeasurePool
from ansorpy.plan.bind import bind
from ansorpy.search import Candidate
from ansorpy.state.steps import reformulated
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.contestant import untuned_candidate
from ansorpy.tuner.race.results import empty_result
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import TimeBudget
from ansorpy.tuner.tasks.twins import renamed_program, written

FINALISTS: Final = 8  # programs that are checked, the least estimate first
TOO_LONG: Final = "run-timeout"  # other candidates take as long to emulate, and the loops longer


def checked(
    task: Task,
    leaders: Sequence[Candidate],
    pool: MeasurePool,
    out: Path,
    budget: TimeBudget,
    clock: Callable[[], float] = time.time,
) -> TaskResult:
    """Check the leaders of a task, then its naive loops, until one passes; write its zip."""
    if not task.space.plans:
        return replace(empty_result(task), estimated=True)
    plain = untuned_candidate(task)
    failed: dict[Program, Failed] = {}  # by program: several rows may give the same
    for candidate in dict.fromkeys((*leaders, plain)):
        if len(failed) >= FINALISTS and candidate != plain:
            continue
        done = _delivered(task, candidate, pool, failed, out, clock)
        if not isinstance(done, Failed):
            return replace(
                empty_result(task),
                seconds=task.history.seconds if task.history.trials else budget.spent_s,
                verified=True,
                kernel=done[0],
                estimated=True,
                estimate=done[1],
            )
        if candidate in task.history.costs_s:
            task.history.discard(candidate, done)
        else:
            task.history.note([done])
        if done.kind == TOO_LONG:
            break
    return replace(empty_result(task), estimated=True)


def _delivered(
    task: Task, candidate: Candidate, pool: MeasurePool, failed: dict[Program, Failed], out: Path,
    clock: Callable[[], float],
) -> tuple[Path, Estimated] | Failed:  # fmt: skip
    """Return the zip of a candidate and its estimate, or the reason why there is none.

    Args:
        failed: programs that were wrong; a new one is added.
    """
    (outcome,) = pool.measure([task.space.unbound(candidate)])
    if isinstance(outcome, Failed):
        return outcome
    assert isinstance(outcome, Estimated), "this pool estimates"
    plan = task.space.plans[candidate.plan]
    try:
        program = bind(plan, candidate.row, task.target)
    except LoweringError as error:
        return Failed("build", str(error))
    wrong = failed.get(program) or pool.verify(program)
    if wrong is not None:
        failed[program] = wrong
        return wrong
    (record,) = task.records([candidate], [outcome], clock)
    became = reformulated(plan.state)

    def write(dag: Dag) -> Path:
        named = renamed_program(program, task, dag)
        return pack_emulated(out, dag, named, record, task.target, reformulated=became)

    try:
        return written(task, write), outcome
    except BuildError as error:
        return Failed("build", str(error))
