"""Bind a row of a population: the concrete program of one candidate, for code generation."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ansorpy.errors import LoweringError
from ansorpy.loopir.nodes import Program
from ansorpy.loopir.pipeline import lower_for_cpu, lower_for_cuda
from ansorpy.loopir.verify import check
from ansorpy.plan.plan import Plan
from ansorpy.plan.threads import THREADS
from ansorpy.target import LANE_BITS, Target


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
        raise LoweringError(f"a row of {len(row)} values; expected {len(plan.sizes)}, one per size")
    values = {size.name: int(value) for size, value in zip(plan.sizes, row, strict=True)}
    if THREADS in values:
        target = replace(target, vector_bits=LANE_BITS * values[THREADS])
    lower = lower_for_cuda if target.kind == "cuda" else lower_for_cpu
    yield from lower(plan.program, values, _budgets(plan, values), target)


def _budgets(plan: Plan, values: Mapping[str, int]) -> dict[str, int]:
    """Return the unroll budget of every stage that has one."""
    return {
        size.name.rsplit(".", 1)[0]: values[size.name]
        for size in plan.sizes
        if size.role == "unroll"
    }
