"""SpecialComputeLocation: compute what a constant-tensor stage reads, beside it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.steps import ComputeAt
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute


@dataclass(frozen=True, slots=True)
class SpecialComputeLocation:
    """Attach a stage just outside the unrolled loops of its consumer.

    Condition   the stage reads something and would otherwise be inlined; its one consumer has
                the attribute `const_axes`
    Rewrite     (S, i)  ->  (S', i - 1), the stage computed at the loop just before the
                consumer's first unrolled one; no later rule is tried
    Not handled a consumer with no loop before its first unrolled one
    Source      TVM v0.19 RuleSpecialComputeLocationGPU.
    """

    def condition(self, at: Cursor) -> Verdict:
        """Apply alone beside a constant-tensor stage."""
        return Verdict.APPLY_ALONE if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Name the consumer and the place, or what is missing."""
        if not at.facts.producers(at.name):
            return no(f"{at.name} reads nothing")
        inlined = at.facts.always_inlined(at.name, everything=True)
        if not inlined:
            return inlined
        consumers = at.facts.consumers(at.name)
        if len(consumers) != 1:
            return no(f"{at.name} has {len(consumers)} consumers")
        node = at.state.stage(consumers[0]).node
        assert isinstance(node, Compute)  # only compute stages read
        if not node.attrs.const_axes:
            return no(f"{node.name} has no const_axes")
        place = _place(at, node.name)
        if place is None:
            return no(f"{node.name} has no loop before its first unrolled one")
        return yes(
            f"{node.name}, which unrolls {', '.join(node.attrs.const_axes)}, reads {at.name}"
        )

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        (consumer,) = at.facts.consumers(at.name)
        place = _place(at, consumer)
        assert place is not None  # as the condition found
        yield at.before(at.state.do(ComputeAt(at.name, consumer, place)))


def _place(at: Cursor, consumer: str) -> str | None:
    loops = at.state.stage(consumer).loops
    for outer, loop in pairwise(loops):
        if outer.annotation == "unroll":
            return None
        if loop.annotation == "unroll":
            return outer.name
    return None
