"""Bounds of a shared library, checked before the dynamic linker maps it.

The linker maps segments without comparing them with the size of the file: a touch of a page beyond
the end kills the process (SIGBUS). The check is against damage, not against malice: the maker of
a library decides which code runs.
"""

import platform
import struct
from typing import Final

from ansorpy.errors import PackageError

FILE: Final = struct.Struct("<4s5B7x2HI3QI6H")  # Elf64_Ehdr
SEGMENT: Final = struct.Struct("<2I6Q")  # Elf64_Phdr
SECTION_BYTES: Final = 64  # Elf64_Shdr
MAGIC: Final = b"\x7fELF"
WORDS_64: Final = 2
LITTLE: Final = 1
SHARED: Final = 3
LOAD: Final = 1
DYNAMIC: Final = 2
MACHINES: Final = {"x86_64": 62, "aarch64": 183}


def check_library(data: bytes, place: str, machine: str = platform.machine()) -> None:
    """Raise PackageError unless `data` is a whole shared library for processors of this kind.

    Args:
        place: name of the file in messages.
        machine: as `platform.machine` names it.
    """
    try:
        problem = _problem(data, machine)
    except struct.error:
        problem = f"it ends early: {len(data)} bytes, its headers lie behind them"
    if problem:
        raise PackageError(f"cannot load {place}: {problem}")


def _problem(data: bytes, machine: str) -> str:
    """Return why the dynamic linker must not see these bytes; "" if it may."""
    header = FILE.unpack_from(data)
    magic, words, order = header[:3]
    kind, processor = header[6:8]
    if (magic, words, order, kind) != (MAGIC, WORDS_64, LITTLE, SHARED):
        return "it is no 64-bit ELF shared library"
    if processor != MACHINES.get(machine):
        return f"its code is for ELF machine {processor}; expected {machine}"
    segments_at, sections_at = header[10:12]
    segment_bytes, segments, section_bytes, sections = header[14:18]
    if (segment_bytes, section_bytes) != (SEGMENT.size, SECTION_BYTES):
        return "its headers have another size than those of 64-bit ELF"
    if sections_at + sections * SECTION_BYTES > len(data):
        return f"it ends early: {len(data)} bytes, its section headers lie behind them"
    found = [
        SEGMENT.unpack_from(data, segments_at + number * SEGMENT.size) for number in range(segments)
    ]
    if not {LOAD, DYNAMIC} <= {segment[0] for segment in found}:
        return "it has nothing to load"
    if any(begin + size > len(data) for _, _, begin, _, _, size, _, _ in found):
        return f"it ends early: {len(data)} bytes, a segment goes on behind them"
    return ""
