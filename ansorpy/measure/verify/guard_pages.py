"""Arrays between inaccessible pages: an access out of bounds is a fault, not a wrong value.

A kernel touches its arrays and nothing beside them, wherever they begin: the last byte of a
right-aligned array lies before the guard page, so that its begin is aligned as its elements are, no
more. The rest of its pages is poison that must neither matter nor change.
"""

import ctypes
import mmap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import Any, Final, Literal

import numpy as np

from ansorpy.errors import RunError
from ansorpy.expr.dtypes import FLOATS
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.measure.verify.inputs import Array
from ansorpy.te.tensor_data import storage

LINE_BYTES: Final = 64
PAGE_BYTES: Final = mmap.PAGESIZE
SLACK_BYTE: Final = 0xC3
GUARD_PAGES: Final = 16  # wide enough for a whole tile of rows beside a buffer
PROT_NONE: Final = 0  # mmap(2); Python's mmap module does not name it
Side = Literal["right", "left"]

_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_LIBC.memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


def round_up(value: int, unit: int) -> int:
    """Return the next multiple of `unit`."""
    return -(-value // unit) * unit


class Guarded:
    """Memory for one array with guard pages on both sides; the `side` is the exact one.

    `data` is the array's bytes (uint8). `first` and `end` are the addresses between which access
    is possible, guards reach GUARD_PAGES beyond.
    """

    def __init__(self, size_bytes: int, side: Side) -> None:
        usable = round_up(max(size_bytes, 1), PAGE_BYTES)
        margin = GUARD_PAGES * PAGE_BYTES
        self._map = mmap.mmap(-1, usable + 2 * margin, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        whole = np.frombuffer(self._map, np.uint8)
        base = whole.ctypes.data
        self.first, self.end = base + margin, base + margin + usable
        for start in (base, self.end):
            if _LIBC.mprotect(start, margin, PROT_NONE):
                raise RunError(f"mprotect failed: errno {ctypes.get_errno()}")
        offset = usable - size_bytes if side == "right" else 0
        inner = whole[margin : margin + usable]
        self.data = inner[offset : offset + size_bytes]
        self._slack = (inner[:offset], inner[offset + size_bytes :])
        for part in self._slack:
            part.fill(SLACK_BYTE)

    @property
    def address(self) -> int:
        """The address of the array."""
        return self.data.ctypes.data

    def overrun(self) -> int | None:
        """Return the offset, from the array's start, of a byte beside it that changed."""
        before, after = self._slack
        for part, start in ((before, -before.size), (after, self.data.size)):
            changed = np.flatnonzero(part != SLACK_BYTE)
            if changed.size:
                return start + int(changed[0])
        return None


class GuardedBuffers:
    """Guarded memory that the kernels of one task use in turns.

    To map it and to touch its pages takes longer than the comparison of its contents. After a
    kernel that failed, call `clear`.
    """

    def __init__(self) -> None:
        self._kept: dict[tuple[str, int, Side], Guarded] = {}

    def memory(self, buffer: Buffer, side: Side) -> Guarded:
        """Return memory for a buffer, with arbitrary contents."""
        size = size_bytes(buffer)
        if buffer.scope is Scope.GLOBAL:  # belongs to one kernel
            return Guarded(size, side)
        key = (buffer.name, size, side)
        if key not in self._kept:
            self._kept[key] = Guarded(size, side)
        return self._kept[key]

    def clear(self) -> None:
        """Free all memory."""
        self._kept.clear()


class Arena:
    """Guarded memory for all buffers of a kernel.

    Args:
        part_of: returns the region of a buffer that a call may touch; () for all of it. If only
            its first extent is smaller, the memory ends there.
    """

    def __init__(
        self,
        buffers: Sequence[Buffer],
        side: Side,
        guarded: GuardedBuffers | None = None,
        part_of: Callable[[str], tuple[slice, ...]] = lambda _: (),
    ) -> None:
        guarded = guarded or GuardedBuffers()
        buffers = [buffer.argument for buffer in buffers]
        self._parts = {buffer.name: part_of(buffer.name) for buffer in buffers}
        whole = [_of_rows(buffer, self._parts[buffer.name]) for buffer in buffers]
        self.buffers = {buffer.name: buffer for buffer in whole}
        self._memory = {buffer.name: guarded.memory(buffer, side) for buffer in whole}

    @property
    def addresses(self) -> tuple[int, ...]:
        """The address of every buffer, in the order given."""
        return tuple(memory.address for memory in self._memory.values())

    @property
    def layout(self) -> list[tuple[str, int, int, int, int]]:
        """Name, start, end of every array, and the first and end of its accessible pages."""
        return [
            (name, m.address, m.address + m.data.size, m.first, m.end)
            for name, m in self._memory.items()
        ]

    def array(self, name: str) -> Array:
        """Return a buffer as an array of its dtype and shape."""
        buffer = self.buffers[name]
        return self._memory[name].data.view(storage(buffer.dtype)).reshape(buffer.extents)

    def fill(self, values: Mapping[str, Array], pattern: Literal["nan", "bytes"]) -> None:
        """Copy `values` in; poison every other buffer."""
        for name, buffer in self.buffers.items():
            if name not in values:
                poison(self.array(name), buffer.dtype, pattern)
        self.put(values)

    def put(self, values: Mapping[str, Array]) -> None:
        """Copy `values` in."""
        for name in values:
            if name in self.buffers:
                self.part(name)[...] = values[name]

    def part(self, name: str) -> Array:
        """Return the region of a buffer that a call may touch."""
        region: Any = (*self._parts[name], ...)
        found: Array = self.array(name)[region]
        return found

    def stray(self, pattern: Literal["nan", "bytes"]) -> str:
        """Return an output with a change beyond its region, which was poison; "" if none has."""
        for name, buffer in self.buffers.items():
            if buffer.scope is Scope.OUTPUT and self._parts[name]:
                before = np.empty(buffer.extents, storage(buffer.dtype))
                poison(before, buffer.dtype, pattern)
                before[self._parts[name]] = self.part(name)
                if before.tobytes() != self._memory[name].data.tobytes():
                    return name
        return ""

    def holds(self, name: str, values: Array) -> bool:
        """Return whether a buffer equals `values` (row-major), byte for byte."""
        data, other = self._memory[name].data, np.ascontiguousarray(values)
        if self._parts[name] and other.nbytes != data.size:
            return self.part(name).tobytes() == other.tobytes()
        if other.nbytes != data.size:
            return False
        return not _LIBC.memcmp(data.ctypes.data, other.ctypes.data, data.size)

    def overrun(self) -> tuple[str, int] | None:
        """Return buffer and byte offset of a write beside an array, None if there was none."""
        for name, memory in self._memory.items():
            offset = memory.overrun()
            if offset is not None:
                return name, offset
        return None


def _of_rows(buffer: Buffer, part: tuple[slice, ...]) -> Buffer:
    """Return a buffer with as many rows as its region has, if the region has whole rows."""
    extents = tuple(one.stop for one in part)
    if not extents or extents[1:] != buffer.extents[1:]:
        return buffer
    return replace(buffer, shape=(Const(extents[0]), *buffer.shape[1:]))


def size_bytes(buffer: Buffer) -> int:
    """Return the size of a bound buffer."""
    return prod(buffer.extents) * storage(buffer.dtype).itemsize


def poison(array: Array, dtype: str, pattern: Literal["nan", "bytes"]) -> None:
    """Fill with values that no right kernel leaves: NaN (integers: their smallest), or 0xA5."""
    if pattern == "bytes" or dtype not in FLOATS:
        raw = array.reshape(-1).view(np.uint8)
        raw.fill(0xA5 if pattern == "bytes" else 0x80)
    elif dtype == "bfloat16":
        array.fill(0x7FC0)
    else:
        array.fill(np.nan)


def aligned_empty(size: int, dtype: "np.dtype[Any]", line: int = 0) -> Array:
    """Return an uninitialised flat array that starts `line` times 64 bytes after a page does."""
    raw = np.empty(size * dtype.itemsize + 2 * PAGE_BYTES, np.uint8)
    start = -raw.ctypes.data % PAGE_BYTES + line * LINE_BYTES
    return raw[start : start + size * dtype.itemsize].view(dtype)
