"""Generated source and how to call it."""

from dataclasses import dataclass

from ansorpy.loopir.nodes import Buffer
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class PhaseInfo:
    """One native function `void name(int64_t *buffers, int64_t task)`; tasks are independent."""

    name: str
    tasks: int
    ahead: bool = False


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
