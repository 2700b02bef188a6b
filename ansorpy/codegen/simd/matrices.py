"""Sums of products by instructions on matrices, which have eight registers of their own.

A register holds up to 16 rows of 64 bytes. How many rows and bytes each of them has is configured
before they are used; that costs as much as a few products. Every task begins with registers of
full size; a tile that is cut off at an edge configures its own, and puts the full size back.
(Intel SDM volume 1, chapter 18: LDTILECFG, TILELOADD, TDPBSSD and its kin.)
"""

import ctypes
import itertools
import platform
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from llvmlite import ir

from ansorpy.codegen.simd.dots import Dots
from ansorpy.codegen.simd.kinds import BYTES, I8, I32, I64, VOID, declared, vector
from ansorpy.codegen.simd.memory import reserve
from ansorpy.codegen.simd.tile import TileExpr
from ansorpy.codegen.simd.values import Point

ROWS = 16  # most rows of a register, and most groups of steps or lanes
SUMS, LEFT, RIGHT = (0, 1, 2, 3), (4, 5), (6, 7)  # numbers of the registers by their use
WORD_BYTES = 4  # size of a lane, and of the steps of one group
# Linux on x86-64: Documentation/arch/x86/xstate.rst
SYSCALL_ARCH_PRCTL, SUPPORTED, REQUEST_PERMISSION, TILE_DATA = 158, 0x1021, 0x1023, 18


class Part(NamedTuple):
    """Rows, lanes and groups of the matrices of one product."""

    rows: int
    lanes: int
    groups: int


FULL = Part(ROWS, ROWS, ROWS)


@lru_cache(maxsize=1)
def allow_matrices() -> bool:
    """Ask Linux for permission to use the registers of matrices; False if it is refused."""
    return ask_linux(REQUEST_PERMISSION, ctypes.c_uint64(TILE_DATA))


@lru_cache(maxsize=1)
def has_matrices() -> bool:
    """Return True if Linux supports the registers of matrices; a process still needs permission."""
    known = ctypes.c_uint64(0)
    return ask_linux(SUPPORTED, ctypes.byref(known)) and bool(known.value >> TILE_DATA & 1)


def ask_linux(code: int, argument: Any) -> bool:
    """Call arch_prctl; False if it is refused, or on anything but Linux on x86-64."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        return False
    return int(ctypes.CDLL(None).syscall(SYSCALL_ARCH_PRCTL, code, argument)) == 0


def configure(builder: Any, part: Part = FULL) -> None:
    """Set the sizes of all registers, which become zero."""
    lanes, groups = part.lanes * WORD_BYTES, part.groups * WORD_BYTES
    sizes = dict.fromkeys(SUMS, (part.rows, lanes))
    sizes |= dict.fromkeys(LEFT, (part.rows, groups))
    sizes |= dict.fromkeys(RIGHT, (part.groups, lanes))
    table = bytearray(64)
    table[0] = 1  # palette
    for number, (rows, row_bytes) in sizes.items():
        table[16 + 2 * number : 18 + 2 * number] = row_bytes.to_bytes(2, "little")
        table[48 + number] = rows
    words = [int.from_bytes(table[k : k + 4], "little") for k in range(0, 64, 4)]
    place = reserve(builder, 64)
    builder.store(ir.Constant(vector(I32, 16), words), place, align=64)
    invoke(builder, "llvm.x86.ldtilecfg", [place])


def release(builder: Any) -> None:
    """Release the registers: thread switches are faster without them."""
    invoke(builder, "llvm.x86.tilerelease", [])


def invoke(builder: Any, name: str, args: Sequence[Any]) -> None:
    """Call an intrinsic without a result."""
    kind = ir.FunctionType(VOID, [arg.type for arg in args])
    builder.call(declared(builder.module, name, kind), args)


class Matrices(Dots):
    """Code for tiles with a `matrix`: their operands and their target lie in memory."""

    def multiply(self, row: str, group: str, fresh: bool) -> None:
        """Add all products of the tile to its target, part by part; or set it, if `fresh`."""
        extents = dict(self.tile.dims)
        summed = [name for name in extents if name not in self.kept and name not in (row, group)]
        moving = [name for name in extents if name in self.kept and name != row]
        reads = [part.args[0] for part in self.tile.values[0].args]
        reads.sort(key=lambda read: self.tile.lane in read.uses)
        steps = [dict(each) for each in points({name: extents[name] for name in summed})]
        for rows, starts in parts(extents[row]):
            sums = [
                {**dict(each), row: (start,)}
                for start in starts
                for each in points({name: extents[name] for name in moving})
            ]
            first = fresh
            for groups, begins in parts(extents[group]):
                terms = [{**step, group: (begin,)} for begin in begins for step in steps]
                part = Part(rows, self.n, groups)
                if part != FULL:
                    configure(self.b, part)
                for some in squares(sums, *reads):
                    self.add_products(some, terms, row, group, reads, first)
                first = False
                if part != FULL:
                    configure(self.b)

    def add_products(
        self,
        sums: Sequence[Point],
        terms: Sequence[Point],
        row: str,
        group: str,
        reads: list[TileExpr],
        fresh: bool,
    ) -> None:
        """Add the products at all `terms` to the sums that begin at some points of the target."""
        assert self.tile.dot is not None
        (target,), (step, function) = self.tile.targets, self.tile.dot
        for register, at in zip(SUMS, sums, strict=False):
            if fresh:
                invoke(self.b, "llvm.x86.tilezero", [ir.Constant(I8, register)])
            else:
                self.move("llvm.x86.tileloadd64", register, target, at, row)
        wanted = [
            tuple(
                tuple((name, at[name]) for name in sorted(at) if name in read.uses)
                for read in reads
            )
            for at in ({**sum_at, **term, step: (0,)} for term in terms for sum_at in sums)
        ]
        held: list[dict[int, Any]] = [{}, {}]  # contents of the registers of either operand
        for k, points_of in enumerate(wanted):
            used = []
            for side, (read, along, registers) in enumerate(
                zip(reads, (row, group), (LEFT, RIGHT), strict=True)
            ):
                later = [each[side] for each in wanted[k + 1 :]]
                register, missing = place_of(points_of[side], held[side], registers, later)
                if missing:
                    at = dict(points_of[side])
                    self.move("llvm.x86.tileloadd64", register, read, at, along)
                used.append(register)
            numbers = (SUMS[k % len(sums)], *used)
            invoke(self.b, function, [ir.Constant(I8, number) for number in numbers])
        for register, at in zip(SUMS, sums, strict=False):
            self.move("llvm.x86.tilestored64", register, target, at, row)

    def move(self, how: str, register: int, read: TileExpr, at: Point, along: str) -> None:
        """Load or store a register; its rows lie along a tile variable."""
        name, dtype = read.args[0], self.tile.of(read).dtype
        slope = self.tile.slope(read.args[1], along)
        if slope is None:
            raise ValueError("cannot load a matrix whose rows are at unequal distances")
        place = self.address(name, dtype, self.index(read.args[1], {**at, self.tile.lane: (0,)}))
        distance = ir.Constant(I64, slope * BYTES.get(dtype, 1))
        invoke(self.b, how, [ir.Constant(I8, register), place, distance])


def points(extents: dict[str, int]) -> Iterator[tuple[tuple[str, tuple[int, ...]], ...]]:
    """Yield every point of some tile variables."""
    for numbers in itertools.product(*(range(n) for n in extents.values())):
        yield tuple((name, (k,)) for name, k in zip(extents, numbers, strict=True))


def parts(extent: int) -> list[tuple[int, list[int]]]:
    """Return (size, starts) of the whole blocks of an extent, and of the rest."""
    whole, left = divmod(extent, ROWS)
    found = [(ROWS, [ROWS * k for k in range(whole)])] if whole else []
    return [*found, (left, [extent - left])] if left else found


def squares(sums: Sequence[Point], left: TileExpr, right: TileExpr) -> list[list[Point]]:
    """Return the sums in fours that share operands: two by two if both operands have several."""

    def numbered(read: TileExpr) -> list[int]:
        keys = [tuple(at[name] for name in read.uses if name in at) for at in sums]
        return [list(dict.fromkeys(keys)).index(key) for key in keys]

    rows, columns = numbered(left), numbered(right)
    high = 1 if max(rows) == 0 else len(SUMS) if max(columns) == 0 else 2
    wide = len(SUMS) // high
    found: dict[tuple[int, int], list[Point]] = {}
    for row, column, at in zip(rows, columns, sums, strict=True):
        found.setdefault((row // high, column // wide), []).append(at)
    return [
        some[k : k + len(SUMS)] for some in found.values() for k in range(0, len(some), len(SUMS))
    ]


def place_of(
    key: Any, held: dict[int, Any], registers: Sequence[int], later: Sequence[Any]
) -> tuple[int, bool]:
    """Return the register for a matrix and whether it must be loaded.

    It replaces the matrix whose next use is furthest away (Belady's rule).
    """
    for register, what in held.items():
        if what == key:
            return register, False
    free = [register for register in registers if register not in held]

    def waits(register: int) -> int:
        return later.index(held[register]) if held[register] in later else len(later)

    register = free[0] if free else max(registers, key=waits)
    held[register] = key
    return register, True
