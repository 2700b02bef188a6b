"""The conditions that make a row legal: tiles within their axes, registers, scratch memory."""

from collections.abc import Mapping
from typing import Final

from ansorpy.expr.build import ONE, add, ceildiv, mul
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Const, Expr, Var
from ansorpy.loopir.nodes import Alloc, LoopKind, Program, Scope
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.plan.domain import Domain
from ansorpy.plan.params import instruction_block
from ansorpy.plan.plan import Size
from ansorpy.plan.thread_blocks import block_limits, thread_blocks
from ansorpy.plan.threads import kept_rows, row_registers
from ansorpy.plan.vectorize import lanes_of
from ansorpy.state.state import Attached, Dotted, State
from ansorpy.target import Target

SPARE_REGISTERS: Final = 4  # vector registers left for operands and one broadcast value
SCRATCH_BYTES: Final = 1024 * 1024  # scratch of one parallel iteration, on its thread's stack
MATRIX_SUMS: Final = 4  # matrix registers that accumulate at a time (AMX has 8 in all)
MATRIX_PRODUCTS: Final = 256  # matrix instructions per tile, which bounds the length of its code


def constraints(
    state: State,
    sizes: tuple[Size, ...],
    domains: Mapping[str, Domain],
    program: Program,
    target: Target,
) -> tuple[Expr, ...]:
    """Return the boolean expressions over sizes that a legal row satisfies."""
    answer: list[Expr] = []
    groups: dict[str, list[Size]] = {}
    for size in sizes:
        if size.role == "tile":
            groups.setdefault(size.group, []).append(size)
    for group in groups.values():
        tile: Expr = ONE
        for size in group:
            tile = mul(tile, Var(size.name))
        last = Var(group[-1].name)
        limit = mul(ceildiv(Const(group[0].extent), last), last)
        answer.append(Binary("le", tile, limit))
    blocks = thread_blocks(state)
    for name, made in domains.items():
        if name in blocks.tiled:
            answer += block_limits(made, target)
        elif name not in blocks:
            answer += _in_registers(made, state.stage(name).dot, target)
    attached = {s.name for s in state.stages if isinstance(s.location, Attached)}
    in_order = {s.name: domains[s.name] for s in state.stages if s.name in domains}
    answer += row_registers(in_order, frozenset(attached), sizes)
    scratch = _scratch(program, blocks.tiled | kept_rows(domains, frozenset(attached)).keys())
    if scratch is not None:
        answer.append(Binary("le", scratch, Const(min(target.scratch_bytes, SCRATCH_BYTES))))
    return tuple(answer)


def _in_registers(domain: Domain, dot: Dotted | None, target: Target) -> list[Expr]:
    """Return the limits on the accumulators of a stage and on the code length of its tile."""
    lanes = lanes_of(domain.work, target)
    sums = _register_tile(domain, lanes, dot)
    if sums is None:
        return []
    if dot is None or not dot.row:
        return [Binary("le", sums, Const(target.tile_registers - SPARE_REGISTERS))]
    products = sums
    for part in domain.parts:
        if part.kind is LoopKind.GROUP and part.length is not None:
            products = mul(
                products, ceildiv(part.length, Const(instruction_block(part, lanes, dot)))
            )
    limits = ((sums, MATRIX_SUMS), (products, MATRIX_PRODUCTS))
    return [Binary("le", count, Const(most)) for count, most in limits]


def _register_tile(domain: Domain, lanes: int, dot: Dotted | None) -> Expr | None:
    """Return the number of registers for the accumulators of a tiled reduction."""
    if domain.work.combiner is None:
        return None
    answer: Expr | None = None
    for part in domain.parts:
        if part.reduce or part.length is None:
            continue
        if part.kind not in (LoopKind.VECTOR, LoopKind.UNROLL):
            continue
        block = instruction_block(part, lanes, dot)
        count = part.length if block == 1 else ceildiv(part.length, Const(block))
        answer = count if answer is None else mul(answer, count)
    return answer


def _scratch(program: Program, kept: frozenset[str]) -> Expr | None:
    """Return the bytes of all scratch buffers of a program: an upper bound for each phase.

    Args:
        kept: buffers that stay in registers.
    """
    answer: Expr | None = None
    for phase in program.phases:
        for stmt in walk_stmt(phase.body):
            if isinstance(stmt, Alloc) and stmt.buffer.scope is Scope.LOCAL:
                if stmt.buffer.name in kept:
                    continue
                size: Expr = Const(SIZE_BYTES[stmt.buffer.dtype])
                for extent in stmt.buffer.shape:
                    size = mul(size, extent)
                answer = size if answer is None else add(answer, size)
    return answer
