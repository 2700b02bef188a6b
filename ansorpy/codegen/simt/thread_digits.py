"""Digits of the number of a thread: the values of the lane variables of a tile."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from llvmlite import ir

from ansorpy.codegen.simd.kinds import I32
from ansorpy.expr.expr import Var, reads
from ansorpy.loopir.nodes import Phase, Stmt, Tile
from ansorpy.loopir.rewrite import walk_stmt


@dataclass(frozen=True, slots=True)
class Digit:
    """`thread // stride % extent`; extent 0: the outermost digit, which needs no remainder."""

    stride: int
    extent: int

    @property
    def symbol(self) -> str:
        """The name of the value."""
        part = f"t/{self.stride}" if self.stride > 1 else "t"
        return f"{part}%{self.extent}" if self.extent else part

    def of(self, builder: Any, thread: Any) -> Any:
        """Return the digit of a thread's number, an i32."""
        if self.stride > 1:
            thread = builder.udiv(thread, ir.Constant(I32, self.stride))
        return builder.urem(thread, ir.Constant(I32, self.extent)) if self.extent else thread


def tiles_of(phase: Phase) -> Iterator[Tile]:
    """Yield the tiles of a phase, in order."""
    return (part for part in walk_stmt(phase.body) if isinstance(part, Tile))


def lanes_of(tile: Tile) -> int:
    """Return the number of threads that have a lane of a tile."""
    return prod(extent for _, extent in tile.lanes)


def digits_of(tile: Tile) -> list[Digit]:
    """Return the digit of every lane variable: lanes are row-major over the threads."""
    stride, answer = 1, list[Digit]()
    for k, (_, extent) in reversed(list(enumerate(tile.lanes))):
        answer.insert(0, Digit(stride, extent if k else 0))
        stride *= extent
    return answer


def lanes_held(name: str, body: Stmt) -> int:
    """Return how many of the last indices of a register tile are lanes: all of a tile, or none."""
    for tile in walk_stmt(body):
        if not isinstance(tile, Tile) or not tile.lanes:
            continue
        found = [tile.store.index] if name in tile.store.buffers else []
        found += [r.indices for v in tile.store.values for r in reads(v) if r.tensor == name]
        if any(index[-1:] == (Var(tile.lanes[-1][0]),) for index in found):
            return len(tile.lanes)
    return 0
