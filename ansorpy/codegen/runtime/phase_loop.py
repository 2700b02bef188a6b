"""The phase loop of a kernel: the description from which every launcher is made.

for phase in phases:          # in order, with a barrier after each phase that has tasks
    for task in range(tasks): # in any order, on any thread if the loop is parallel
        phase.function(buffers, task)

`tasks` is a number, or `phase.counter(buffers)` if it follows from the sizes of a call.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
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
    def sized(self) -> bool:
        """True if the sizes of a call decide the number of tasks of a phase."""
        return any(info.sized for info in self.phases)

    def counted(self, tasks: Callable[[PhaseInfo], int]) -> "PhaseLoop":
        """Return the loop of one call, without phases that have no task.

        Args:
            tasks: the number of tasks of a phase that is sized.
        """
        counts = [tasks(info) if info.sized else info.tasks for info in self.phases]
        found = zip(self.phases, counts, strict=True)
        kept = tuple(replace(info, tasks=n, sized=False) for info, n in found if n > 0)
        return replace(self, phases=kept)

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
