"""From one row of a population to a concrete program, ready for code generation."""

from collections.abc import Iterator, Mapping, Sequence

from ansorpy.errors import LoweringError
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.passes.begin import begin
from ansorpy.loopir.passes.border import border
from ansorpy.loopir.passes.fold import fold
from ansorpy.loopir.passes.fresh import fresh
from ansorpy.loopir.passes.hoist import hoist
from ansorpy.loopir.passes.idle import idle
from ansorpy.loopir.passes.peel import peel
from ansorpy.loopir.passes.prefetch import prefetch
from ansorpy.loopir.passes.promote import promote
from ansorpy.loopir.passes.registers import registers
from ansorpy.loopir.passes.slide import slide
from ansorpy.loopir.passes.squares import squares
from ansorpy.loopir.passes.stream import stream
from ansorpy.loopir.passes.tasks import tasks
from ansorpy.loopir.passes.tile import tile
from ansorpy.loopir.passes.unroll import unroll
from ansorpy.loopir.verify import check
from ansorpy.plan.plan import Plan
from ansorpy.target import Target


def bind(plan: Plan, row: Sequence[int], target: Target) -> Program:
    """Return the tiled program of one candidate.

    Args:
        row: one value per size, in the order of `plan.sizes`.

    Raises:
        LoweringError: the row does not fit the plan, or a pass left an invalid program.
    """
    *_, (_, program) = passes(plan, row, target)
    check(program, level="tiled")
    return program


def passes(plan: Plan, row: Sequence[int], target: Target) -> Iterator[tuple[str, Program]]:
    """Yield the program after every pass, in order, with the name of the pass."""
    if len(row) != len(plan.sizes):
        raise LoweringError(f"a row of {len(row)} values for a plan of {len(plan.sizes)} sizes")
    values = {size.name: int(value) for size, value in zip(plan.sizes, row, strict=True)}
    budgets = _budgets(plan, values)
    yield "fold", (program := fold(plan.program, values))
    yield "begin", (program := begin(program))
    yield "tasks", (program := tasks(program))
    yield "border", (program := border(program))
    yield "peel", (program := peel(program))
    yield "hoist", (program := hoist(program))
    yield "tile", (program := tile(program, target))
    yield "fresh", (program := fresh(program))
    yield "registers", (program := registers(program))
    yield "promote", (program := promote(program))
    yield "idle", (program := idle(program))
    yield "slide", (program := slide(program, budgets))
    yield "unroll", (program := unroll(program, budgets, target.registers))
    yield "squares", (program := squares(program))
    yield "stream", (program := stream(program, target))
    yield "prefetch", prefetch(program, target)


def _budgets(plan: Plan, values: Mapping[str, int]) -> dict[str, int]:
    """Return the unroll budget of every stage that has one."""
    return {
        size.name.rsplit(".", 1)[0]: values[size.name]
        for size in plan.sizes
        if size.role == "unroll"
    }
