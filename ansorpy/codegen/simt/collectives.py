"""Instructions of all threads of a block together: barriers, and values of the whole block."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.simd.kinds import (
    BYTES,
    F32,
    F64,
    I8,
    I32,
    I64,
    STORED,
    VOID,
    declared,
    power_of_two,
)
from ansorpy.codegen.simt.memory import GLOBAL, SHARED, SharedMemory
from ansorpy.codegen.text_builder import TextBuilder

WARP: Final = 32  # threads that run in lockstep and exchange registers
BARRIER: Final = "llvm.nvvm.barrier.cta.sync.aligned.all"
WARP_BARRIER: Final = "llvm.nvvm.bar.warp.sync"
SHUFFLE: Final = "llvm.nvvm.shfl.sync.bfly.i32"
COPY: Final = "llvm.nvvm.cp.async.{cache}.shared.global.{size}{some}"  # bytes to shared memory
COPIED: Final = "llvm.nvvm.cp.async.wait.all"  # waits for the copies of a thread
COPY_BYTES: Final = (4, 8, 16)  # bytes that a copy may have
EVERY: Final = ir.Constant(I32, -1)  # all threads of a warp take part
LAST: Final = ir.Constant(I32, WARP - 1)

Values = list[Any]  # one value of a thread, or value and index
Combine = Callable[[Values, Values], Values]


@dataclass(slots=True)
class ThreadBlock:
    """The threads of a block at one point of a kernel, which all of them reach.

    Args:
        b: of the kernel.
        thread: the number of the present thread, an i32.
        threads: their number, a multiple of a warp.
        shared: the shared memory of the kernel.
        alone: whether they are one warp of several in a block, which wait for themselves only.
    """

    b: TextBuilder
    thread: Any
    threads: int
    shared: SharedMemory
    alone: bool = False
    copying: bool = False  # whether copies may be under way at a barrier
    exchanges: dict[tuple[int, str], Any] = field(default_factory=dict)  # by number and dtype
    # Elements as they lie in memory, by the id of their value for computing, which stays alive.
    elements: dict[int, tuple[Any, Any, str]] = field(default_factory=dict)

    def barrier(self) -> None:
        """Wait for all threads: stores before it are visible to loads after it."""
        lines = self.b.block.lines
        if lines and self._name in str(lines[-1]):
            return
        if self.copying:
            self.b.call(declared(self.b.module, COPIED, ir.FunctionType(VOID, [])), [])
        function = declared(self.b.module, self._name, ir.FunctionType(VOID, [I32]))
        self.b.call(function, [EVERY if self.alone else ir.Constant(I32, 0)])

    def copy(self, to: Any, start: Any, size: int, cond: Any) -> None:
        """Start a copy of `size` bytes to shared memory; of zeros if the i1 `cond` does not hold.

        It has ended after the next barrier.
        """
        cache, some = "cg" if size == max(COPY_BYTES) else "ca", "" if cond is True else ".s"
        taken, given = [SHARED, GLOBAL], [to, start]
        if cond is not True:
            taken.append(I32)
            given.append(self.b.select(cond, ir.Constant(I32, size), ir.Constant(I32, 0)))
        name = COPY.format(cache=cache, size=size, some=some)
        self.b.call(declared(self.b.module, name, ir.FunctionType(VOID, taken)), given)

    @property
    def _name(self) -> str:
        return WARP_BARRIER if self.alone else BARRIER

    def among(self, count: int) -> Any:
        """Return an i1: whether the thread is one of the first `count`; None: all are."""
        if count >= self.threads:
            return None
        return self.b.icmp_unsigned("<", self.thread, ir.Constant(I32, count))

    def total(
        self, mine: Values, dtypes: list[str], identity: Values, combine: Combine, among: int
    ) -> Values:
        """Return the combination of the values of the first `among` threads, to every thread.

        The other threads hold the identity. Butterflies within the warps, one value per warp
        through shared memory, and butterflies again. Another call may overwrite the values there
        after a barrier only.
        """
        mine = self.butterflies(mine, WARP, combine)
        if self.threads == WARP:
            return mine
        b, warps = self.b, -(-among // WARP)
        places = self.exchange(dtypes)
        warp = b.lshr(self.thread, ir.Constant(I32, WARP.bit_length() - 1))
        first = b.icmp_unsigned("==", b.and_(self.thread, LAST), ir.Constant(I32, 0))
        if among < self.threads:
            first = b.and_(first, b.icmp_unsigned("<", warp, ir.Constant(I32, warps)))
        with b.if_then(first):
            for place, dtype, value in zip(places, dtypes, mine, strict=True):
                stored = b.zext(value, I8) if dtype == "bool" else value
                at = b.gep(place, [warp], source_etype=STORED[dtype])
                b.store(stored, at, align=BYTES.get(dtype, 1))
        self.barrier()
        wide = power_of_two(warps)
        rank = b.and_(self.thread, ir.Constant(I32, wide - 1))
        there = b.icmp_unsigned("<", rank, ir.Constant(I32, warps)) if wide > warps else None
        if there is not None:
            rank = b.select(there, rank, ir.Constant(I32, 0))
        parts = []
        for place, dtype, neutral in zip(places, dtypes, identity, strict=True):
            at = b.gep(place, [rank], source_etype=STORED[dtype])
            one = b.load(at, typ=STORED[dtype], align=BYTES.get(dtype, 1))
            if dtype == "bool":
                one = b.icmp_signed("!=", one, ir.Constant(I8, 0))
            parts.append(one if there is None else b.select(there, one, neutral))
        return self.butterflies(parts, wide, combine)

    def butterflies(self, mine: Values, count: int, combine: Combine) -> Values:
        """Return the combination over groups of `count` neighbouring threads, to all of them."""
        distance = count // 2
        while distance:
            mine = combine(mine, [self.of_partner(value, distance) for value in mine])
            distance //= 2
        return mine

    def of_partner(self, value: Any, distance: int) -> Any:
        """Return the value of the thread whose number differs in one bit."""
        b, kind = self.b, value.type
        if kind == F32:
            return b.bitcast(self.word_of_partner(b.bitcast(value, I32), distance), kind)
        if kind == F64:
            return b.bitcast(self.of_partner(b.bitcast(value, I64), distance), kind)
        if kind.width < I32.width:
            return b.trunc(self.word_of_partner(b.zext(value, I32), distance), kind)
        if kind == I32:
            return self.word_of_partner(value, distance)
        shift = ir.Constant(I64, I32.width)
        low = self.word_of_partner(b.trunc(value, I32), distance)
        high = self.word_of_partner(b.trunc(b.lshr(value, shift), I32), distance)
        return b.or_(b.shl(b.zext(high, I64), shift), b.zext(low, I64))

    def word_of_partner(self, word: Any, distance: int) -> Any:
        """Return an i32 of the thread whose number differs in one bit."""
        kind = ir.FunctionType(I32, [I32] * 4)
        args = [EVERY, word, ir.Constant(I32, distance), LAST]
        return self.b.call(declared(self.b.module, SHUFFLE, kind), args)

    def exchange(self, dtypes: list[str]) -> list[Any]:
        """Return the addresses of shared memory for one value of each dtype per warp."""
        for key in enumerate(dtypes):
            if key not in self.exchanges:
                self.exchanges[key] = self.shared.reserve(self.threads // WARP, key[1])
        return [self.exchanges[key] for key in enumerate(dtypes)]
