"""From a partition to tasks: groups with equal Dags are one task with a weight."""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.graph.chains import chains
from ansorpy.graph.facts import NodeFactsOf
from ansorpy.graph.graph import Graph
from ansorpy.graph.groups import NodeGroup, Partition, halves
from ansorpy.graph.lower import Lowered, lower
from ansorpy.graph.pieces import pieces
from ansorpy.te.analysis import weight_bytes, workload_key
from ansorpy.te.dag import Dag

NAME_CHARACTERS: Final = 40  # characters of a task's name that tell its operators


@dataclass(frozen=True, slots=True)
class ModelPart:
    """A group with its Dag, and the name of the task that computes it.

    `lowered` is None and `task` empty for a node that NumPy computes.
    """

    group: NodeGroup
    lowered: Lowered | None
    task: str


@dataclass(frozen=True, slots=True)
class Cut:
    """A part that may replace several others, by number: which is faster is measured."""

    members: tuple[int, ...]
    whole: ModelPart


@dataclass(frozen=True, slots=True)
class ModelTasks:
    """The parts of a model in the order in which they run, alternatives to them, and all tasks."""

    parts: tuple[ModelPart, ...]
    dags: tuple[Dag, ...]
    cuts: tuple[Cut, ...] = ()

    @property
    def weights(self) -> dict[str, float]:
        """The number of parts that each task computes, alternatives left out."""
        found = {dag.name: 0.0 for dag in self.dags}
        for part in self.parts:
            if part.task:
                found[part.task] += 1.0
        return found

    @property
    def weights_bytes(self) -> int:
        """The bytes of weights that a run of the parts reads, of each weight once."""
        found: dict[str, int] = {}
        for low in (part.lowered for part in self.parts if part.lowered is not None):
            read = weight_bytes(low.dag)
            for name, node in zip(low.reads, low.dag.placeholders, strict=True):
                found[name] = max(found.get(name, 0), read.get(node.name, 0))
        return sum(found.values())

    def chosen(self, best_s: Mapping[str, float]) -> "ModelTasks":
        """Return the faster parts: an alternative replaces parts whose sum takes longer.

        Args:
            best_s: by task; a part without a time is taken as it is.
        """
        parts: dict[int, ModelPart] = dict(enumerate(self.parts))
        for cut in self.cuts:
            known = [best_s.get(self.parts[n].task) for n in cut.members]
            sum_s = sum(one for one in known if one is not None)
            if None not in known and best_s.get(cut.whole.task, sum_s) < sum_s:
                *others, last = cut.members
                for n in others:
                    del parts[n]
                parts[last] = cut.whole
        used = {part.task for part in parts.values()}
        dags = tuple(dag for dag in self.dags if dag.name in used)
        return ModelTasks(tuple(parts.values()), dags)

    def in_pieces(self, graph: Graph, names: Collection[str]) -> "ModelTasks":
        """Return the tasks with the parts of some tasks in pieces, and the parts as alternatives.

        A part that has one piece stays as it is, without an alternative.
        """
        known = {workload_key(dag): dag for dag in self.dags}
        facts_of = NodeFactsOf(graph)
        parts, cuts = list[ModelPart](), list[Cut]()
        for part in self.parts:
            cut = pieces(graph, part.group, facts_of) if part.task in names else ()
            if len(cut) > 1:
                members = range(len(parts), len(parts) + len(cut))
                parts += [_part(known, one, lower(graph, one.nodes, one.outputs)) for one in cut]
                cuts.append(Cut(tuple(members), part))
            else:
                parts.append(part)
        return ModelTasks(tuple(parts), tuple(known.values()), tuple(cuts))


def tasks_of(
    partition: Partition,
    fits: Callable[[Dag], bool] = lambda dag: True,
    fuses: Callable[[Dag], bool] = lambda dag: False,
) -> ModelTasks:
    """Return the parts and tasks of a partition; names of tasks have no text of a user.

    Args:
        fits: returns False for a Dag that is too large for one task: its group is halved.
        fuses: returns True for the Dag of a chain that one kernel can compute in blocks of rows.
    """
    known: dict[str, Dag] = {}
    graph, parts = partition.graph, list[ModelPart]()
    todo = list(reversed(partition.groups))
    while todo:
        group = todo.pop()
        if group.hosted:
            parts.append(ModelPart(group, None, ""))
            continue
        low = lower(graph, group.nodes, group.outputs)
        if len(group.nodes) > 1 and workload_key(low.dag) not in known and not fits(low.dag):
            todo += reversed(halves(graph, group))
            continue
        parts.append(_part(known, group, low))
    verdicts: dict[str, bool] = {}
    cuts = []
    for chain in chains(graph, [part.group for part in parts]):
        key = workload_key(chain.lowered.dag)
        if key not in verdicts:
            verdicts[key] = fuses(chain.lowered.dag)
        if verdicts[key]:
            cuts.append(Cut(chain.members, _part(known, chain.whole, chain.lowered)))
    return ModelTasks(tuple(parts), tuple(known.values()), tuple(cuts))


def hosted_nodes(tasks: ModelTasks) -> tuple[str, ...]:
    """Return the operators of the nodes that NumPy computes."""
    groups = [part.group for part in tasks.parts if part.lowered is None]
    return tuple(group.title for group in groups if not group.copied)


def _part(known: dict[str, Dag], group: NodeGroup, low: Lowered) -> ModelPart:
    """Return the part of a group; a Dag that no task has yet becomes one, by its workload key."""
    key = workload_key(low.dag)
    if key not in known:
        known[key] = replace(low.dag, name=_name(len(known), group))
    return ModelPart(group, low, known[key].name)


def _name(number: int, group: NodeGroup) -> str:
    """Return t0_conv_relu, where equal neighbours count once."""
    ops: Sequence[str] = [node.op for node in group.nodes]
    told = [op for n, op in enumerate(ops) if n == 0 or op != ops[n - 1]]
    words = re.sub(r"[^a-z0-9_]", "", "_".join(told).lower())
    return f"t{number}_{words}"[:NAME_CHARACTERS].rstrip("_")
