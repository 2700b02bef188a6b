"""The sources of the candidates that a task measures, in the order of their trials.

    source     owner                  purpose
    recorded   `TrialQueue.recorded`  outcomes in place of trials, so that a tuning can be repeated
    answered   `Sources.answered`     the answer that a task of a model has, to be timed again
    held       `TrialQueue.held`      candidates without a trial in the last round; in the first one
                                      programs of the next three sources, as `warm.start` reads them
    known      `Sources.known`        programs of records of the task; trusted ones are its history
    estimates  `Sources.estimates`    programs with an estimate for the GPU that is now measured
    elsewhere  `Sources.elsewhere`    programs of other machines, for a task without history
    first      `TrialQueue.first`     the delivered first answer, unless it is measured

The search strategy, or the user's own space, proposes the candidates of the trials that are left.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ansorpy.gpus import PRESETS
from ansorpy.records import Record, RecordStore, task_key
from ansorpy.replay import UNFIT, carried_dag
from ansorpy.target import gpu_target
from ansorpy.te.analysis import structure_key
from ansorpy.te.dag import Compute, Dag
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.tasks.task import Task


@dataclass(frozen=True, slots=True)
class Sources:
    """The records and the candidate that the search of one task starts from."""

    known: Sequence[Record] = ()
    estimates: Sequence[Record] = ()
    elsewhere: Sequence[Record] = ()
    answered: tuple[str, tuple[int, ...]] | None = None  # plan as text, row


def sources_of(request: Request, task: Task, past: Sequence[Record], store: RecordStore) -> Sources:
    """Return the sources of a task; a request that is repeatable knows no records.

    Args:
        past: the records of the task that its search may know.
        store: the user's store, unless the request wants none of its records.
    """
    answered = request.answered.get(task.name)
    if request.deterministic:
        return Sources(answered=answered)
    keys = estimate_keys(task) if request.device else ()
    estimates = [record for key in keys for record in store.all(key)]
    none = past or request.estimated
    near = () if none else of_same_extents(task.dag, similar_records(task, store))
    return Sources(past, estimates, near, answered)


def own_records(task: Task, records: Sequence[Record]) -> Sequence[Record]:
    """Return the records that the search of a task may know: of a space of its own, its own."""
    if not task.space.has_own:
        return records
    return [one for one in records if one.rules == task.identity.rules]


def similar_records(task: Task, store: RecordStore) -> Sequence[Record]:
    """Return the fastest record of each similar key; of a user's space, its own of those keys."""
    found = store.similar(task.identity.carried["structure"])
    if task.space.own is None:
        return found
    own = own_records(task, [one for best in found for one in store.all(best.key)])
    timed = [(one.best_s, one) for one in own if one.best_s is not None]
    return [one for _, one in sorted(timed, key=lambda pair: pair[0])]


def estimate_keys(task: Task) -> tuple[str, ...]:
    """Return the keys of estimates for the GPU of a task and for the preset of its kind."""
    preset = PRESETS.get(task.target.cpu)
    targets = [task.target, *([] if preset is None else [gpu_target(task.target.cpu, preset)])]
    own = task.identity
    keys = (task_key(own.workload, one, own.cold_bytes, estimated=True) for one in targets)
    return tuple(dict.fromkeys(keys))


def of_same_extents(dag: Dag, records: Iterable[Record]) -> tuple[Record, ...]:
    """Return the records of Dags of the same structure and extents, in order.

    A record whose Dag is invalid is left out.
    """
    own = (structure_key(dag), _extents(dag))
    alike = []
    for record in records:
        try:
            other = carried_dag(record)
        except UNFIT:
            continue
        if (structure_key(other), _extents(other)) == own:
            alike.append(record)
    return tuple(alike)


def _extents(dag: Dag) -> list[int]:
    """Return the extents of all axes of all nodes, in order; of dims the largest sizes.

    Programs of dims with other names, least sizes, steps or weights have the same choices.
    """
    return [
        int(extent)
        for node in dag.nodes
        for extent in (
            *node.shape,
            *(axis.extent for axis in (node.reduce_axes if isinstance(node, Compute) else ())),
        )
    ]
