"""A program for a GPU: one kernel launch per phase, as LLVM text for the NVPTX target."""

from dataclasses import dataclass

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.loopir.nodes import Buffer
from ansorpy.target import STATIC_SHARED_BYTES


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel launch on a grid of one dimension.

    Args:
        name: of the kernel in its text.
        blocks: tasks of the phase.
        threads: of a block.
        shared_bytes: shared memory of a block.
        ahead: reads constant inputs only, and runs once before the timed launches.
    """

    name: str
    blocks: int
    threads: int
    shared_bytes: int
    ahead: bool = False

    @property
    def dynamic_bytes(self) -> int:
        """Shared memory that the launch gives: all of it, if it exceeds the static limit."""
        return self.shared_bytes if self.shared_bytes > STATIC_SHARED_BYTES else 0


@dataclass(frozen=True, slots=True)
class SimtCode:
    """The kernels of a program, in order.

    `texts` has one LLVM module per launch. A kernel takes the addresses of all `buffers`, in
    order, in global memory.
    """

    texts: tuple[str, ...]
    launches: tuple[Launch, ...]
    buffers: tuple[Buffer, ...]

    @property
    def phases(self) -> tuple[PhaseInfo, ...]:
        """The launches as the phases of a kernel; a task is a block."""
        return tuple(PhaseInfo(one.name, one.blocks, one.ahead) for one in self.launches)
