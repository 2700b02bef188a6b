"""Pack a reused operand into tile order before it is read (a rule of ours).

X[j, k] read under a tile of P columns becomes X.pack[j // P, k, j % P]: the inner loop then
walks memory in order, whatever the layout of X. Positions beyond the extent, and those beyond X
where the stage reads X under a condition, hold zeros.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Protocol

from ansorpy.errors import LoweringError
from ansorpy.loopir.nodes import Buffer, For, LoopKind, Phase, Scope, Stmt, Store
from ansorpy.plan.build import ONE, ZERO, add, ceildiv, floordiv, mod, mul, sub
from ansorpy.plan.domain import Domain
from ansorpy.plan.inline import Work
from ansorpy.te.expr import FLOATS, Binary, Const, Expr, Read, Select, Var, substitute, walk
from ansorpy.te.intervals import bounds, linear


class Indexed(Protocol):
    """A layout: the buffers of a tensor, and the buffer index of an element."""

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """One buffer per output."""
        ...

    def index(self, values: tuple[Expr, ...]) -> tuple[Expr, ...]:
        """Return the buffer index of axis values."""
        ...


@dataclass(frozen=True, slots=True)
class Pack:
    """One packed operand of one stage."""

    tensor: str
    output: int  # which output of the tensor
    dtype: str
    indices: tuple[Expr, ...]  # as the stage reads it: affine in its axes
    axis: str  # the axis that is tiled
    extent: int
    width: Expr  # P
    others: tuple[tuple[str, int], ...]  # the other axes, in the order of the stage's loops
    buffer: Buffer
    steps: tuple[str, int] | None = None  # the axis of an instruction: it stays innermost


def packable(work: Work, tensor: str, size: int | None = None) -> tuple[Expr, ...] | None:
    """Return the indices of a packable operand: one output, always at the same affine indices.

    Packing then takes every element once: the axes have distinct indices, or, where `size` (the
    elements of the tensor) is given, at most as many positions as the tensor has elements.
    """
    found = {(read.output, read.indices) for read in work.reads if read.tensor == tensor}
    if len(found) != 1 or work.combines is not None:
        return None
    _, indices = found.pop()
    names = [index.name for index in indices if isinstance(index, Var)]
    if len(indices) > 1 and len(set(names)) == len(indices):
        return indices
    if size is None or any(linear(index) is None for index in indices):
        return None
    extents = dict((*work.axes, *work.reduce_axes))
    taken = indexed_by(indices)
    if not set(taken) <= set(extents) or len(taken) < 2:
        return None
    return indices if prod(extents[name] for name in taken) <= size else None


def indexed_by(indices: tuple[Expr, ...]) -> tuple[str, ...]:
    """Return the axes that indices mention, each once, in order of appearance."""
    return tuple(
        dict.fromkeys(e.name for index in indices for e in walk(index) if isinstance(e, Var))
    )


def pack_of(made: Domain, tensor: str, size: int) -> Pack:
    """Return how `tensor`, of `size` elements, is packed for a stage.

    Raises:
        LoweringError: it is not packable, or none of its axes belongs to the register tile.
    """
    indices = packable(made.work, tensor, size)
    if indices is None:
        raise LoweringError(f"stage {made.work.name!r}: operand {tensor!r} cannot be packed")
    names = indexed_by(indices)
    tile = [
        part
        for part in made.parts
        if part.axis in names and part.kind in (LoopKind.VECTOR, LoopKind.UNROLL)
    ]
    if not tile:
        raise LoweringError(
            f"stage {made.work.name!r}: {tensor!r} has no axis in the register tile"
        )
    chosen = tile[-1]
    extents = dict((*made.work.axes, *made.work.reduce_axes))
    order = list(dict.fromkeys(part.axis for part in made.parts))
    spatial = dict(made.work.axes)
    steps = next((part.axis for part in made.parts if part.kind is LoopKind.DOT), None)
    steps = steps if steps in names else None
    rest = sorted(
        (name for name in names if name not in (chosen.axis, steps)),
        key=lambda name: (name not in spatial, order.index(name)),
    )
    width = ONE if chosen.length is None else chosen.length
    read = next(read for read in made.work.reads if read.tensor == tensor)
    extent = extents[chosen.axis]
    shape = (ceildiv(Const(extent), width), *(Const(extents[name]) for name in rest), width)
    others = tuple((name, extents[name]) for name in rest)
    name = f"{made.work.name}.{tensor}.pack"
    within = None if steps is None else (steps, extents[steps])
    shape = shape if within is None else (*shape, Const(within[1]))
    buffer = Buffer(name, read.dtype, shape, Scope.GLOBAL)
    return Pack(
        tensor, read.output, read.dtype, indices, chosen.axis, extent, width, others, buffer, within
    )


def packed_index(pack: Pack) -> Read:
    """Return the read of the packed operand, over the axes of the stage."""
    axis = Var(pack.axis)
    others = tuple(Var(name) for name, _ in pack.others)
    within = () if pack.steps is None else (Var(pack.steps[0]),)
    index = (floordiv(axis, pack.width), *others, mod(axis, pack.width), *within)
    return Read(pack.buffer.name, index, pack.dtype)


def pack_phase(pack: Pack, layouts: Mapping[str, Indexed], ahead: bool) -> Phase:
    """Return the phase that fills the packed operand."""

    def var(name: str) -> str:
        return f"{pack.buffer.name}:{name}"

    outer, lane = Var(var("tile")), Var(var("lane"))
    name, count = pack.steps or ("", 1)
    # One vector loop over the columns of the tile, and over the steps that each of them has.
    column, step, width = (
        floordiv(lane, Const(count)),
        mod(lane, Const(count)),
        mul(pack.width, Const(count)),
    )
    position = add(mul(outer, pack.width), column)
    values: dict[str, Expr] = {name: Var(var(name)) for name, _ in pack.others}
    values |= {pack.axis: position, name: step}
    source = tuple(substitute(index, values) for index in pack.indices)
    layout = layouts[pack.tensor]
    buffer = layout.buffers[pack.output]
    read = Read(buffer.name, layout.index(source), pack.dtype)
    zero = Const(0.0 if pack.dtype in FLOATS else 0, pack.dtype)
    inside: Expr = Binary("lt", position, Const(pack.extent))
    if pack.steps is not None:
        left = sub(Const(pack.extent), mul(outer, pack.width))
        inside = Binary("lt", lane, mul(left, Const(count)))
    # A tensor that is shorter than an axis is read under a condition; here there is none around.
    every = (*pack.others, (pack.axis, pack.extent), (name, count))
    ranges = {axis: (0, n - 1) for axis, n in every}
    for index, place, size in zip(pack.indices, read.indices, buffer.shape, strict=True):
        low, high = bounds(index, ranges)
        if low < 0:
            inside = Binary("and", inside, Binary("ge", place, ZERO))
        if not isinstance(size, Const) or high >= int(size.value):
            inside = Binary("and", inside, Binary("lt", place, size))
    within = () if pack.steps is None else (step,)
    target = (outer, *(values[axis] for axis, _ in pack.others), column, *within)
    body: Stmt = Store((pack.buffer.name,), target, (Select(inside, read, zero),))
    body = For(lane.name, width, body, LoopKind.VECTOR)
    for axis, extent in reversed(pack.others):
        body = For(var(axis), Const(extent), body)
    tiles = pack.buffer.shape[0]
    return Phase(pack.buffer.name, For(outer.name, tiles, body, LoopKind.PARALLEL), ahead)
