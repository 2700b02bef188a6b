"""The kernels of the final race, as they would be delivered."""

import textwrap
from dataclasses import dataclass

from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.numba_source import emit
from ansorpy.errors import BuildError, LoweringError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.plan.plan import Plan
from ansorpy.replay import plan_text
from ansorpy.search import Candidate
from ansorpy.state.steps import executed_flop, reformulated
from ansorpy.tuner.tasks.task import Task


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


def contestant(task: Task, plan: Plan, text: str, row: tuple[int, ...]) -> Contestant | Failed:
    """Return the delivered form of one row; a row that has none is a failure."""
    try:
        program = bind(plan, row, task.target)
        kernel = emit(program, task.target, task.target.cores)
        became = reformulated(plan.state)
        flop, schedule = executed_flop(plan.state), schedule_text(plan, row)
        return Contestant(text, row, schedule, kernel, program, became, flop)
    except (LoweringError, BuildError) as error:
        return Failed("build", str(error))


def schedule_text(plan: Plan, row: tuple[int, ...]) -> str:
    """Return loops, choices and sizes for people."""
    lines = str(plan.state).splitlines()
    for stage, choice in plan.choices:
        facts = [str(choice.location)] if str(choice.location) != "root" else []
        facts += choice.facts()
        if facts:
            lines.append(f"{stage}: {'; '.join(facts)}")
    sizes = [f"{size.name} = {value}" for size, value in zip(plan.sizes, row, strict=True)]
    return "\n".join([*lines, *textwrap.wrap(", ".join(sizes), 88)])


def finalist(task: Task, candidate: Candidate) -> Contestant | Failed:
    """Return the delivered form of a candidate."""
    number = candidate.plan
    return contestant(task, task.space.plans[number], task.space.texts[number], candidate.row)


def untuned(task: Task) -> Contestant | Failed:
    """Return the naive loops of a task: every open size at its smallest."""
    plan = naive(task.dag, task.target)
    return contestant(task, plan, plan_text(plan), plan.smallest_row)
