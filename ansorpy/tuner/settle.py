"""The end of a race: the fastest kernel that passes its last checks is delivered."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from ansorpy.measure.outcome import Failed
from ansorpy.measure.timing.interleave import PairedTimes as Times
from ansorpy.measure.timing.paired_benchmark import NUMPY
from ansorpy.search import Candidate
from ansorpy.tuner.ranking import Ranking, rank
from ansorpy.tuner.task import Task

Entry = TypeVar("Entry")
Raced = TypeVar("Raced")


def settle(
    task: Task,
    named: Mapping[str, Candidate],
    entries: Mapping[str, Entry | Failed],
    times: Mapping[str, Times | Failed],
    record: Callable[[Entry, Ranking], Raced | Failed],
) -> Raced | list[Failed]:
    """Return the race as `record` makes it; without a kernel that survives, the failures.

    A finalist that fails is one more failure of the task, and the next one is taken.

    Args:
        named: the finalists among the entries.
        entries: kernels as they would be delivered; those that could not be built are failures.
        times: of the entries that were built, and of NumPy.
        record: checks a kernel as it is delivered, and makes the record.
    """
    fit = {name: entry for name, entry in entries.items() if not isinstance(entry, Failed)}
    finished = {name: t for name, t in times.items() if isinstance(t, Times)}
    failed = {n: one for n, one in {**entries, **times}.items() if isinstance(one, Failed)}
    without = failed.pop(NUMPY, None)
    for name, candidate in named.items():
        if name in failed:
            task.discard(candidate, failed[name])
    note = "" if without is None else without.message
    while any(name in finished for name in fit):
        ranking = rank(finished, note)
        raced = record(fit[ranking.chosen], ranking)
        if not isinstance(raced, Failed):
            return raced
        del finished[ranking.chosen]
        failed[ranking.chosen] = raced
        if ranking.chosen in named:
            task.discard(named[ranking.chosen], raced)
    return [one for name, one in failed.items() if name not in named]
