"""The sizes of a plan (its tunable parameters), in column order."""

from collections.abc import Mapping
from typing import Final

from ansorpy.expr.expr import Const, Var
from ansorpy.loopir.nodes import LoopKind
from ansorpy.plan.domain import AxisPart, Domain
from ansorpy.plan.plan import Size
from ansorpy.plan.row_blocking import row_counts
from ansorpy.plan.thread_blocks import thread_blocks
from ansorpy.plan.threads import thread_sizes
from ansorpy.plan.vectorize import lanes_of
from ansorpy.state.state import Dotted, Partial, State
from ansorpy.target import Target

UNROLL_VALUES: Final = (0, 16, 64, 512)  # unrolled iterations at most, as in released Ansor
VECTORS: Final = (1, 2, 4, 8)  # vectors per iteration of an untiled vector loop


def params(state: State, domains: Mapping[str, Domain], target: Target) -> tuple[Size, ...]:
    """Return the sizes in column order: by stage, then by axis, then from the outer part in."""
    answer: list[Size] = []
    blocks = thread_blocks(state)  # the steps of a reduction are written out there
    for stage in state.stages:
        if stage.name not in domains:
            continue
        domain = domains[stage.name]
        lanes = lanes_of(domain.work, target)
        owner = stage.role.of if isinstance(stage.role, Partial) else stage.name
        for axis in domain.spans:
            answer += _tile_sizes(domain, f"{owner}.{axis}", axis, lanes, stage.dot)
        vec, rows = Var(f"{stage.name}.vec"), Var(f"{stage.name}.rows")
        for part in domain.parts:
            if part.length == rows:
                answer.append(Size(rows.name, "rows", values=row_counts(domain, part.axis)))
            if part.length == vec:
                answer.append(Size(vec.name, "vector", values=_steps(domain, part.axis, lanes)))
        reduced = any(part.reduce and not _whole_lanes(part) for part in domain.parts)
        if reduced and stage.name not in blocks:
            answer.append(Size(f"{stage.name}.unroll", "unroll", values=UNROLL_VALUES))
    return (*answer, *thread_sizes(domains, target))


def _whole_lanes(part: AxisPart) -> bool:
    """Return True if the lanes of a tile run over a whole axis: no loop is left."""
    return part.kind is LoopKind.VECTOR and part.length is None


def _steps(domain: Domain, axis: str, lanes: int) -> tuple[int, ...]:
    """Return the step lengths of an untiled vector loop that do not exceed its axis."""
    extent = domain.spans[axis].extent
    most = int(extent.value) if isinstance(extent, Const) else max(VECTORS) * lanes
    return tuple(n * lanes for n in VECTORS if n == 1 or (n - 1) * lanes < most)


def _tile_sizes(
    domain: Domain, group: str, axis: str, lanes: int, dot: Dotted | None
) -> list[Size]:
    """Return the tile sizes of a stage along one axis; a follower has none."""
    extent = domain.spans[axis].extent
    answer = []
    for part in domain.of_axis(axis):
        if not isinstance(part.length, Var) or not part.length.name.startswith(f"{group}."):
            continue
        if not isinstance(extent, Const):
            continue
        whole = int(extent.value)
        if isinstance(part.stride, Const):  # inner parts of fixed length count as one element
            whole = -(-whole // int(part.stride.value))
        elif part.stride == Var(f"{domain.work.name}.vec"):  # a step has a vector at least
            whole = -(-whole // lanes)
        multiple = min(instruction_block(part, lanes, dot), whole)
        level = int(part.length.name.rsplit(".", 1)[1])
        answer.append(Size(part.length.name, "tile", whole, group, level, multiple))
    return answer


def instruction_block(part: AxisPart, lanes: int, dot: Dotted | None) -> int:
    """Return the number of iterations of a loop that one instruction performs."""
    if part.kind is LoopKind.VECTOR:
        return lanes
    if dot is not None and part.kind is LoopKind.UNROLL and part.axis == dot.row:
        return dot.rows
    if dot is not None and part.kind is LoopKind.GROUP and part.axis == dot.group:
        return dot.groups
    return 1
