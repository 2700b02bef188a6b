"""One candidate of a task, stage by stage and pass by pass, for people who read its texts."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ansorpy.errors import SpecError
from ansorpy.loopir import printer
from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import bind, passes
from ansorpy.plan.choices import naive
from ansorpy.plan.plan import Plan, Size
from ansorpy.schedule.lowered import scheduled
from ansorpy.schedule.schedule import read_schedule
from ansorpy.state.rule import Rule
from ansorpy.target import GpuTarget, Target
from ansorpy.te import printer as te_printer
from ansorpy.te.dag import Dag
from ansorpy.tuner.parts.plugged import default_model
from ansorpy.tuner.race.first_answer import PLANS, choose
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task

PLAN: Final = "plan"  # the stage before the first pass: the plan's own loops, sizes open
STAGES: Final = ("dag", "sketch", PLAN, "row", "program", "llvm", "numba", "passes")


@dataclass(frozen=True, slots=True)
class StagedCandidate:
    """One candidate of a Dag on its way to code: a plan and a row of its sizes."""

    dag: Dag
    target: Target
    plan: Plan
    row: tuple[int, ...]

    def passes(self) -> Iterator[tuple[str, Program]]:
        """Yield the loops of the plan, sizes open, then the program after every pass, by name."""
        yield PLAN, self.plan.program
        yield from passes(self.plan, self.row, self.target)

    def text(self, stage: str) -> str:
        """Return the candidate at one of `STAGES`.

        Raises:
            BuildError: the program has no code.
        """
        match stage:
            case "dag":
                return te_printer.text(self.dag)
            case "sketch":
                return f"{self.plan.state}\n"
            case "plan":
                return choices_text(self.plan)
            case "row":
                return row_text(self.plan, self.row)
            case "passes":
                return "\n".join(f"# after {name}\n{printer.text(p)}" for name, p in self.passes())
            case _:
                return code_text(stage, bind(self.plan, self.row, self.target), self.target)


def staged(
    dag: Dag,
    target: Target,
    rules: tuple[Rule, ...],
    *,
    untuned: bool = False,
    schedule: object = None,
) -> StagedCandidate:
    """Return the candidate of a Dag whose texts are printed.

    Args:
        untuned: take the naive plan instead of the first choice of the analytic cost model.
        schedule: a schedule of the user to take instead (`read_schedule`).

    Raises:
        SpecError: the Dag has no plan, or none that can be lowered; or a step does not fit.
    """
    if schedule is not None:
        applied = scheduled(read_schedule(schedule), dag, target)
        return StagedCandidate(dag, target, applied.plan, applied.row)
    if untuned:
        plan = naive(dag, target)
        return StagedCandidate(dag, target, plan, plan.smallest_row)
    return StagedCandidate(dag, target, *first_choice(dag, target, rules))


def first_choice(dag: Dag, target: Target, rules: tuple[Rule, ...]) -> tuple[Plan, tuple[int, ...]]:
    """Return the plan and the row that `tune --trials 0` would build."""
    task = Task.of(dag, target, rules_name(target.kind, rules))
    task.space.explore(rules, PLANS)
    for candidate in choose(task, default_model(target, 0), 0):
        return task.space.plans[candidate.plan], candidate.row
    raise SpecError(f"cannot lower {dag.name!r} because no candidate of its plans fits the target")


def choices_text(plan: Plan) -> str:
    """Return a plan without its loops: the choice of every stage, the sizes, their conditions."""
    stages = [
        f"  stage {name}: {', '.join([str(choice.location), *choice.facts(' and ')])}\n"
        for name, choice in plan.choices
    ]
    return "".join((
        f"plan {plan.program.name}\n",
        *stages,
        *(f"  size {size.name}: {_size(size)}\n" for size in plan.sizes),
        *(f"  legal if {condition}\n" for condition in plan.conditions),
    ))  # fmt: skip


def row_text(plan: Plan, row: tuple[int, ...]) -> str:
    """Return a row, a size a line."""
    sizes = zip(plan.sizes, row, strict=True)
    return "".join(f"{size.name} = {value}\n" for size, value in sizes)


def code_text(stage: str, program: Program, target: Target) -> str:
    """Return a bound program at the stage "program", "llvm" or "numba"; a GPU has numba.cuda.

    Raises:
        BuildError: the program has no code.
    """
    # Imported here: a text of an earlier stage needs no compiler.
    match stage, target:
        case "program", _:
            return printer.text(program)
        case "llvm", GpuTarget():
            from ansorpy.codegen.simt.writer import simt_code

            return "\n".join(simt_code(program, target).texts)
        case "llvm", _:
            from ansorpy.codegen.llvm_ir import module_text

            return module_text(program, target) + "\n"
        case _, GpuTarget():
            from ansorpy.codegen.simt.source import kernel_source

            return kernel_source(program, target)
        case _:
            from ansorpy.codegen.numba_source import emit

            return emit(program, target, target.cores).source


def _size(size: Size) -> str:
    if size.values:
        return f"{size.role}, one of {', '.join(map(str, size.values))}"
    multiple = f", a multiple of {size.multiple_of}" if size.multiple_of > 1 else ""
    return f"{size.role}, 1 to {size.extent}{multiple}"
