"""The delivered form: all that a race and a delivery ask of one kind of target.

`CpuForm` races and delivers numba source with a verified library; `GpuForm` races programs and
delivers PTX. A tuning chooses its form once (`rounds.setup`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol

from ansorpy.codegen.exported_types import Library
from ansorpy.loopir.nodes import Program
from ansorpy.measure.outcome import Failed
from ansorpy.measure.pool import RacePool
from ansorpy.measure.timing.interleave import PairedTimes
from ansorpy.records import Race, Record
from ansorpy.search import Candidate
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.tuner.race.contestant import Code, Contestant
from ansorpy.tuner.tasks.history import History
from ansorpy.tuner.tasks.task import Task

Finalists = Mapping[Candidate, Contestant[Code] | Failed]  # the most promising first


@dataclass(frozen=True, slots=True)
class RaceResult(Generic[Code]):
    """A finished race: the record that ends the tuning, and the delivered kernel.

    `native` is the verified library of the same program, or why there is none.
    """

    record: Record
    entry: Contestant[Code]
    native: Library | str = ""

    @property
    def best_s(self) -> float:
        """The fastest sample of the delivered kernel."""
        assert self.record.race is not None
        return self.record.race.best_s


class DeliveredForm(Protocol[Code]):
    """The form in which the kernels for a kind of target race and are delivered."""

    @property
    def on_the_way(self) -> bool:
        """True if kernels are delivered before the search ends, as libraries and after races."""

    def emit(self, program: Program, target: Target) -> Code:
        """Return the code of a program that races.

        Raises:
            BuildError: the program has none.
        """

    def leaders(self, history: History, hurried: bool) -> list[Candidate]:
        """Return the candidates that may race, best first; those that failed do not.

        Args:
            hurried: each candidate takes seconds, and there are few.
        """

    def finalists(
        self, task: Task, leaders: Sequence[Candidate], pool: RacePool, tight: bool
    ) -> Finalists[Code]:
        """Return the finalists among the leaders, the most promising first.

        Args:
            tight: there is no time to choose them.
        """

    def hold(
        self,
        task: Task,
        kernels: Mapping[str, Code],
        pool: RacePool,
        best_s: float | None,
        costs_s: Mapping[str, float | None],
        late: Callable[[], bool],
        beside: Callable[[], object],
    ) -> tuple[dict[str, PairedTimes | Failed], float]:
        """Race the untuned kernel, if it is one of the kernels, and finalists.

        Args:
            best_s: time of the best kernel so far; None if it is not known.
            costs_s: of the finalists by name, in seconds: their times in trials.
            late, beside: as `RacePool.race` takes them.

        Returns:
            The times by name, and the slowdown of the machine during the race.
        """

    def recorded(
        self, task: Task, pool: RacePool, entry: Contestant[Code], race: Race, now_s: float,
        late: bool,
    ) -> RaceResult[Code] | Failed:  # fmt: skip
        """Return a finished race that delivers `entry`, or the failure of its files.

        Args:
            race: without facts that only this form has.
            now_s: Unix time of the record, in seconds.
            late: nothing is made that could be left out.
        """

    def again(self, task: Task, entry: Contestant[Code], record: Record) -> RaceResult[Code] | None:
        """Return the race of a record, None if `entry` is not the very kernel that was raced.

        Raises:
            BuildError: a file of the kernel cannot be made.
        """

    def write(
        self, task: Task, dag: Dag, raced: RaceResult[Code], folder: Path, best_so_far: bool
    ) -> Path:
        """Write the zip under the names of `dag`, the task's Dag or a twin's; return its path.

        Args:
            best_so_far: the search goes on; the manifest says so.

        Raises:
            BuildError: a file cannot be made.
        """
