"""The phase loop of a kernel: the description from which every launcher is made.

for phase in phases:                 # in order, with a barrier after each phase
    for task in range(phase.tasks):  # in any order, on any thread if the loop is parallel
        phase.function(buffers, task)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.kernel import PhaseInfo

RUN: Final = "run"
AHEAD: Final = "ahead"


@dataclass(frozen=True, slots=True)
class PhaseLoop:
    """The phases of one entry point, in order.

    `parallel`: tasks of one phase may run on several threads.
    """

    name: str
    phases: tuple[PhaseInfo, ...]
    parallel: bool

    @property
    def most_threads(self) -> int:
        """The number of threads beyond which none has a task."""
        return max((info.tasks for info in self.phases if self.parallel), default=1)

    def rows(self, entries: Mapping[str, int]) -> list[int]:
        """Return the native table of phases: the function's address and its tasks per phase."""
        return [word for info in self.phases for word in (entries[info.name], info.tasks)]


def timed_loop(phases: Sequence[PhaseInfo]) -> PhaseLoop:
    """Return the loop over the phases of every call."""
    return PhaseLoop(RUN, tuple(info for info in phases if not info.ahead), parallel=True)


def ahead_loop(phases: Sequence[PhaseInfo]) -> PhaseLoop:
    """Return the loop over the phases that read weights and constants only: run once, serially."""
    return PhaseLoop(AHEAD, tuple(info for info in phases if info.ahead), parallel=False)
