"""One candidate of a task, lowered pass by pass, for people who read the loop IR."""

from collections.abc import Iterator

from ansorpy.errors import SpecError
from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import passes
from ansorpy.plan.choices import naive
from ansorpy.plan.plan import Plan
from ansorpy.schedule.lowered import scheduled
from ansorpy.schedule.schedule import read_schedule
from ansorpy.state.rule import Rule
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.race.first_answer import PLANS, choose
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task

PLAN = "plan"  # the stage before the first pass: the plan's own loops, sizes open


def lowered(
    dag: Dag,
    target: Target,
    rules: tuple[Rule, ...],
    *,
    untuned: bool = False,
    schedule: object = None,
) -> Iterator[tuple[str, Program]]:
    """Yield the loops of the plan, sizes open, then the program after every pass, with its name.

    Args:
        untuned: lower the naive plan instead of the first choice of the analytic cost model.
        schedule: a schedule of the user to lower instead (`read_schedule`).

    Raises:
        SpecError: the Dag has no plan, or none that can be lowered; or a step does not fit.
    """
    if schedule is not None:
        made = scheduled(read_schedule(schedule), dag, target)
        plan, row = made.plan, made.row
    elif untuned:
        plan = naive(dag, target)
        row = plan.smallest_row
    else:
        plan, row = first_choice(dag, target, rules)
    yield PLAN, plan.program
    yield from passes(plan, row, target)


def first_choice(dag: Dag, target: Target, rules: tuple[Rule, ...]) -> tuple[Plan, tuple[int, ...]]:
    """Return the plan and the row that `tune --trials 0` would build."""
    task = Task.of(dag, target, rules_name(target.kind, rules))
    task.space.explore(rules, PLANS)
    for candidate in choose(task, default_model(target, 0), 0):
        return task.space.plans[candidate.plan], candidate.row
    raise SpecError(f"cannot lower {dag.name!r} because no candidate of its plans fits the target")
