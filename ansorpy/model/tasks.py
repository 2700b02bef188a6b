"""From a partition to tasks: groups with equal Dags are one task with a weight."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.graph.groups import NodeGroup, Partition, halves
from ansorpy.graph.lower import Lowered, lower
from ansorpy.te.analysis import workload_key
from ansorpy.te.dag import Dag

NAME_CHARACTERS: Final = 40  # characters of a task's name that tell its operators


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A group with its Dag, and the name of the task that computes it."""

    group: NodeGroup
    lowered: Lowered
    task: str


@dataclass(frozen=True, slots=True)
class ModelTasks:
    """The parts of a model in the order in which they run, and its tasks.

    `weights` is the number of parts of each task, by name.
    """

    parts: tuple[ModelPart, ...]
    dags: tuple[Dag, ...]

    @property
    def weights(self) -> dict[str, float]:
        """The number of parts that each task computes."""
        found = {dag.name: 0.0 for dag in self.dags}
        for part in self.parts:
            found[part.task] += 1.0
        return found


def tasks_of(partition: Partition, fits: Callable[[Dag], bool] = lambda dag: True) -> ModelTasks:
    """Return the parts and tasks of a partition; names of tasks have no text of a user.

    Args:
        fits: returns False for a Dag that is too large for one task: its group is halved.
    """
    known: dict[str, Dag] = {}
    parts = []
    todo = list(reversed(partition.groups))
    while todo:
        group = todo.pop()
        low = lower(partition.graph, group.nodes, group.outputs)
        key = workload_key(low.dag)
        if key not in known and len(group.nodes) > 1 and not fits(low.dag):
            todo += reversed(halves(partition.graph, group))
            continue
        if key not in known:
            known[key] = replace(low.dag, name=_name(len(known), group))
        parts.append(ModelPart(group, low, known[key].name))
    return ModelTasks(tuple(parts), tuple(known.values()))


def _name(number: int, group: NodeGroup) -> str:
    """Return t0_conv_relu, where equal neighbours count once."""
    ops: Sequence[str] = [node.op for node in group.nodes]
    told = [op for n, op in enumerate(ops) if n == 0 or op != ops[n - 1]]
    words = re.sub(r"[^a-z0-9_]", "", "_".join(told).lower())
    return f"t{number}_{words}"[:NAME_CHARACTERS].rstrip("_")
