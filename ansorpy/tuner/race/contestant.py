"""The kernels of a race, as they would be delivered."""

import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from ansorpy.codegen.kernel import Kernel
from ansorpy.errors import BuildError, LoweringError
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import naive
from ansorpy.plan.join import rows_of
from ansorpy.plan.plan import Plan
from ansorpy.replay import plan_text
from ansorpy.search import Candidate
from ansorpy.state.steps import executed_flop, reformulated
from ansorpy.target import Target
from ansorpy.te.analysis import flop_count
from ansorpy.tuner.tasks.task import Task

Code = TypeVar("Code", bound=Kernel | Program)
Emit = Callable[[Program, Target], Code]  # BuildError: the program has no such code


@dataclass(frozen=True, slots=True)
class Contestant(Generic[Code]):
    """One kernel of a race, as it would be delivered."""

    plan: str
    row: tuple[int, ...]
    schedule: str  # for people
    kernel: Code  # numba source for a processor; for a GPU the program, of which files are made
    program: Program
    reformulated: str = ""  # for people
    flop: int = 0  # operations that it executes; 0: not known


def contestant(
    task: Task, plan: Plan, text: str, row: tuple[int, ...], emit: Emit[Code]
) -> Contestant[Code] | Failed:
    """Return the delivered form of one row; a row that has none is a failure."""
    try:
        program = bind(plan, row, task.target)
        kernel = emit(program, task.target)
        became = reformulated(plan.state)
        flop = flop_count(task.dag) if plan.parts else executed_flop(plan.state)
        schedule = schedule_text(plan, row)
        return Contestant(text, row, schedule, kernel, program, became, flop)
    except (LoweringError, BuildError) as error:
        return Failed("build", str(error))


def schedule_text(plan: Plan, row: tuple[int, ...]) -> str:
    """Return loops, choices and sizes for people; a joined plan has them for each range."""
    if plan.parts:
        each = rows_of(plan, row)
        return "\n\n".join(f"{part.sizes}\n{schedule_text(part.plan, own)}" for part, own in each)
    lines = str(plan.state).splitlines()
    for stage, choice in plan.choices:
        facts = [str(choice.location)] if str(choice.location) != "root" else []
        facts += choice.facts()
        if facts:
            lines.append(f"{stage}: {'; '.join(facts)}")
    sizes = [f"{size.name} = {value}" for size, value in zip(plan.sizes, row, strict=True)]
    return "\n".join([*lines, *textwrap.wrap(", ".join(sizes), 88)])


def finalist(task: Task, candidate: Candidate, emit: Emit[Code]) -> Contestant[Code] | Failed:
    """Return the delivered form of a candidate."""
    plan, text = task.space.plans[candidate.plan], task.space.texts[candidate.plan]
    return contestant(task, plan, text, candidate.row, emit)


def untuned(task: Task, emit: Emit[Code]) -> Contestant[Code] | Failed:
    """Return the naive loops of a task: every open size at its smallest."""
    plan = naive(task.dag, task.target)
    return contestant(task, plan, plan_text(plan), plan.smallest_row, emit)


def untuned_candidate(task: Task) -> Candidate:
    """Return the naive loops of a task as one of its candidates."""
    plan = naive(task.dag, task.target)
    return Candidate(task.space.add_plan(plan, plan_text(plan)), plan.smallest_row)
