"""Pack a reused operand into tile order before it is read (BLIS: packing).

Rewrite   X[j, k] under a tile of P columns  ->  X.pack[j // P, k, j % P]

The inner loop then reads memory in order for any layout of X; a reduction that runs in blocks of
several axes reads blocks of the pack. If the lanes of X are not adjacent in memory, squares of
vectors are copied and transposed in registers, along all axes that are adjacent in memory.
Positions beyond the extent hold zeros, as do positions beyond X if the stage reads X under a
condition.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final, Protocol, TypeAlias

from ansorpy.errors import LoweringError
from ansorpy.expr.build import ONE, ZERO, add, ceildiv, floordiv, least, mod, mul, sub, zero
from ansorpy.expr.expr import Binary, Const, Expr, Read, Select, Var, substitute, walk
from ansorpy.expr.intervals import bounds, linear
from ansorpy.loopir.nodes import Buffer, For, LoopKind, Phase, Scope, Seq, Stmt, Store
from ansorpy.plan.domain import AxisPart, Domain
from ansorpy.plan.inline import Work
from ansorpy.target import Target

# loops, outermost first; the values of the axes inside of them; the column within a tile
Filling: TypeAlias = tuple[list[For], dict[str, Expr], Expr]

_TERMS: Final = (LoopKind.SERIAL, LoopKind.GROUP)
SQUARE: Final = 4  # adjacent elements from which on a transpose in registers pays


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
class IndexDigit:
    """An axis as a digit of a memory offset; it counts down if its coefficient is negative."""

    axis: str
    extent: int
    down: bool = False

    def value(self, digit: Expr) -> Expr:
        """Return the value of the axis for a digit of the offset."""
        return sub(Const(self.extent - 1), digit) if self.down else digit


@dataclass(frozen=True, slots=True)
class Pack:
    """One packed operand of one stage."""

    tensor: str
    output: int  # number of the output of the tensor
    dtype: str
    indices: tuple[Expr, ...]  # indices of the read, affine in the axes of the stage
    axis: str  # the tiled axis
    extent: int
    width: Expr  # P
    others: tuple[tuple[str, int], ...]  # the other axes, in the order of the stage's loops
    domain: Domain  # domain of the stage
    blocks: tuple[AxisPart, ...]  # loops of the stage over the last of the other axes, in its order
    buffer: Buffer
    ahead: bool  # packed once, ahead of the calls
    steps: tuple[str, int] | None = None  # axis of a dot-product instruction: it stays innermost
    # other axes that are adjacent in memory, in memory order: copied by squares of `lanes`
    along: tuple[IndexDigit, ...] = ()
    lanes: int = 1

    @property
    def whole(self) -> tuple[tuple[str, int], ...]:
        """The other axes that are not cut into blocks."""
        cut = {part.axis for part in self.blocks}
        return tuple((name, extent) for name, extent in self.others if name not in cut)


def packable(work: Work, tensor: str, size: int | None = None) -> tuple[Expr, ...] | None:
    """Return the indices of a packable operand, else None.

    Condition  all reads are of one output at the same affine indices, and packing copies each
               element once: every index is another axis, or the axes have no more positions than
               the tensor has elements (`size`, if given)
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
    """Return the axes that occur in indices, each once, in order of appearance."""
    return tuple(
        dict.fromkeys(e.name for index in indices for e in walk(index) if isinstance(e, Var))
    )


def pack_of(domain: Domain, tensor: str, of: tuple[int, ...], ahead: bool, target: Target) -> Pack:
    """Return the pack of `tensor`, of shape `of`, for a stage.

    Args:
        ahead: pack once, ahead of the calls; the cost of packing then does not matter.

    Raises:
        LoweringError: `tensor` is not packable, or has no axis in the register tile.
    """
    indices = packable(domain.work, tensor, prod(of))
    if indices is None:
        raise LoweringError(
            f"cannot pack {tensor!r} for {domain.work.name!r}: its reads are not affine and alike"
        )
    names = indexed_by(indices)
    tile = [
        part
        for part in domain.parts
        if part.axis in names and part.kind in (LoopKind.VECTOR, LoopKind.UNROLL)
    ]
    if not tile:
        raise LoweringError(
            f"cannot pack {tensor!r} for {domain.work.name!r}: it has no axis in the register tile"
        )
    chosen = tile[-1]
    extents = dict((*domain.work.axes, *domain.work.reduce_axes))
    order = list(dict.fromkeys(part.axis for part in domain.parts))
    spatial = dict(domain.work.axes)
    steps = next((part.axis for part in domain.parts if part.kind is LoopKind.DOT), None)
    steps = steps if steps in names else None
    rest = sorted(
        (name for name in names if name not in (chosen.axis, steps)),
        key=lambda name: (name not in spatial, order.index(name)),
    )
    width = ONE if chosen.length is None else chosen.length
    read = next(read for read in domain.work.reads if read.tensor == tensor)
    extent = extents[chosen.axis]
    others = tuple((name, extents[name]) for name in rest)
    name = f"{domain.work.name}.{tensor}.pack"
    within = None if steps is None else (steps, extents[steps])
    turned = chosen.kind is LoopKind.VECTOR and within is None and not ahead
    along = _along(indices, of, chosen.axis, others) if turned else ()
    lanes = target.lanes(read.dtype)
    blocks = () if along else _blocks(domain, rest)
    cut = {part.axis for part in blocks}
    shape = (
        ceildiv(Const(extent), width),
        *(Const(extents[name]) for name in rest if name not in cut),
        *(domain.extent(part) if part.length is None else part.length for part in blocks),
        width,
        *(() if within is None else (Const(within[1]),)),
    )
    buffer = Buffer(name, read.dtype, shape, Scope.GLOBAL)
    return Pack(
        tensor, read.output, read.dtype, indices, chosen.axis, extent, width, others, domain,
        blocks, buffer, ahead, within, along, lanes,
    )  # fmt: skip


def _blocks(domain: Domain, others: list[str]) -> tuple[AxisPart, ...]:
    """Return the reduce loops in nest order if they cut several axes into blocks, else ().

    X[j, c, r] reduced in blocks of c is then read without gaps: X.pack[.., c0, r, c1, j1].
    """
    parts = tuple(
        part for part in domain.parts if part.axis in others and part.reduce and part.kind in _TERMS
    )
    axes = [part.axis for part in parts]
    cut = len(set(axes)) < len(axes)
    return parts if cut and len(set(axes)) > 1 else ()


def _along(
    indices: tuple[Expr, ...], of: tuple[int, ...], axis: str, others: tuple[tuple[str, int], ...]
) -> tuple[IndexDigit, ...]:
    """Return the other axes along which the tensor is contiguous, if `axis` is none of them.

    Usually one axis. Axes of a window are short, so several are taken: X[j, c, r, s] is contiguous
    along c, r and s; X[j, 3 - 2 * r - q] of a transposed convolution along r and its phase q,
    both counting down.
    """
    form = linear(indices[-1])
    if form is None or axis in form[1]:
        return ()
    extents = dict(others)
    stretch: list[IndexDigit] = []
    for index, size in zip(indices[::-1], of[::-1], strict=True):
        digits = _digits(index, size, extents)
        if digits is None or {one.axis for one in digits} & {one.axis for one in stretch}:
            break
        stretch[:0] = digits
    near = [IndexDigit(name, extent) for name, extent in others if form[1].get(name) == 1]
    found = max(stretch, near[-1:], key=_places)
    return tuple(found) if _places(found) >= SQUARE else ()


def _places(digits: Sequence[IndexDigit]) -> int:
    """Return the number of values of several digits."""
    return prod(digit.extent for digit in digits)


def _digits(index: Expr, size: int, extents: Mapping[str, int]) -> list[IndexDigit] | None:
    """Return axes as the digits of an index that takes each of `size` values once, coarse first.

    Return None if the index misses or repeats a value, or depends on other axes.
    """
    form = linear(index)
    if form is None or not form[1].keys() <= extents.keys():
        return None
    const, coefs = form
    digits: list[IndexDigit] = []
    step = 1
    for name, coef in sorted(coefs.items(), key=lambda term: abs(term[1])):
        extent = extents[name]
        if extent == 1:
            continue
        if abs(coef) != step:
            return None
        digits.insert(0, IndexDigit(name, extent, coef < 0))
        const += min(0, coef * (extent - 1))
        step *= extent
    return digits if step == size and const == 0 else None


def packed_index(pack: Pack) -> Read:
    """Return the read of the packed operand, in terms of axes and blocked loops of the stage."""
    axis = Var(pack.axis)
    others = (
        *(Var(name) for name, _ in pack.whole),
        *(Var(part.var) for part in pack.blocks),
    )
    within = () if pack.steps is None else (Var(pack.steps[0]),)
    index = (floordiv(axis, pack.width), *others, mod(axis, pack.width), *within)
    return Read(pack.buffer.name, index, pack.dtype)


def pack_phase(pack: Pack, layouts: Mapping[str, Indexed]) -> Phase:
    """Return the phase that fills the packed operand.

    Loops without an axis are named "<buffer>:@...", which is not a legal name of an axis.
    """

    def var(name: str) -> str:
        return f"{pack.buffer.name}:{name}"

    outer = Var(var("@tile"))
    loops, values, column = _squares(pack, var) if pack.along else _rows(pack, var)
    step = values.get(pack.steps[0], ZERO) if pack.steps else ZERO
    position = add(mul(outer, pack.width), column)
    values |= {pack.axis: position}
    source = tuple(substitute(index, values) for index in pack.indices)
    layout = layouts[pack.tensor]
    buffer = layout.buffers[pack.output]
    read = Read(buffer.name, layout.index(source), pack.dtype)
    inside: Expr = Binary("lt", position, Const(pack.extent))
    name, count = pack.steps or ("", 1)
    if pack.steps is not None:
        left = sub(Const(pack.extent), mul(outer, pack.width))
        inside = Binary("lt", Var(loops[-1].var), mul(left, Const(count)))
    # A tensor shorter than an axis is read under a condition, which the pack has to repeat.
    every = (*pack.others, (pack.axis, pack.extent), (name, count))
    ranges = {axis: (0, n - 1) for axis, n in every}
    for index, place, size in zip(pack.indices, read.indices, buffer.shape, strict=True):
        low, high = bounds(index, ranges)
        if low < 0:
            inside = Binary("and", inside, Binary("ge", place, ZERO))
        if not isinstance(size, Const) or high >= int(size.value):
            inside = Binary("and", inside, Binary("lt", place, size))
    within = () if pack.steps is None else (step,)
    blocks = (Var(var(part.loop)) for part in pack.blocks)
    target = (outer, *(values[axis] for axis, _ in pack.whole), *blocks, column, *within)
    body: Stmt = Store((pack.buffer.name,), target, (Select(inside, read, zero(pack.dtype)),))
    for loop in reversed(loops):
        body = replace(loop, body=body)
    tiles = pack.buffer.shape[0]
    return Phase(pack.buffer.name, For(outer.name, tiles, body, LoopKind.PARALLEL), pack.ahead)


_NOTHING: Final = Seq(())  # body of a loop before the nest is put together


def _rows(pack: Pack, var: Callable[[str], str]) -> Filling:
    """Return the loops of a copy row by row, with a vector loop over the columns of a tile."""
    lane, (name, count) = Var(var("@lane")), pack.steps or ("", 1)
    loops = [For(var(axis), Const(extent), _NOTHING) for axis, extent in pack.whole]
    values: dict[str, Expr] = {axis: Var(var(axis)) for axis, _ in pack.whole}
    own: dict[str, Expr] = {part.var: Var(var(part.loop)) for part in pack.blocks}
    for part in pack.blocks:
        loops.append(For(var(part.loop), substitute(pack.domain.extent(part), own), _NOTHING))
        values[part.axis] = substitute(pack.domain.value(part.axis), own)
    loops.append(For(lane.name, mul(pack.width, Const(count)), _NOTHING, LoopKind.VECTOR))
    if pack.steps is not None:
        values[name] = mod(lane, Const(count))
    return loops, values, floordiv(lane, Const(count))


def _squares(pack: Pack, var: Callable[[str], str]) -> Filling:
    """Return the loops of a copy by squares of vectors, which are transposed in registers."""
    n, block, lane = Const(pack.lanes), Var(var("@block")), Var(var("@lane"))
    outer, inner = Var(var("@along.0")), Var(var("@along.1"))
    length = Const(prod(digit.extent for digit in pack.along))
    along = {digit.axis for digit in pack.along}
    others = [(axis, extent) for axis, extent in pack.others if axis not in along]
    loops = [
        *(For(var(axis), Const(extent), _NOTHING) for axis, extent in others),
        For(block.name, ceildiv(pack.width, n), _NOTHING),
        For(outer.name, ceildiv(length, n), _NOTHING),
        For(inner.name, least(n, sub(length, mul(outer, n))), _NOTHING, LoopKind.UNROLL),
        For(lane.name, least(n, sub(pack.width, mul(block, n))), _NOTHING, LoopKind.VECTOR),
    ]
    values: dict[str, Expr] = {axis: Var(var(axis)) for axis, _ in others}
    place = add(mul(outer, n), inner)
    coarsest, *finer = pack.along
    for digit in reversed(finer):
        radix = Const(digit.extent)
        values[digit.axis], place = digit.value(mod(place, radix)), floordiv(place, radix)
    values[coarsest.axis] = coarsest.value(place)
    return loops, values, add(mul(block, n), lane)
