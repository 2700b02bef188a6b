"""AddCacheRead: stage an operand of a tiled consumer in shared memory."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.expr.expr import reads
from ansorpy.state.axis import AxisKind
from ansorpy.state.query import Found
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import CacheRead, ComputeAt
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute


@dataclass(frozen=True, slots=True)
class AddCacheRead(Rule):
    """Copy the part of an operand that one step of the outermost reduce tile reads.

    Condition   the stage has one consumer; the consumer reads the stage directly, needs tiling,
                does not reduce across threads, and its reduction does not start from the stage
    Rewrite     (S, i)  ->  (S', i): a stage "A.shared" after A, computed at the last reduce
                loop of the consumer's outermost reduce tile; no later rule is tried
    Not handled a consumer without a reduce loop: it has no tile to copy for
    Source      TVM v0.19 RuleAddCacheRead.
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the consumer, or the missing property of it."""
        consumer = self._consumer(at)
        return yes(consumer.why) if consumer.name is not None else no(consumer.why)

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, which stands at the same stage."""
        consumer = self._consumer(at).name
        assert consumer is not None  # as `explain` found
        step = CacheRead(at.name, (consumer,))
        state = at.state.do(step)
        host = _outer_reduce_loop(at, consumer)
        yield at.moved(state.do(ComputeAt(step.cache, consumer, host)), at.index)

    def _consumer(self, at: Cursor) -> Found:
        consumers = at.facts.consumers(at.name)
        if len(consumers) != 1:
            return Found(None, f"cannot cache {at.name}: it has {len(consumers)} consumers")
        (name,) = consumers
        reuse = at.facts.needs_tiling(name)
        if not reuse:
            return Found(None, f"cannot cache {at.name}: {reuse.why}")
        if at.facts.reduces_across_threads(name):
            return Found(None, f"cannot cache {at.name}: {name} reduces across threads")
        if at.name not in at.facts.direct_producers(name):
            return Found(
                None, f"cannot cache {at.name}: {name} reads it through an inlined stage only"
            )
        if not at.facts.reduces(name):
            return Found(None, f"cannot cache {at.name}: {name} has no reduce loop")
        if at.name in _starts_from(at, name):
            return Found(None, f"cannot cache {at.name}: {name} starts its reduction from it")
        return Found(name, f"{name} alone reads {at.name}; {reuse.why}")


def _starts_from(at: Cursor, consumer: str) -> frozenset[str]:
    """Return the tensors that the reduction of a stage starts from; it reads them before."""
    node = at.state.stage(consumer).node
    start = node.start if isinstance(node, Compute) else None
    return frozenset(read.tensor for read in reads(start)) if start is not None else frozenset()


def _outer_reduce_loop(at: Cursor, consumer: str) -> str:
    """Return the last reduce loop of the outermost tile; a tile has one loop per split axis."""
    stage = at.state.stage(consumer)
    assert isinstance(stage.node, Compute)  # only compute stages read
    whole = stage.node.attrs.no_split_inner
    width = sum(axis.name not in whole for axis in stage.node.reduce_axes)
    loops = tuple(loop for loop in stage.loops if loop.kind is AxisKind.REDUCE)
    return loops[max(width, 1) - 1].name
