"""Prefetch the next block of inputs that exceed the last-level cache.

for p in n:                               for p in n:
    for j in m:                               for j in m:
        for k in e:              ->               for k in e:
            c[j] += A[p, k, l]                        c[j] += A[p, k, l]
                                                      prefetch A[p + 1, k, line j]

Hardware prefetchers anticipate a few long streams, but not a short one per iteration of k. While a
block is reused by the iterations of j, each of them fetches some lines of the next block.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from typing import Final

from ansorpy.expr.affine import Form, form
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Const, Read, Var, reads
from ansorpy.expr.intervals import Interval, bounds
from ansorpy.loopir.nodes import Buffer, For, LoopKind, Prefetch, Program, Scope, Seq, Stmt, Tile
from ansorpy.loopir.passes.exceeds_cache import fills
from ansorpy.loopir.rewrite import map_phases, rebuild_stmt, seq, stmt_children
from ansorpy.target import CpuTarget

LINE_BYTES: Final = 64
MIN_VECTORS: Final = 4  # vectors of a tile per fetched line, so that fetching is a small share
MAX_OFFSETS: Final = 1024  # elements of a tile whose lines are enumerated

Loops = tuple[For, ...]


def prefetch(program: Program, target: CpuTarget) -> Program:
    """Return the program with prefetches of inputs that exceed the last-level cache.

    Needs        a tiled program.
    Keeps        the meaning, because a prefetch of any address has no effect on values.
    Not handled  tiles with a mask, and reads that are not affine or not evenly spaced.
    """
    large = {
        buffer.name: buffer
        for buffer in program.buffers
        if buffer.scope is Scope.INPUT and fills(buffer, target.l3_bytes)
    }
    if not large:
        return program
    inputs = _Inputs(large, target.l2_bytes)

    def change(body: Stmt) -> Stmt:
        return _visit(body, (), inputs)

    return map_phases(program, change)


@dataclass(frozen=True, slots=True)
class _Inputs:
    """The inputs to prefetch, and the size of L2."""

    large: Mapping[str, Buffer]
    l2_bytes: int


@dataclass(frozen=True, slots=True)
class _Pattern:
    """The lines of a buffer that a tile reads: `lines` of them, `step` elements apart.

    `flat` is the offset of the first line as a form over loop variables.
    """

    buffer: Buffer
    flat: Form
    lines: int
    step: int

    def scale(self, loop: For) -> int:
        """Return the elements by which one iteration of a loop moves the lines."""
        return self.flat.terms.get(Var(loop.var), 0)


def _visit(stmt: Stmt, loops: Loops, inputs: _Inputs) -> Stmt:
    if isinstance(stmt, Tile):
        return seq(stmt, *_ahead(stmt, loops, inputs))
    inner = (*loops, stmt) if isinstance(stmt, For) else loops
    parts = tuple(_visit(part, inner, inputs) for part in stmt_children(stmt))
    return _each_once(seq(*parts), inputs) if isinstance(stmt, Seq) else rebuild_stmt(stmt, parts)


def _each_once(stmt: Stmt, inputs: _Inputs) -> Stmt:
    """Remove prefetches of a line that an earlier statement of the sequence fetches."""
    kept: list[Stmt] = []
    seen: list[tuple[str, Form]] = []
    for part in stmt.stmts if isinstance(stmt, Seq) else (stmt,):
        if isinstance(part, Prefetch):
            at, element = form(part.offset), SIZE_BYTES[inputs.large[part.buffer].dtype]
            if any(name == part.buffer and _near(at, other, element) for name, other in seen):
                continue
            seen.append((part.buffer, at))
        kept.append(part)
    return seq(*kept)


def _near(a: Form, b: Form, element_bytes: int) -> bool:
    return a.terms == b.terms and abs(a.const - b.const) * element_bytes < LINE_BYTES


def _ahead(tile: Tile, loops: Loops, inputs: _Inputs) -> Iterator[Prefetch]:
    """Yield the prefetches of a tile."""
    if tile.mask is not None:  # a tail
        return
    for read in dict.fromkeys(read for value in tile.store.values for read in reads(value)):
        if read.tensor in inputs.large:
            pattern = _pattern(read, tile, inputs.large[read.tensor])
            if pattern is not None:
                yield from _of_next_block(pattern, tile, loops, inputs.l2_bytes)


def _pattern(read: Read, tile: Tile, buffer: Buffer) -> _Pattern | None:
    """Return the lines of a read; None if they are not evenly spaced or the read is not affine."""
    flat, stride = Form(0, {}), 1
    for index, extent in zip(reversed(read.indices), reversed(buffer.shape), strict=True):
        assert isinstance(extent, Const)
        flat, stride = form(index).scaled(stride).plus(flat), stride * int(extent.value)
    if not all(isinstance(atom, Var) for atom in flat.terms):
        return None
    offsets, outer = {0}, dict(flat.terms)
    for name, count in tile.spans:
        scale = outer.pop(Var(name), 0)
        if scale:
            offsets = {offset + scale * k for offset in offsets for k in range(count)}
        if len(offsets) > MAX_OFFSETS:
            return None
    line, starts = LINE_BYTES // SIZE_BYTES[buffer.dtype], list[int]()
    for offset in sorted(offsets):
        if not starts or offset - starts[-1] >= line:
            starts.append(offset)
    steps = {b - a for a, b in pairwise(starts)}
    if len(steps) > 1 or starts[0] != 0:
        return None
    return _Pattern(buffer, Form(flat.const, outer), len(starts), min(steps, default=0))


def _of_next_block(
    pattern: _Pattern, tile: Tile, loops: Loops, l2_bytes: int
) -> Iterator[Prefetch]:
    """Yield prefetches of a part of the next block, if loops reuse the current block."""
    again: list[For] = []  # loops that reuse the block, innermost first
    inside: list[For] = []
    block = None
    for number, loop in reversed([*enumerate(loops)]):
        if loop.kind is LoopKind.PARALLEL:
            return
        if not pattern.scale(loop):
            again.append(loop)
        elif again:
            block = number
            break
        else:
            inside.append(loop)
    passes = [count for loop in again if (count := _count(loop)) is not None]
    if block is None or len(passes) < len(again):
        return
    times = prod(passes)
    per_visit = -(-pattern.lines // times)
    vectors = prod(count for _, count in tile.dims)
    ranges = _ranges(loops)
    lines = pattern.lines * prod(bounds(loop.extent, ranges)[1] for loop in inside)
    if vectors < MIN_VECTORS * per_visit or 2 * lines * LINE_BYTES > l2_bytes:
        return
    turn = Form(0, {})
    for loop, count in zip(reversed(again), reversed(passes), strict=True):
        turn = turn.scaled(count).plus(Form(0, {Var(loop.var): 1}))
    start = _next(pattern, loops[: block + 1])
    for number in range(per_visit):
        line = turn.scaled(per_visit).plus(Form(number, {}))
        if times * per_visit > pattern.lines:
            wrapped = Binary("mod", line.expr(), Const(pattern.lines))
            line = form(wrapped) if pattern.lines > 1 else Form(0, {})
        yield Prefetch(pattern.buffer.name, start.plus(line, pattern.step).expr())


def _next(pattern: _Pattern, loops: Loops) -> Form:
    """Return the offset of the next block of the innermost of `loops`."""
    loop, around = loops[-1], loops[-2] if len(loops) > 1 else None
    step, count = pattern.scale(loop), _count(loop)
    onward = pattern.flat.plus(Form(step, {}))
    if around is None or count is None or around.kind is LoopKind.PARALLEL:
        return onward  # the prefetch after the last block is useless, which is rare
    further = pattern.scale(around)
    if not further or further == count * step:
        return onward
    number = Form(1, {Var(around.var): count, Var(loop.var): 1}).expr()
    moved = Form(0, {Var(around.var): -further, Var(loop.var): -step})
    quotient = Form(0, {Binary("floordiv", number, Const(count)): further})
    rest = Form(0, {Binary("mod", number, Const(count)): step})
    return pattern.flat.plus(moved).plus(quotient).plus(rest)


def _count(loop: For) -> int | None:
    return int(loop.extent.value) if isinstance(loop.extent, Const) else None


def _ranges(loops: Loops) -> dict[str, Interval]:
    ranges: dict[str, Interval] = {}
    for loop in loops:
        ranges[loop.var] = (0, max(0, bounds(loop.extent, ranges)[1] - 1))
    return ranges
