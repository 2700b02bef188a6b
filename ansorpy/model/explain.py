"""The explanation of a model: passes that fired, groups, and why each ended."""

from collections import Counter
from typing import Final

from ansorpy.cost.explained import SUSPECT
from ansorpy.graph.facts import NodeFactsOf
from ansorpy.graph.graph import Graph
from ansorpy.graph.groups import NodeGroup, Partition
from ansorpy.graph.passes import Simplified
from ansorpy.graph.pieces import pieces
from ansorpy.model.tasks import tasks_of
from ansorpy.te.analysis import flop_count
from ansorpy.te.dims import Dim

TOO_LONG: Final = f"more than {SUSPECT:g} times as long as its bytes and operations explain"


def explanation(graph: Graph, simplified: Simplified, parted: Partition) -> str:
    """Return lines for people.

    Args:
        graph: as imported.
        parted: of the simplified graph.
    """
    tasks, facts_of = tasks_of(parted), NodeFactsOf(simplified.graph)
    flop = {dag.name: flop_count(dag) for dag in tasks.dags}
    total = sum(flop[part.task] for part in tasks.parts if part.task) or 1
    before = Counter(node.op for node in graph.nodes)
    lines = [
        f"{graph.name}: {len(graph.nodes)} nodes: {_counts(before)}",
        *(f"each call decides {one}" for one in graph.dims),
        *(f"pass {name}: {sites} sites" for name, sites in simplified.sites.items()),
        f"{len(simplified.graph.nodes)} nodes after passes; {len(parted.views)} views need no"
        f" kernel; {len(tasks.parts)} kernel calls of {len(tasks.dags)} tasks,"
        f" {total / 1e9:.3g} GFLOP",
    ]
    for number, part in enumerate(tasks.parts):
        share = "rows that the driver copies" if part.group.copied else "hosted"
        if part.task:
            share = f"task {part.task}, {flop[part.task] / total:.1%} of the operations"
        lines += [
            f"{number}. {part.group.title} -> {_shapes(simplified.graph, part.group)}, {share}",
            f"   ended: {part.group.why}",
        ]
        cut = len(pieces(simplified.graph, part.group, facts_of))
        if cut > 1:
            lines.append(f"   timed in {cut} pieces, too, if it takes {TOO_LONG}")
    return "\n".join(lines)


def _counts(ops: Counter[str]) -> str:
    return ", ".join(f"{count} {op}" for op, count in ops.most_common())


def _shapes(graph: Graph, group: NodeGroup) -> str:
    infos = [graph.values[name] for name in group.outputs]
    return ", ".join(f"{info.dtype}[{', '.join(map(_extent, info.fixed_shape))}]" for info in infos)


def _extent(extent: int) -> str:
    return extent.name if isinstance(extent, Dim) else str(extent)
