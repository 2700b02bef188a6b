"""Pad the rows of scratch so that the threads of a warp meet in few banks of shared memory.

alloc S[128, 8]: ... S[4 t + i, k] ...      ->      alloc S[128, 12]
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np

from ansorpy.errors import LoweringError
from ansorpy.expr.banks import waves
from ansorpy.expr.coalescing import WARP, IntArray, flat_places
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr, reads, variables
from ansorpy.loopir.nodes import Alloc, Buffer, Program, Scope, Stmt, Tile
from ansorpy.loopir.passes.vectors import ACCESS_BYTES, group_dim
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt

PADS: Final = 5  # widths of padding that are tried: 0, 16, ... 64 bytes


@dataclass(frozen=True, slots=True)
class _Access:
    tile: Tile
    index: tuple[Expr, ...]

    def waves(self, buffer: Buffer) -> float:
        """Return the waves of one warp, over all points of the tile; outer variables are 0."""
        used = frozenset[str]().union(*map(variables, self.index))
        requests = prod(n for name, n in self.tile.dims if name in used)
        wide = self.tile.access_width if group_dim(buffer, self.index, self.tile) else 1
        size_bytes = SIZE_BYTES[buffer.dtype]
        return requests / wide * waves(self._places(buffer) * size_bytes, wide * size_bytes)

    def _places(self, buffer: Buffer) -> IntArray:
        """Return the elements that the threads of the first warp touch at the first point."""
        shape = tuple(n for _, n in self.tile.lanes) or (1,)
        threads = min(WARP, prod(shape))
        values: dict[str, int | IntArray] = {
            name: 0 for one in self.index for name in variables(one)
        }
        digits = np.unravel_index(np.arange(threads), shape)
        for (name, _), digit in zip(self.tile.lanes, digits, strict=False):
            values[name] = digit.astype(np.int64)
        flat = flat_places(self.index, buffer.extents, values)
        return np.broadcast_to(np.asarray(flat, np.int64), (threads,))


def pad(program: Program, shared_bytes: int) -> Program:
    """Return the program with scratch whose rows begin in different banks.

    Needs        a tiled program for a GPU, with widths of accesses.
    Keeps        the meaning; places are aligned as before.
    After        rows have the padding of at most 64 bytes that costs the fewest waves.
    Not handled  conflicts within a row; buffers of one dimension; blocks without room; a name that
                 stands for registers as well.

    Args:
        shared_bytes: shared memory of a block.
    """

    def padded(body: Stmt) -> Stmt:
        left = shared_bytes - sum(_bytes(buffer) for buffer in _scratch(body))
        new: dict[str, Buffer] = {}
        for buffer in _scratch(body):
            new[buffer.name] = _padded(buffer, tuple(_accesses(body, buffer.name)), left)
            left -= _bytes(new[buffer.name]) - _bytes(buffer)
        return _with(body, new)

    return map_phases(program, padded)


def _scratch(body: Stmt) -> list[Buffer]:
    """Return scratch, except for names of several allocations, which are registers elsewhere."""
    held = [part.buffer for part in walk_stmt(body) if isinstance(part, Alloc)]
    count = Counter(buffer.name for buffer in held)
    return [one for one in held if one.scope is Scope.LOCAL and count[one.name] == 1]


def _bytes(buffer: Buffer) -> int:
    return prod(buffer.extents) * SIZE_BYTES[buffer.dtype]


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
    fitting = [one for one in tried if _bytes(one) - _bytes(buffer) <= left_bytes]
    try:
        return min(fitting, key=lambda one: sum(access.waves(one) for access in accesses))
    except LoweringError:  # an index that is read from memory
        return buffer
