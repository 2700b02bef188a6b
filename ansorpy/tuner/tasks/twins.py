"""Equal tasks of one request under several names: tuned once, delivered under each name."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from ansorpy.events import Delivered, FirstAnswer, TaskResult
from ansorpy.loopir.nodes import Buffer, Program, Scope
from ansorpy.loopir.rewrite import map_phases, rename_buffers
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag
from ansorpy.tuner.tasks.task import Task

Told = TypeVar("Told", Delivered, FirstAnswer)


def leaders(dags: Sequence[Dag]) -> dict[str, str]:
    """Return, by name, the first name of the same workload: the task that is tuned for all."""
    firsts: dict[str, str] = {}
    return {dag.name: firsts.setdefault(workload_key(dag), dag.name) for dag in dags}


def with_twins(dags: Sequence[Dag]) -> list[tuple[Dag, tuple[Dag, ...]]]:
    """Return the first Dag of each workload, with the other Dags of it as twins."""
    firsts = leaders(dags)
    found: dict[str, list[Dag]] = {}
    for dag in dags:
        found.setdefault(firsts[dag.name], []).append(dag)
    return [(first, tuple(twins)) for first, *twins in found.values()]


def summed(firsts: Mapping[str, str], weights: Mapping[str, float]) -> dict[str, float]:
    """Return the weight of every task that is tuned: the sum over its names.

    Args:
        firsts: as `leaders` returns it.
        weights: by name, of each name.
    """
    found = dict.fromkeys(firsts.values(), 0.0)
    for name, first in firsts.items():
        found[first] += weights[name]
    return found


def twin_names(firsts: Mapping[str, str]) -> dict[str, str]:
    """Return the tasks that are not tuned under their own name, and as which task they are."""
    return {name: first for name, first in firsts.items() if name != first}


def renamed(buffers: Sequence[Buffer], task: Task, twin: Dag) -> tuple[Buffer, ...]:
    """Return the buffers of a kernel of a task with the names of the nodes of its twin.

    A buffer is called as its node, or as the node, a dot and a suffix. Scratch that belongs to no
    node gets another name if the twin has a node of that name.
    """
    nodes = zip(task.dag.nodes, twin.nodes, strict=True)
    names = {one.name: other.name for one, other in nodes}
    taken = set(names.values())

    def name(buffer: Buffer) -> str:
        node, dot, suffix = buffer.name.partition(".")
        if node in names:
            return names[node] + dot + suffix
        return f"{buffer.name}_" if buffer.scope is Scope.GLOBAL and node in taken else buffer.name

    return tuple(replace(buffer, name=name(buffer)) for buffer in buffers)


def renamed_program(program: Program, task: Task, twin: Dag) -> Program:
    """Return a program of a task with the names of the nodes of its twin; as `renamed`."""
    buffers = renamed(program.buffers, task, twin)
    pairs = zip(program.buffers, buffers, strict=True)
    names = {old.name: new.name for old, new in pairs if old.name != new.name}
    if not names:
        return program
    changed = map_phases(program, lambda body: rename_buffers(body, names))
    return replace(changed, buffers=buffers)


def schedule_of(schedule: str, task: Task, twin: Dag) -> str:
    """Return the loops for people; the loops of a twin say whose names they have."""
    return schedule if twin is task.dag else f"(tuned as {task.name}, and in its names)\n{schedule}"


def written(task: Task, write: Callable[[Dag], Path]) -> Path:
    """Write the zip of a task, then a zip for each twin; return the first."""
    path = write(task.dag)
    for twin in task.identity.twins:
        write(twin)
    return path


def each_told(task: Task, event: Told) -> Iterator[Told]:
    """Yield the delivery of a task, then the same for its twins."""
    yield event
    for twin in task.identity.twins:
        yield replace(event, task=twin.name, kernel=_of_twin(event.kernel, task, twin))


def each_result(
    dags: Sequence[Dag], tasks: Sequence[Task], results: Mapping[str, TaskResult | None]
) -> Iterator[TaskResult]:
    """Yield the results in the order of the request; trials and time count for one name only."""
    by_name = {dag.name: task for task in tasks for dag in (task.dag, *task.identity.twins)}
    for dag in dags:
        task = by_name[dag.name]
        result = results[task.name]
        if result is not None:
            yield result if dag is task.dag else twin_result(result, task, dag)


def zips(kernel: Path, task: Task) -> Iterator[Path]:
    """Yield the zip of a task and the zips of its twins beside it."""
    yield kernel
    for twin in task.identity.twins:
        yield _of_twin(kernel, task, twin)


def twin_result(result: TaskResult, task: Task, twin: Dag) -> TaskResult:
    """Return the result of a task under the name of its twin."""
    kernel = None if result.kernel is None else _of_twin(result.kernel, task, twin)
    return replace(
        result, name=twin.name, kernel=kernel, same_as=task.name,
        trials=0, seconds=0.0, failures={}, suspects=(), contrast=None,
    )  # fmt: skip


def _of_twin(kernel: Path, task: Task, twin: Dag) -> Path:
    """Return the zip of a twin: it lies beside the zip of the task."""
    return kernel.with_name(twin.name + kernel.name.removeprefix(task.name))
