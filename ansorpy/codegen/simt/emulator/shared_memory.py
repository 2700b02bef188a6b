"""Shared memory and stacks of emulated threads.

Shared memory lies at fixed addresses below 4 GB, so that 32 bits hold them. Each array ends at the
end of a page, and no page around it can be touched: an access outside crashes the process.
"""

import ctypes
import mmap
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Final

from ansorpy.codegen.simt.emulator.limits import MOST_THREADS
from ansorpy.errors import BuildError

START: Final = 0x4000_0000  # far above a program without position, far below libraries
REGION_BYTES: Final = 64 << 20
GAP_BYTES: Final = 1 << 16  # untouchable bytes between two arrays, whole pages everywhere
PAGE: Final = mmap.PAGESIZE
STACK_BYTES: Final = 1 << 16  # stack of a thread; its first page is untouchable

_FIXED_NOREPLACE: Final = 0x100000  # MAP_FIXED_NOREPLACE of Linux
_NORESERVE: Final = 0x4000
_NONE, _READ_WRITE = 0, mmap.PROT_READ | mmap.PROT_WRITE
_MAP_FAILED: Final = ctypes.c_void_p(-1).value


@dataclass(frozen=True, slots=True)
class SharedArray:
    """An array in shared memory; `start` and `size_bytes` describe its pages."""

    address: int
    used_bytes: int
    start: int
    size_bytes: int


def placed(start: int, arrays: Sequence[tuple[int, int]]) -> list[SharedArray]:
    """Return the places of arrays, given as bytes and alignment, after an address.

    Raises:
        BuildError: they do not fit the region.
    """
    parts = []
    for size, align in arrays:
        start = -(-start // PAGE) * PAGE + GAP_BYTES
        pages = max(1, -(-size // PAGE)) * PAGE
        if not 1 <= align <= PAGE or start + pages + GAP_BYTES > START + REGION_BYTES:
            raise BuildError(f"cannot emulate shared memory of {size} bytes aligned to {align}")
        address = (start + pages - size) // align * align
        parts.append(SharedArray(address, size, start, pages))
        start += pages
    return parts


def end_of(parts: Sequence[SharedArray], start: int) -> int:
    """Return the address after the last part."""
    return parts[-1].start + parts[-1].size_bytes if parts else start


@cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return libc


def _mapped(address: int, size_bytes: int, access: int, flags: int) -> int:
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE | flags
    found = _libc().mmap(address, size_bytes, access, private, -1, 0)
    if found in (None, _MAP_FAILED) or (address and found != address):
        raise BuildError(f"cannot emulate a kernel because {size_bytes} bytes cannot be mapped")
    return int(found)


def _protect(address: int, size_bytes: int, access: int) -> None:
    if _libc().mprotect(address, size_bytes, access):
        raise BuildError(f"cannot emulate a kernel: mprotect failed, errno {ctypes.get_errno()}")


@cache
def region() -> int:
    """Reserve the region of shared memory in this process, untouchable at first."""
    return _mapped(START, REGION_BYTES, _NONE, _FIXED_NOREPLACE)


@cache
def stacks() -> int:
    """Return the address of the stacks of all threads, mapped once per process."""
    found = _mapped(0, MOST_THREADS * STACK_BYTES, _READ_WRITE, 0)
    for thread in range(MOST_THREADS):
        _protect(found + thread * STACK_BYTES, PAGE, _NONE)
    return found


def open_only(parts: Sequence[SharedArray]) -> None:
    """Let the pages of the parts be touched, and no others of the region."""
    _protect(region(), REGION_BYTES, _NONE)
    for part in parts:
        _protect(part.start, part.size_bytes, _READ_WRITE)
