"""The loops of a block of threads: of a stage tiled for threads, of its consumer, and of copies.

A rule marks the band of a tiled stage whose loops are threads (`thread`). The bands around it are
the elements of one thread: quads outside, neighbours inside, as i = (quad, thread, neighbour).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.errors import LoweringError
from ansorpy.expr.build import ONE, ZERO, add, mod, mul
from ansorpy.expr.expr import Binary, Const, Expr
from ansorpy.loopir.nodes import LoopKind
from ansorpy.plan.domain import AxisPart, Domain
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Attached, Location, Stage, State
from ansorpy.target import GpuTarget, Target

THREAD: Final = "thread"  # the annotation of a loop whose iterations are threads
SUMS: Final = 128  # registers of a thread for its sums; more leave too few for operands
OPERANDS: Final = 48  # registers of a thread for operands and addresses, about
REGISTERS: Final = 65536  # registers of 32 bits of one SM (sm_70 to sm_90)

FEW: Final = 64  # warps; an operator of fewer threads may have blocks of any number of them


@dataclass(frozen=True)
class ThreadBlocks:
    """The stages of a sketch whose loops belong to a block of threads.

    Attributes:
        tiled: stages with loops of threads.
        following: consumers that take the tiles of such a stage, with its name.
    """

    tiled: frozenset[str]
    following: Mapping[str, str]

    def __contains__(self, name: str) -> bool:
        """Return True if a block of threads runs the loops of a stage."""
        return name in self.tiled or name in self.following

    def host(self, place: Location) -> bool:
        """Return True if a stage at this location runs inside of a block."""
        return isinstance(place, Attached) and place.stage in self


def thread_blocks(state: State) -> ThreadBlocks:
    """Return the stages of a sketch that belong to blocks of threads."""
    tiled = frozenset(stage.name for stage in state.stages if _band(stage))
    sizes = {
        loop.length[0]: stage.name
        for stage in state.stages
        if stage.name in tiled
        for loop in stage.loops
        if loop.length
    }
    following = {
        stage.name: sizes[loop.length[0]]
        for stage in state.stages
        if stage.name not in tiled
        for loop in stage.loops
        if loop.length and loop.length[0] in sizes
    }
    return ThreadBlocks(tiled, following)


def with_threads(domain: Domain, stage: Stage, blocks: ThreadBlocks, place: Location) -> Domain:
    """Return the domain of a stage with its loops in the order in which a block runs them.

    tiled      the loops of the reduction, then of threads, then of the elements of a thread
    following  the inner part of every axis is split as in the tiled stage
    a copy     loops over elements, which the threads share out among themselves

    Not handled  a reduction that is computed inside of a block: one thread runs it.
    """
    if stage.name in blocks.tiled:
        return _tiled(domain, stage)
    if stage.name in blocks.following:
        return _following(domain)
    if blocks.host(place) and domain.work.combiner is None:
        return domain.with_parts(tuple(replace(p, kind=LoopKind.SHARE) for p in domain.parts))
    return domain


def block_limits(domain: Domain, target: Target) -> list[Expr]:
    """Return the conditions on the threads of a block and on their registers.

    The number of threads is a multiple of a warp, unless the axes are too short for many.

    Raises:
        LoweringError: the target is no GPU.
    """
    if not isinstance(target, GpuTarget):
        raise LoweringError(f"cannot give {domain.work.name!r} blocks of threads: expected a GPU")
    threads: Expr = ONE
    sums: Expr = ONE
    most = 1
    for part in domain.parts:
        if part.length is None or part.reduce:
            continue
        if part.kind is LoopKind.THREAD:
            threads = mul(threads, part.length)
            extent = domain.spans[part.axis].extent
            if isinstance(extent, Const):
                most *= 1 << (int(extent.value).bit_length() - 1)
        else:
            sums = mul(sums, part.length)
    limits = [
        Binary("le", threads, Const(target.max_threads)),
        Binary("le", sums, Const(SUMS)),
        Binary("le", mul(threads, add(sums, Const(OPERANDS))), Const(REGISTERS)),
    ]
    if most >= FEW * target.warp:
        limits.append(Binary("eq", mod(threads, Const(target.warp)), ZERO))
    return list(limits)


def _band(stage: Stage) -> list[str]:
    """Return the loops of threads; a split into threads alone, as of a row, is none."""
    names = {loop.name for loop in stage.loops}
    return [
        loop.name
        for loop in stage.loops
        if loop.annotation == THREAD
        and loop.kind is AxisKind.SPATIAL
        and loop.length is not None
        and _next_part(loop.name) in names
    ]


def _next_part(name: str) -> str:
    axis, level = name.rsplit(".", 1)
    return f"{axis}.{int(level) + 1}"


def _tiled(domain: Domain, stage: Stage) -> Domain:
    threads = _band(stage)
    outer: list[AxisPart] = []
    steps: list[AxisPart] = []
    lanes: list[AxisPart] = []
    own: list[AxisPart] = []
    for part in domain.parts:
        inner = part.length is not None or not part.loop.endswith(".0")
        if part.loop in threads:
            lanes.append(replace(part, kind=LoopKind.THREAD, whole=True))
        elif not inner:
            (steps if part.reduce else outer).append(part)
        elif part.reduce:
            steps.append(replace(part, kind=LoopKind.UNROLL))
        else:
            own.append(replace(part, kind=LoopKind.UNROLL, whole=part.length is not None))
    axes = list(domain.spans)
    own.sort(key=lambda part: axes.index(part.axis))
    return domain.with_parts((*outer, *steps, *lanes, *own))


def _following(domain: Domain) -> Domain:
    outer, lanes, own = [], [], []
    for part in domain.parts:
        lengths = _factors(part.length)
        if len(lengths) < 2:
            outer.append(part)
            continue
        stride: Expr = part.stride
        pieces: list[AxisPart] = []
        for number in range(len(lengths), 0, -1):
            length = lengths[number - 1]
            names = f"{part.var}.{number}", f"{part.loop}.{number}"
            kind = LoopKind.THREAD if number == len(lengths) - 1 else LoopKind.UNROLL
            pieces.insert(
                0, AxisPart(*names, part.axis, stride, length, part.reduce, kind, whole=True)
            )
            stride = mul(length, stride)
        lanes += [piece for piece in pieces if piece.kind is LoopKind.THREAD]
        own += [piece for piece in pieces if piece.kind is not LoopKind.THREAD]
    return domain.with_parts((*outer, *lanes, *own))


def _factors(length: Expr | None) -> list[Expr]:
    """Return the factors of a product of sizes, outermost first."""
    match length:
        case None:
            return []
        case Binary(op="mul", a=a, b=b):
            return [*_factors(a), *_factors(b)]
        case _:
            return [length]
