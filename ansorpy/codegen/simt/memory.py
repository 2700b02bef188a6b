"""Address spaces of a GPU, and the memory that the threads of a block share."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from llvmlite import ir

from ansorpy.codegen.simd.kinds import STORED
from ansorpy.codegen.text_builder import Value, type_text
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.target import STATIC_SHARED_BYTES

GLOBAL: Final = ir.PointerType(addrspace=1)  # memory of the device
SHARED: Final = ir.PointerType(addrspace=3)  # memory of one block
ALIGNMENT: Final = 16  # bytes: the widest access of a thread
DYNAMIC: Final = "@dynamic_shared"  # begins the shared memory that a launch gives
_BYTES: Final = {type_text(kind): SIZE_BYTES[dtype] for dtype, kind in STORED.items()}
_ARRAY: Final = re.compile(
    rf"^(@[\w.]+) = internal addrspace\(3\) global \[(\d+) x (\w+)\] undef, align {ALIGNMENT}$",
    re.MULTILINE,
)


@dataclass(slots=True)
class SharedMemory:
    """The static shared memory of one kernel, as the globals of its module.

    Every allocation has its own place: two that are never alive at once do not share one.
    """

    phase: str  # name for the message
    limit_bytes: int  # shared memory of one block
    size_bytes: int = 0
    lines: list[str] = field(default_factory=list)

    def reserve(self, count: int, dtype: str) -> Value:
        """Return the address of `count` elements, undefined at first.

        Raises:
            BuildError: a block has less shared memory.
        """
        start_bytes = -(-self.size_bytes // ALIGNMENT) * ALIGNMENT
        self.size_bytes = start_bytes + count * SIZE_BYTES[dtype]
        if self.size_bytes > self.limit_bytes:
            raise BuildError(
                f"cannot write {self.phase} for CUDA because a block needs {self.size_bytes} bytes"
                f" of shared memory; expected at most {self.limit_bytes}"
            )
        name = f"@shared{len(self.lines)}"
        array = f"[{count} x {type_text(STORED[dtype])}]"
        space = f"addrspace({SHARED.addrspace})"
        self.lines.append(f"{name} = internal {space} global {array} undef, align {ALIGNMENT}")
        return Value(SHARED, name)


def with_dynamic_memory(text: str) -> str:
    """Return a module whose shared memory is given by the launch, if it exceeds the static limit.

    ptxas refuses more than 48 KB of static arrays. The arrays lie in the given memory as
    `SharedMemory` counts them.

    Args:
        text: of one kernel, with static arrays as `SharedMemory` writes them.
    """
    places = dict(_placed(text))
    if not places or max(end for _, end in places.values()) <= STATIC_SHARED_BYTES:
        return text
    space = f"addrspace({SHARED.addrspace})"
    head = f"{DYNAMIC} = external {space} global [0 x i8], align {ALIGNMENT}\n"

    def place(match: re.Match[str]) -> str:
        start, _ = places.get(match[0], (-1, 0))
        return match[0] if start < 0 else f"getelementptr (i8, ptr {space} {DYNAMIC}, i64 {start})"

    first = text.index(next(iter(places)))
    rest = re.sub(r"@[\w.]+", place, _ARRAY.sub("", text[first:]))
    return text[:first] + head + rest


def _placed(text: str) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield the name of every shared array of a module, its first byte and its end."""
    end = 0
    for name, count, kind in _ARRAY.findall(text):
        start = -(-end // ALIGNMENT) * ALIGNMENT
        end = start + int(count) * _BYTES[kind]
        yield name, (start, end)
