"""The named sizes of a plan, and the conditions that make a row legal."""

from collections.abc import Mapping
from typing import Final

from ansorpy.expr.build import ONE, add, ceildiv, mul
from ansorpy.expr.expr import SIZE_BYTES, Binary, Const, Expr, Var
from ansorpy.loopir.nodes import Alloc, LoopKind, Program, Scope
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.plan.domain import Domain, Part
from ansorpy.plan.lane import lanes_of
from ansorpy.plan.plan import Size
from ansorpy.plan.rows import row_counts
from ansorpy.state.state import Dotted, Partial, State
from ansorpy.target import Target

UNROLL_VALUES: Final = (0, 16, 64, 512)  # as released: reference B4
VECTORS: Final = (1, 2, 4, 8)  # vectors per step of an untiled vector loop
SPARE_REGISTERS: Final = 4  # besides the accumulators: operands and one broadcast
SCRATCH_BYTES: Final = 1024 * 1024  # of one task, at most: it lies on its stack
MATRIX_SUMS: Final = 4  # registers of matrices that accumulate at a time
MATRIX_PRODUCTS: Final = 256  # that are written out for one tile


def columns(state: State, domains: Mapping[str, Domain], target: Target) -> tuple[Size, ...]:
    """Return the sizes in column order: stage by stage, axis by axis, outer part first."""
    answer: list[Size] = []
    for stage in state.stages:
        if stage.name not in domains:
            continue
        made = domains[stage.name]
        lanes = lanes_of(made.work, target)
        owner = stage.role.of if isinstance(stage.role, Partial) else stage.name
        for axis in made.spans:
            answer += _tile_sizes(made, f"{owner}.{axis}", axis, lanes, stage.dot)
        vec, rows = Var(f"{stage.name}.vec"), Var(f"{stage.name}.rows")
        for part in made.parts:
            if part.length == rows:
                answer.append(Size(rows.name, "rows", values=row_counts(made, part.axis)))
            if part.length == vec:
                answer.append(Size(vec.name, "vector", values=_steps(made, part.axis, lanes)))
        if any(part.reduce for part in made.parts):
            answer.append(Size(f"{stage.name}.unroll", "unroll", values=UNROLL_VALUES))
    return tuple(answer)


def _steps(made: Domain, axis: str, lanes: int) -> tuple[int, ...]:
    """Return the lengths of a step of an untiled vector loop: no longer than its axis."""
    extent = made.spans[axis].extent
    most = int(extent.value) if isinstance(extent, Const) else max(VECTORS) * lanes
    return tuple(n * lanes for n in VECTORS if n == 1 or (n - 1) * lanes < most)


def _tile_sizes(made: Domain, group: str, axis: str, lanes: int, dot: Dotted | None) -> list[Size]:
    """Return the sizes that this stage owns along one axis (a follower owns none)."""
    extent = made.spans[axis].extent
    answer = []
    for part in made.of_axis(axis):
        if not isinstance(part.length, Var) or not part.length.name.startswith(f"{group}."):
            continue
        if not isinstance(extent, Const):
            continue
        whole = int(extent.value)
        if isinstance(part.stride, Const):  # parts of a fixed length count as one
            whole = -(-whole // int(part.stride.value))
        multiple = min(_block(part, lanes, dot), whole)
        level = int(part.length.name.rsplit(".", 1)[1])
        answer.append(Size(part.length.name, "tile", whole, group, level, multiple))
    return answer


def _block(part: Part, lanes: int, dot: Dotted | None) -> int:
    """Return how many iterations of a loop one instruction does."""
    if part.kind is LoopKind.VECTOR:
        return lanes
    if dot is not None and part.kind is LoopKind.UNROLL and part.axis == dot.row:
        return dot.rows
    if dot is not None and part.kind is LoopKind.GROUP and part.axis == dot.group:
        return dot.groups
    return 1


def conditions(
    state: State,
    sizes: tuple[Size, ...],
    domains: Mapping[str, Domain],
    program: Program,
    target: Target,
) -> tuple[Expr, ...]:
    """Return what must hold of a row: tiles within their axis, registers, scratch memory."""
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
    for name, made in domains.items():
        answer += _in_registers(made, state.stage(name).dot, target)
    scratch = _scratch(program)
    if scratch is not None:
        answer.append(Binary("le", scratch, Const(min(target.l2_bytes, SCRATCH_BYTES))))
    return tuple(answer)


def _in_registers(made: Domain, dot: Dotted | None, target: Target) -> list[Expr]:
    """Return what keeps the accumulators of a stage in registers, and the code of a tile short."""
    lanes = lanes_of(made.work, target)
    sums = _register_tile(made, lanes, dot)
    if sums is None:
        return []
    if dot is None or not dot.row:
        return [Binary("le", sums, Const(target.registers - SPARE_REGISTERS))]
    products = sums
    for part in made.parts:
        if part.kind is LoopKind.GROUP and part.length is not None:
            products = mul(products, ceildiv(part.length, Const(_block(part, lanes, dot))))
    limits = ((sums, MATRIX_SUMS), (products, MATRIX_PRODUCTS))
    return [Binary("le", count, Const(most)) for count, most in limits]


def _register_tile(made: Domain, lanes: int, dot: Dotted | None) -> Expr | None:
    """Return how many registers the accumulators of a tiled reduction take."""
    if made.work.combiner is None:
        return None
    answer: Expr | None = None
    for part in made.parts:
        if part.reduce or part.length is None:
            continue
        if part.kind not in (LoopKind.VECTOR, LoopKind.UNROLL):
            continue
        block = _block(part, lanes, dot)
        count = part.length if block == 1 else ceildiv(part.length, Const(block))
        answer = count if answer is None else mul(answer, count)
    return answer


def _scratch(program: Program) -> Expr | None:
    """Return the bytes of all scratch buffers of the largest phase (their sum: an upper bound)."""
    answer: Expr | None = None
    for phase in program.phases:
        for stmt in walk_stmt(phase.body):
            if isinstance(stmt, Alloc) and stmt.buffer.scope is Scope.LOCAL:
                size: Expr = Const(SIZE_BYTES[stmt.buffer.dtype])
                for extent in stmt.buffer.shape:
                    size = mul(size, extent)
                answer = size if answer is None else add(answer, size)
    return answer
