"""Pad the rows of scratch so that the threads of a warp meet in few banks of shared memory.

alloc S[128, 8]: ... S[4 t + i, k] ...      ->      alloc S[128, 12]
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ansorpy.errors import LoweringError
from ansorpy.expr.banks import waves
from ansorpy.expr.coalescing import ACCESS_BYTES, warp_places
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr, reads, variables
from ansorpy.loopir.nodes import Alloc, Buffer, Program, Stmt, Tile
from ansorpy.loopir.passes.vectors import group_dim
from ansorpy.loopir.passes.warp_matrices import matrix_waves, on_matrices
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt
from ansorpy.loopir.scratch import scratch_of

PADS: Final = 5  # widths of padding that are tried: 0, 16, ... 64 bytes


@dataclass(frozen=True, slots=True)
class _Access:
    tile: Tile
    index: tuple[Expr, ...]

    def waves(self, buffer: Buffer) -> float:
        """Return the waves of one warp, over all points of the tile; outer variables are 0."""
        if on_matrices(self.tile):
            return matrix_waves(self.tile, buffer, self.index)
        used = frozenset[str]().union(*map(variables, self.index))
        requests = prod(n for name, n in self.tile.dims if name in used)
        wide = self.tile.access_width if group_dim(buffer, self.index, self.tile) else 1
        size_bytes = SIZE_BYTES[buffer.dtype]
        zeros = {name: 0 for one in self.index for name in variables(one)}
        (places,) = warp_places(self.index, buffer.extents, self.tile.lanes, zeros)
        return requests / wide * waves(places * size_bytes, wide * size_bytes)


def pad(program: Program, shared_bytes: int) -> Program:
    """Return the program with scratch whose rows begin in different banks.

    Needs        a tiled program for a GPU, with widths of accesses; scratch that is allocated once.
    Keeps        the meaning; places are aligned as before.
    After        rows have the padding of at most 64 bytes that costs the fewest waves.
    Not handled  conflicts within a row; buffers of one dimension; blocks without room.

    Args:
        shared_bytes: shared memory of a block.
    """

    def padded(body: Stmt) -> Stmt:
        held = {buffer.name: buffer for buffer in scratch_of(body)}
        left = shared_bytes - sum(buffer.size_bytes for buffer in held.values())
        new: dict[str, Buffer] = {}
        for name, buffer in held.items():
            new[name] = _padded(buffer, tuple(_accesses(body, name)), left)
            left -= new[name].size_bytes - buffer.size_bytes
        return _with(body, new)

    return map_phases(program, padded)


def _with(body: Stmt, new: Mapping[str, Buffer]) -> Stmt:
    def change(part: Stmt) -> Stmt:
        if isinstance(part, Alloc) and part.buffer.name in new:
            return replace(part, buffer=new[part.buffer.name])
        return part

    return map_stmt(body, change)


def _accesses(body: Stmt, name: str) -> Iterator[_Access]:
    for part in walk_stmt(body):
        if not isinstance(part, Tile):
            continue
        if name in part.store.buffers:
            yield _Access(part, part.store.index)
        taken = {read for value in part.store.values for read in reads(value)}
        yield from (_Access(part, read.indices) for read in taken if read.tensor == name)


def _padded(buffer: Buffer, accesses: tuple[_Access, ...], left_bytes: int) -> Buffer:
    """Return a buffer with the padding of the fewest waves, the least of these."""
    step = max(1, ACCESS_BYTES // SIZE_BYTES[buffer.dtype])
    *rows, row = buffer.extents
    if not rows or row % step:
        return buffer
    tried = [
        replace(buffer, shape=(*buffer.shape[:-1], Const(row + k * step))) for k in range(PADS)
    ]
    fitting = [one for one in tried if one.size_bytes - buffer.size_bytes <= left_bytes]
    try:
        return min(fitting, key=lambda one: sum(access.waves(one) for access in accesses))
    except LoweringError:  # an index that is read from memory
        return buffer
