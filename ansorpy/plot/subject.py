"""The subject of a picture: a task with its result and its records."""

from collections.abc import Sequence
from dataclasses import dataclass

from ansorpy.errors import SpecError
from ansorpy.events import TaskResult
from ansorpy.records import Record
from ansorpy.records.rows import Trials
from ansorpy.replay import carried_dag
from ansorpy.target import Target
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class Subject:
    """A task: its result, its records, oldest first, and its machine, if that is known."""

    result: TaskResult
    records: tuple[Record, ...]
    target: Target | None = None

    @property
    def name(self) -> str:
        """The name of the task."""
        return self.result.name

    @property
    def trials(self) -> tuple[Record, ...]:
        """The records of trials; races are no trials."""
        return tuple(one for one in self.records if one.race is None)

    @property
    def untimed(self) -> str:
        """The reason why no trial on record has a time."""
        ranges = ", ".join(self.result.ranges)
        return f"its trials are those for {ranges}" if ranges else "no trial on record has a time"

    @property
    def dag(self) -> Dag:
        """The computation, from a record that carries it.

        Raises:
            SpecError: there is none.
        """
        carrier = next((one for one in reversed(self.records) if one.dag), None)
        if carrier is None:
            raise SpecError(
                f"cannot plot {self.name} because no record of it carries its computation; expected"
                " a task with trials on record, and without large constants"
            )
        return carried_dag(carrier)

    @property
    def lines_s(self) -> dict[str, float]:
        """The times of NumPy, the libraries and the untuned loops in the race, by name."""
        times_s = {one.name: one.best_s for one in (*self.result.peers, *self.result.own)}
        times_s |= {"NumPy": self.result.numpy_s, "untuned": self.result.naive_s}
        return {name: time_s for name, time_s in times_s.items() if time_s is not None}


def subject_of(
    tasks: Sequence[TaskResult], records: Trials, target: Target | None, name: str | None
) -> Subject:
    """Return the task of a name, or the only task.

    Raises:
        SpecError: there is no such task, or there are several and no name is given.
    """
    known = {task.name: task for task in tasks}
    expected = ", ".join(map(repr, known)) or "a result with tasks"
    if name is None and len(known) != 1:
        raise SpecError(
            f"cannot choose one of {len(known)} tasks; expected task= with one of {expected}"
        )
    chosen = next(iter(known.values())) if name is None else known.get(name)
    if chosen is None:
        raise SpecError(f"cannot find task {name!r} in this result; expected one of {expected}")
    own = records.get(chosen.same_as or chosen.name, ())
    return Subject(chosen, tuple(own), target)
