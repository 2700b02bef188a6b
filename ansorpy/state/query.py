"""Queries of rules to a state. Inlined stages are skipped, except by queries named `direct`."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from ansorpy.expr.expr import Binary, Read, Var, substitute
from ansorpy.state.axis import AxisKind
from ansorpy.state.state import Attached, Combine, Inlined, Partial, Root, Stage, State
from ansorpy.state.steps import CacheWrite, Split
from ansorpy.te.analysis import (
    Answer,
    Common,
    common_outer,
    elementwise,
    needs_tiling,
    no,
    strictly_inlineable,
    yes,
)
from ansorpy.te.dag import Axis, Compute, Dag, Node


@dataclass(frozen=True, slots=True)
class Found:
    """The answer of a search for a stage: its name or None, and the reason."""

    name: str | None
    why: str


@dataclass(frozen=True)
class StateFacts:
    """Answers about one state. Source of the predicates: ansor.md B2, B3."""

    state: State

    @cached_property
    def dag(self) -> Dag:
        """The Dag that the stages compute now: caches and partial results are nodes of it."""
        nodes = tuple(_seen_node(self.state, stage) for stage in self.state.stages)
        return Dag(nodes, self.state.dag.outputs, self.state.dag.name)

    @cached_property
    def inlined(self) -> frozenset[str]:
        """Names of the inlined stages."""
        return frozenset(s.name for s in self.state.stages if isinstance(s.location, Inlined))

    def consumers(self, name: str) -> tuple[str, ...]:
        """Return the stages that read `name`, directly or through inlined ones, in order."""
        readers: set[str] = set()
        stack = [name]
        while stack:
            for reader in self.dag.consumers[stack.pop()]:
                if reader in self.inlined:
                    stack.append(reader)
                else:
                    readers.add(reader)
        return self._in_order(readers)

    def producers(self, name: str) -> tuple[str, ...]:
        """Return the stages that `name` reads, directly or through inlined ones, in order."""
        sources: set[str] = set()
        stack = [name]
        while stack:
            for source in self.direct_producers(stack.pop()):
                if source in self.inlined:
                    stack.append(source)
                else:
                    sources.add(source)
        return self._in_order(sources)

    def direct_producers(self, name: str) -> tuple[str, ...]:
        """Return the stages that the body of `name` reads, inlined ones included."""
        node = self.dag.node(name)
        return (
            tuple(dict.fromkeys(r.tensor for r in node.reads)) if isinstance(node, Compute) else ()
        )

    def own_producers(self, name: str) -> tuple[str, ...]:
        """Return the direct producers with undivided loops that no other stage reads."""
        return tuple(
            source
            for source in self.direct_producers(name)
            if self.consumers(source) == (name,)
            and source not in self.dag.outputs
            and not self.divided(source)
        )

    def reduces(self, name: str) -> bool:
        """Say whether the stage has a reduce loop."""
        return any(loop.kind is AxisKind.REDUCE for loop in self.state.stage(name).loops)

    def serves(self, name: str) -> bool:
        """Say whether the stage is tensorized, or lays out data for a tensorized stage."""
        stage = self.state.stage(name)
        return stage.dot is not None or stage.prepares

    def divided(self, name: str) -> bool:
        """Say whether a loop of the stage has been split or fused."""
        return any(
            loop.extent is None or len(loop.axes) > 1 for loop in self.state.stage(name).loops
        )

    def needs_tiling(self, name: str) -> Answer:
        """Say whether the stage reads an element several times, so that tiling gives reuse."""
        return needs_tiling(self.dag.node(name))

    def always_inlined(self, name: str, everything: bool) -> Answer:
        """Say whether the stage is always inlined (`everything`: expensive stages as well)."""
        node = self.dag.node(name)
        if not isinstance(node, Compute):
            return no(f"{name} is an input")
        if name in self.state.dag.outputs:
            return no(f"{name} is an output")
        if self.serves(name):
            return no(f"{name} serves an instruction")
        if self.reduces(name) or node.combiner is not None:
            return no(f"{name} reduces")
        if isinstance(self.state.stage(name).location, Attached):
            return no(f"{name} is computed at a loop already")
        if everything:
            return yes(f"{name} reduces nothing and is no output")
        return strictly_inlineable(node)

    def fusible_consumer(self, name: str) -> Found:
        """Return the only consumer, if it is element-wise and may host the tiles of the stage.

        Refused are a consumer that reduces as the stage does, and a copy named `.shared`. Beyond
        the condition of released Ansor, also refused are a consumer whose loops are already
        divided, because two producers cannot both determine its tiles, and the consumer of an
        output, because an output is needed whole.
        """
        consumers = self.consumers(name)
        if len(consumers) != 1:
            return Found(None, f"{name} has {len(consumers)} consumers")
        if name in self.state.dag.outputs:
            return Found(None, f"{name} is an output, computed whole")
        (consumer,) = consumers
        matched = elementwise(self.dag, name, consumer)
        if not matched:
            return Found(None, matched.why)
        if self.reduces(name) and self.reduces(consumer):
            return Found(None, f"both {name} and {consumer} reduce")
        if consumer.endswith(".shared"):
            return Found(None, f"{consumer} is a copy in shared memory")
        if self.divided(consumer):
            return Found(None, f"the loops of {consumer} are already split")
        if any(loop.annotation for loop in self.state.stage(consumer).loops):
            return Found(None, f"a loop of {consumer} is already bound to threads, or unrolled")
        return Found(consumer, matched.why)

    def single_consumer(self, name: str) -> Found:
        """Return the only consumer, or the only root stage in which all consumers are computed."""
        consumers = self.consumers(name)
        if len(consumers) == 1:
            return Found(consumers[0], f"{consumers[0]} alone reads {name}")
        roots = dict.fromkeys(map(self._root, consumers))
        if len(roots) == 1:
            (root,) = roots
            return Found(root, f"all that read {name} are computed in {root}")
        return Found(None, f"{name} is read in {len(roots)} separate nests")

    def common_outer(self, name: str, consumer: str) -> Common:
        """Count the leading axes that the stage shares with `consumer`."""
        return common_outer(self.dag, name, consumer)

    def has_cache_write(self, name: str) -> bool:
        """Say whether a cache-write step made the stage."""
        return any(isinstance(s, CacheWrite) and s.cache == name for s in self.state.steps)

    def splits(self, name: str) -> tuple[Split, ...]:
        """Return the splits of the stage in order, without splits that follow another split."""
        return tuple(s for s in self.state.steps if isinstance(s, Split) and s.stage == name)

    def reduces_across_threads(self, name: str) -> bool:
        """Say whether the stage, or a stage attached to it, has a reduce loop bound to threads."""
        stages = (self.state.stage(name), *self.guests(name))
        loops = (loop for stage in stages for loop in stage.loops)
        return any(loop.kind is AxisKind.REDUCE and loop.annotation == "thread" for loop in loops)

    def guests(self, name: str) -> tuple[Stage, ...]:
        """Return the stages that are computed at a loop of this one."""
        return tuple(
            stage
            for stage in self.state.stages
            if isinstance(stage.location, Attached) and stage.location.stage == name
        )

    def points(self, name: str) -> tuple[int, int]:
        """Return the products of the spatial and of the reduce extents."""
        node = self.dag.node(name)
        if not isinstance(node, Compute):
            return prod(node.shape), 1
        return prod(node.shape), prod(axis.extent for axis in node.reduce_axes)

    def _root(self, name: str) -> str:
        location = self.state.stage(name).location
        while isinstance(location, Attached):
            name = location.stage
            location = self.state.stage(name).location
        assert isinstance(location, Root)  # consumers are looked through inlined stages
        return name

    def _in_order(self, names: Iterable[str]) -> tuple[str, ...]:
        return tuple(sorted(names, key=self.state.index.__getitem__))


def fixed_sizes(state: State) -> dict[str, int]:
    """Return the values of the named sizes that the steps fix."""
    return {
        f"{step.stage}.{step.loop}.{q}": value
        for step in state.steps
        if isinstance(step, Split)
        for q, value in enumerate(step.fixed, start=1)
        if value
    }


def _seen_node(state: State, stage: Stage) -> Node:
    """Return the node with the axis of partial results, if the stage has one."""
    node = stage.node
    if not isinstance(node, Compute):
        return node
    match stage.role:
        case Partial(loop=loop):
            # Every reduce axis is now the sum of the kept part and the remaining part.
            moved = {a.name: Binary("add", Var(a.name), Var(loop)) for a in node.reduce_axes}
            body = tuple(substitute(part, moved) for part in node.body)
            return replace(node, axes=(*node.axes, _partials(node, loop)), body=body, start=None)
        case Combine(of=of):
            role = state.stage(of).role
            assert isinstance(role, Partial)  # rfactor makes both stages at once
            axis = _partials(node, role.loop)
            indices = (*(Var(a.name) for a in node.axes), Var(axis.name))
            body = tuple(Read(of, indices, dtype, q) for q, dtype in enumerate(node.dtypes))
            return replace(node, reduce_axes=(axis,), body=body)
        case None:
            return node


def _partials(node: Compute, loop: str) -> Axis:
    # The number of partial results is open; the extent of the whole reduction bounds it.
    return Axis(loop, prod(axis.extent for axis in node.reduce_axes))
