"""Delivery of kernels for a GPU without a device: checked under the emulator, not timed (ADR-0143).

There is no race: estimates only order the candidates. The first candidate that passes every case,
in both orders of threads, becomes the zip; after some failures, the naive loops do. If a check
takes too long, because the sizes are large, there is no zip.
"""

import time
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Final

from ansorpy.artifact.cuda import pack_emulated
from ansorpy.errors import BuildError, LoweringError
from ansorpy.events import Emulating, Event, TaskResult
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Estimated, Failed
from ansorpy.measure.pool import MeasurePool
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.replay import plan_text
from ansorpy.search import Candidate
from ansorpy.state.steps import reformulated
from ansorpy.tuner.delivery.at_the_end import DeliveriesAtTheEnd
from ansorpy.tuner.parts.pools import Pools
from ansorpy.tuner.race.final_race import empty_result
from ansorpy.tuner.tasks.task import Task
from ansorpy.tuner.tasks.time_budget import TimeBudget
from ansorpy.tuner.tasks.twins import renamed_program

FINALISTS: Final = 8  # programs that are checked, the least estimate first
TOO_LONG: Final = "run-timeout"  # other candidates take as long to emulate, and the loops longer
LEADERS: Final = 64  # candidates that are looked at: some have a program that failed already


class EmulatedDeliveries(DeliveriesAtTheEnd):
    """Checks finalists under the emulator and writes the zip of the first right program."""

    def __init__(
        self, pools: Pools, out: Path, budget: TimeBudget, clock: Callable[[], float] = time.time
    ) -> None:
        super().__init__(pools)
        self._out, self._budget, self._clock = out, budget, clock

    def end(self, task: Task, interrupted: bool = False) -> Generator[Event, None, TaskResult]:
        """Check the finalists of a task until one passes; write its zip."""
        yield Emulating(task.name)
        result = self._finish(task)
        yield from self._told(task, result)
        return result

    def _finish(self, task: Task) -> TaskResult:
        if not task.space.plans:
            return replace(empty_result(task, []), estimated=True)
        pool = self._pools.of(task)
        plan = naive(task.dag, task.target)
        plain = Candidate(task.space.add_plan(plan, plan_text(plan)), plan.smallest_row)
        leaders = self._leaders(task)[:LEADERS]
        failed: dict[Program, Failed] = {}  # by program: several rows may give the same
        for candidate in dict.fromkeys((*leaders, plain)):
            if len(failed) >= FINALISTS and candidate != plain:
                continue
            done = self._delivered(task, candidate, pool, failed)
            if not isinstance(done, Failed):
                return self._result(task, *done)
            if candidate in task.history.costs_s:
                task.history.discard(candidate, done)
            else:
                task.history.note([done])
            if done.kind == TOO_LONG:
                break
        return replace(empty_result(task, []), estimated=True)

    def _delivered(
        self, task: Task, candidate: Candidate, pool: MeasurePool, failed: dict[Program, Failed]
    ) -> tuple[Path, Estimated] | Failed:
        """Return the zip of a candidate and its estimate, or the reason why there is none.

        Args:
            failed: programs that were wrong; a new one is added.
        """
        (outcome,) = pool.measure([task.space.unbound(candidate)])
        if isinstance(outcome, Failed):
            return outcome
        assert isinstance(outcome, Estimated), "this pool estimates"
        try:
            program = bind(task.space.plans[candidate.plan], candidate.row, task.target)
        except LoweringError as error:
            return Failed("build", str(error))
        wrong = failed.get(program) or pool.verify(program)
        if wrong is not None:
            failed[program] = wrong
            return wrong
        (record,) = task.records([candidate], [outcome], self._clock)
        try:
            became = reformulated(task.space.plans[candidate.plan].state)
            paths = [
                pack_emulated(
                    self._out,
                    dag,
                    renamed_program(program, task, dag),
                    record,
                    task.target,
                    reformulated=became,
                )
                for dag in (task.dag, *task.identity.twins)
            ]
        except BuildError as error:
            return Failed("build", str(error))
        return paths[0], outcome

    def _result(self, task: Task, kernel: Path, estimate: Estimated) -> TaskResult:
        return TaskResult(
            name=task.name,
            key=task.key,
            best_s=None,
            baseline_s=None,
            trials=task.history.trials,
            seconds=self._budget.spent_s if not task.history.trials else task.history.seconds,
            verified=True,
            winner=None,
            kernel=kernel,
            flop=task.identity.flop,
            failures=dict(task.history.failures),
            examples=dict(task.history.examples),
            estimated=True,
            estimate=estimate,
        )
