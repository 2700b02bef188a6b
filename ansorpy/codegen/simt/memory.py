"""Address spaces of a GPU, and the memory that the threads of a block share."""

from dataclasses import dataclass, field
from typing import Final

from llvmlite import ir

from ansorpy.codegen.simd.kinds import STORED
from ansorpy.codegen.text_builder import Value, type_text
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import SIZE_BYTES

GLOBAL: Final = ir.PointerType(addrspace=1)  # memory of the device
SHARED: Final = ir.PointerType(addrspace=3)  # memory of one block
ALIGNMENT: Final = 16  # bytes: the widest access of a thread


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
