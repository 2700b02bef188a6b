"""Dims of the tasks of a job, and progress of the ranges that are searched by themselves."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansorpy.te.dag import Dag
from ansorpy.te.dims import Dim, dims_of, in_range, ranges_of
from ansorpy.te.size_weights import sizes_text

Ranges = Mapping[str, str]  # sizes for people by the name of the task of a range


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """The dims of a task for people, and the ways to divide one into ranges.

    How many ranges a dim has depends on the trials of a search: first answers of a model may have
    other ranges than its search.
    """

    dims: tuple[str, ...] = ()
    divisions: Sequence[Ranges] = ()

    @staticmethod
    def of(dag: Dag, kernels_per_dim: int) -> "TaskSizes":
        """Return the dims of a Dag and the ways to divide one."""
        counts = range(2, kernels_per_dim + 1)
        divisions = dict.fromkeys(ranges_of(dag, count) for count in counts)
        return TaskSizes(
            tuple(map(repr, dims_of(dag))),
            [_named(dag, ranges) for ranges in divisions if ranges],
        )

    def searched(self, task: str, progress: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the facts of a task that its ranges have: {} if it is searched as a whole.

        Trials and failures of a range count for its task; its time does not, since it is a time of
        other sizes.
        """
        own = _facts(task, "", progress.get(task, {}))
        every = (
            [_facts(name, sizes, progress[name]) for name, sizes in ranges.items()]
            for ranges in self.divisions
            if ranges.keys() <= progress.keys()
        )
        ranges = max(every, key=_trials, default=[])
        if not ranges or (own["trials"] and not _trials(ranges)):
            return {}
        failures = Counter[str]()
        for facts in (own, *ranges):
            failures.update(facts["failures"])
        return {
            "searched": ranges,  # `ranges` of a result has times alone
            "trials": _trials([own, *ranges]),
            "rounds": sum(progress[one["name"]].get("rounds", 0) for one in ranges),
            "failures": dict(failures),
        }


def _trials(every: Sequence[Mapping[str, Any]]) -> int:
    return sum(facts["trials"] for facts in every)


def _named(dag: Dag, ranges: Sequence[Dim]) -> Ranges:
    return {
        in_range(dag, one).name: f"{one.name} = {sizes_text(one.low, one.high)}" for one in ranges
    }


def _facts(name: str, sizes: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "sizes": sizes,
        "trials": facts.get("trials", 0),
        "sketches": facts.get("sketches"),
        "best_s": facts.get("best_s"),
        "failures": facts.get("failures", {}),
    }
