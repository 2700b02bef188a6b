"""Partition of a graph into groups that the engine takes as one Dag each.

    reduction with reuse   takes the element-by-element nodes behind it, with residual operands;
                           transposes and padding in front of it; nodes that cost nothing to
                           recompute in front of the nodes behind it
    other nodes            chains of element-by-element nodes, copies and reductions of rows

A group grows from a node to the node that all readers of its result lead to (the immediate
postdominator), with everything between, so that it has one result and groups form no cycle.
Reductions with reuse grow first: they gain most from nodes behind them.
Source: postdominators as in Relay's FuseOps (Roesch et al., 2018); the conditions come from the
rules TilingWithFusion, SkipPadding, InlineTranspose, AlwaysInline and StreamReduction.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ansorpy.graph.aliases import aliases
from ansorpy.graph.facts import NodeFacts, NodeFactsOf
from ansorpy.graph.graph import Graph, Node
from ansorpy.graph.groups import Partition, group_of
from ansorpy.graph.operator import operator_of
from ansorpy.te.analysis import Answer, needs_tiling, no, yes

MAX_COMPUTES: Final = 32  # compute nodes of a group
MAX_REDUCTIONS: Final = 6  # reductions of a group: each has up to 3 sketches, at most 2048 in all


def partition(graph: Graph) -> Partition:
    """Return the groups of a graph, every live node in one of them or a view.

    Raises:
        GraphError: an operator has no kernel, or does not take its operands.
    """
    return _Partitioner(graph).run()


class _Partitioner:
    """The live nodes by number, in the order of the graph, and the groups so far."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.nodes = _live(graph)
        self.number = {id(node): n for n, node in enumerate(self.nodes)}
        self.producer = {v: n for n, node in enumerate(self.nodes) for v in node.outputs if v}
        self.readers = [self._readers(node) for node in self.nodes]
        self.wanted = [bool(graph.wanted.intersection(node.outputs)) for node in self.nodes]
        self.ends = _postdominators(self.readers, self.wanted)
        self.facts_of = NodeFactsOf(graph)
        self.aliases = aliases(graph, self.nodes, self.facts_of)
        self.taken: set[int] = set()

    def run(self) -> Partition:
        """Return the partition."""
        hosted = [n for n, node in enumerate(self.nodes) if operator_of(node).hosted is not None]
        self.taken.update(hosted)
        own = [n for n in range(len(self.nodes)) if n not in self.taken and not self._is_view(n)]
        grown = [self._grown(n) for n in own if self._facts(n).tiled]
        grown = [self._pulled(members, why) for members, why in grown]
        grown += [([n], _no_kernel(self.nodes[n])) for n in hosted]
        for n in own:
            if n not in self.taken:
                grown.append(self._pulled(*self._grown(n)))
        grown.sort(key=lambda one: one[0][-1])
        groups = tuple(
            group_of(self.graph, [self.nodes[n] for n in members], why) for members, why in grown
        )
        views = {
            name: view
            for n, made in self.aliases.items()
            if n not in self.taken
            for name, view in made.items()
        }
        return Partition(self.graph, groups, views)

    def _grown(self, seed: int) -> tuple[list[int], str]:
        """Return the members of the group of a node, and why there are no more behind it."""
        members = [seed]
        while True:
            answer, region = self._extension(members)
            if not answer:
                break
            members += region
        while len(members) > 1 and self._is_view(members[-1]):
            members.pop()  # a view of the result is an alias
        self.taken.update(members)
        return members, answer.why

    def _extension(self, members: Sequence[int]) -> tuple[Answer, list[int]]:
        """Return if the nodes up to the next postdominator can join a group, and these nodes."""
        last = members[-1]
        end = self.ends[last]
        if end == len(self.nodes):
            ends = "it is a result of the model" if self.wanted[last] else "its readers do not meet"
            return no(ends), []
        region = self._between(last, end)
        for n in region:
            if n in self.taken:
                return no(f"{self.nodes[n]} is in another group"), []
            if self.facts_of(self.nodes[n]) is None:
                return no(f"{self.nodes[n]} changes nothing"), []
            if n in self.aliases and operator_of(self.nodes[n]).joins:
                return no(f"{self.nodes[n]} joins values where they lie"), []
        inside = {*members, *region}
        tiled = bool(self._facts(members[0]).tiled)
        for n in region:
            for p, place in self._operands(n, inside):
                joins = self._behind(n, place) if tiled else self._beside(p, n, place)
                if not joins:
                    return no(f"{self.nodes[n]} cannot join: {joins.why}"), []
        return self._chooses_once(inside) and self._within_limits(inside), region

    def _pulled(self, members: list[int], why: str) -> tuple[list[int], str]:
        """Return the members with the nodes in front that only they read and that can join."""
        inside, todo = set(members), list(members)
        while todo:
            n = todo.pop()
            for value in self.nodes[n].inputs:
                p = self.producer.get(value)
                if p is None or p in self.taken or p in inside or self._is_view(p):
                    continue
                if self._can_be_pulled(p, inside):
                    inside.add(p)
                    todo.append(p)
        self.taken |= inside
        return sorted(inside), why

    def _can_be_pulled(self, p: int, inside: set[int]) -> bool:
        if self.wanted[p] or not inside.issuperset(self.readers[p]):
            return False
        if self._facts(p).tiled or not self._within_limits({*inside, p}):
            return False
        if not self._chooses_once({*inside, p}):
            return False
        tiled = any(self._facts(n).tiled for n in inside)
        for n in self.readers[p]:
            for _, place in self._operands(n, {p}):
                if self._facts(n).tiled:
                    fits = self._in_front(p, n, place)
                elif tiled and self._facts(p).reductions:
                    fits = no("it reduces")
                else:
                    fits = self._beside(p, n, place)
                if not fits:
                    return False
        return True

    def _behind(self, n: int, place: int) -> Answer:
        """Return if a node can follow a tiled reduction: element by element."""
        return self._facts(n).one_to_one(place)

    def _in_front(self, p: int, n: int, place: int) -> Answer:
        """Return if a node can be the operand of a tiled reduction: a transpose, or padding."""
        reads = [node for node, _ in self._facts(n).reads(place)]
        if self._facts(p).transpose and all(map(needs_tiling, reads)):
            return yes("packing transposes")
        if self._facts(p).padding and all(node.reduce_axes for node in reads):
            return yes("the reduction can leave the padding out")
        return no("the reduction reads its operands several times")

    def _beside(self, p: int, n: int, place: int) -> Answer:
        """Return if a node without tiling can be computed where another one reads it."""
        producer, reader = self._facts(p), self._facts(n)
        if reader.tiled:
            return no("the reduction reads its operands several times")
        if self._is_view(n) and not reader.plain(place):
            return no("a view moves no element, and its places are not axes")
        if not producer.reductions and reader.one_to_one(place):
            return yes("it is read one to one")
        if producer.calls and reader.repeats(place):
            return no("a function would be evaluated again and again")
        if producer.inlineable:
            return yes("it costs nothing to recompute")
        plain = reader.plain(place)
        if not plain:
            return plain
        if not reader.shares(place):
            return no("it shares no leading axis with its producer")
        return yes("it shares leading axes")

    def _chooses_once(self, inside: set[int]) -> Answer:
        """Return if no element of a join in a group is chosen among its parts again and again.

        Every node that computes with its elements must be the only reader of its operand, and take
        each element once: a choice is made anew at every read. Else the join is a copy.
        """
        for join in (n for n in inside if operator_of(self.nodes[n]).joins):
            at = join
            while readers := inside.intersection(self.readers[at]):
                if len(readers) > 1:
                    return no(f"several nodes read what {self.nodes[join]} joins")
                (reader,) = readers
                places = [place for _, place in self._operands(reader, {at})]
                once = all(map(self._facts(reader).takes_once, places))
                if not once or operator_of(self.nodes[reader]).joins:
                    return no(f"{self.nodes[reader]} would choose among joined parts again")
                at = reader
        return yes("no join is chosen from again")

    def _within_limits(self, numbers: Iterable[int]) -> Answer:
        facts = [self._facts(n) for n in numbers]
        if sum(len(one.dag.computes) for one in facts) > MAX_COMPUTES:
            return no(f"a group has at most {MAX_COMPUTES} compute nodes")
        if sum(one.reductions for one in facts) > MAX_REDUCTIONS:
            return no(f"a group has at most {MAX_REDUCTIONS} reductions")
        return yes("it is small")

    def _between(self, last: int, end: int) -> list[int]:
        """Return the nodes on all paths from one node to its postdominator, which is included."""
        between, todo = {end}, [last]
        while todo:
            for n in self.readers[todo.pop()]:
                if n not in between:
                    between.add(n)
                    todo.append(n)
        return sorted(between)

    def _operands(self, n: int, inside: set[int]) -> list[tuple[int, int]]:
        """Return the producers of a node's inputs among some nodes, each with its position."""
        return [
            (self.producer[value], place)
            for place, value in enumerate(self.nodes[n].inputs)
            if self.producer.get(value) in inside and self._facts(n).operands[place]
        ]

    def _readers(self, node: Node) -> tuple[int, ...]:
        readers = {
            self.number[id(reader)]
            for value in filter(None, node.outputs)
            for reader in self.graph.readers.get(value, ())
            if id(reader) in self.number
        }
        return tuple(sorted(readers))

    def _facts(self, n: int) -> NodeFacts:
        facts = self.facts_of(self.nodes[n])
        assert facts is not None  # views are left out before
        return facts

    def _is_view(self, n: int) -> bool:
        return n in self.aliases


def _live(graph: Graph) -> tuple[Node, ...]:
    """Return the nodes that some output depends on."""
    needed, kept = set(graph.wanted), list[Node]()
    for node in reversed(graph.nodes):
        if needed.intersection(node.outputs):
            kept.append(node)
            needed.update(node.inputs)
    return tuple(reversed(kept))


def _postdominators(readers: Sequence[tuple[int, ...]], wanted: Sequence[bool]) -> list[int]:
    """Return the immediate postdominator of every node; len(readers) is the end of the graph."""
    end = len(readers)
    parent, depth = [end] * (end + 1), [0] * (end + 1)
    for n in reversed(range(end)):
        meets = [*readers[n], *([end] if wanted[n] or not readers[n] else [])]
        at = meets[0]
        for other in meets[1:]:
            while at != other:
                if depth[at] >= depth[other]:
                    at = parent[at]
                else:
                    other = parent[other]
        parent[n], depth[n] = at, depth[at] + 1
    return parent[:end]


def _no_kernel(node: Node) -> str:
    """Return the reason why a node without tensor expressions is alone in its group."""
    twin = operator_of(node).hosted
    copied = twin is not None and twin.copied
    return "its rows are copied" if copied else "NumPy computes it: it has no kernel"
