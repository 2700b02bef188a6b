"""Bind a row of a population: the concrete program of one candidate, for code generation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ansorpy.errors import LoweringError
from ansorpy.loopir.join import join_programs
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.pipeline import lower_for_cpu, lower_for_cuda
from ansorpy.loopir.verify import check
from ansorpy.plan.join import rows_of
from ansorpy.plan.plan import Plan
from ansorpy.plan.threads import THREADS
from ansorpy.target import CpuTarget, GpuTarget, Target, expected


def bind(plan: Plan, row: Sequence[int], target: Target) -> Program:
    """Return the tiled program of one candidate.

    Args:
        row: one value per size, in the order of `plan.sizes`.

    Raises:
        LoweringError: the row does not fit the plan, or a pass left an invalid program.
    """
    if plan.parts:
        bound = [(part.sizes, bind(part.plan, own, target)) for part, own in rows_of(plan, row)]
        program = join_programs(bound)
    else:
        *_, (_, program) = passes(plan, row, target)
    check(program, level="tiled")
    return program


def passes(plan: Plan, row: Sequence[int], target: Target) -> Iterator[tuple[str, Program]]:
    """Yield the program after every pass, in order, with the name of the pass.

    The plan is not joined.
    """
    if len(row) != len(plan.sizes):
        raise LoweringError(f"a row of {len(row)} values; expected {len(plan.sizes)}, one per size")
    values = {size.name: int(value) for size, value in zip(plan.sizes, row, strict=True)}
    budgets, program = _budgets(plan, values), plan.unsized or plan.program
    if isinstance(target, GpuTarget):
        own = replace(target, tile_threads=values.get(THREADS, target.tile_threads))
        yield from lower_for_cuda(program, values, budgets, own)
    else:
        yield from lower_for_cpu(program, values, budgets, expected(target, CpuTarget))


def _budgets(plan: Plan, values: Mapping[str, int]) -> dict[str, int]:
    """Return the unroll budget of every stage that has one."""
    return {
        size.name.rsplit(".", 1)[0]: values[size.name]
        for size in plan.sizes
        if size.role == "unroll"
    }
