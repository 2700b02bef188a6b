"""Generated source and how to call it."""

from dataclasses import dataclass

from ansorpy.loopir.nodes import Buffer
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class PhaseInfo:
    """One native function `void name(int64_t *buffers, int64_t task)`; tasks are independent.

    `tasks` is their number, at most, in a call. A phase that is `sized` has a second function,
    `int64_t name_tasks(int64_t *buffers)`, for their number by the sizes of dims, perhaps 0.
    """

    name: str
    tasks: int
    ahead: bool = False
    sized: bool = False

    @property
    def counter(self) -> str:
        """The name of the function for the number of tasks."""
        return f"{self.name}_tasks"


@dataclass(frozen=True, slots=True)
class Kernel:
    """Python source whose module defines one function per phase.

    `buffers` fixes the order of the addresses that every phase receives; all of them are
    row-major and aligned as their elements. INPUT and CONSTANT ones are only read; OUTPUT and
    GLOBAL ones are written before they are read. `meaning` is the program's Dag.
    """

    source: str
    phases: tuple[PhaseInfo, ...]
    buffers: tuple[Buffer, ...]
    threads: int
    meaning: Dag | None = None
