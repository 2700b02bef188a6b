"""SpecialComputeLocation: compute the operand of a constant-tensor stage at its loops."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import ComputeAt
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute


@dataclass(frozen=True, slots=True)
class SpecialComputeLocation(Rule):
    """Attach a stage just outside the unrolled loops of its consumer.

    Condition   the stage reads a tensor and would otherwise be inlined; its one consumer has
                the attribute `const_axes`
    Rewrite     (S, i)  ->  (S', i - 1), the stage computed at the loop just before the
                consumer's first unrolled loop; no later rule is tried
    Not handled a consumer with no loop before its first unrolled loop
    Source      TVM v0.19 RuleSpecialComputeLocationGPU.
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the consumer, or the obstacle."""
        if not at.facts.producers(at.name):
            return no(f"cannot attach {at.name}: it reads nothing")
        inlined = at.facts.always_inlined(at.name, everything=True)
        if not inlined:
            return no(f"cannot attach {at.name}: {inlined.why}")
        consumers = at.facts.consumers(at.name)
        if len(consumers) != 1:
            return no(f"cannot attach {at.name}: it has {len(consumers)} consumers")
        node = at.state.stage(consumers[0]).node
        assert isinstance(node, Compute)  # only compute stages read
        if not node.attrs.const_axes:
            return no(f"cannot attach {at.name}: its consumer {node.name} has no const_axes")
        place = _place(at, node.name)
        if place is None:
            return no(
                f"cannot attach {at.name}: {node.name} has no loop before its first unrolled loop"
            )
        return yes(
            f"{node.name}, which unrolls {', '.join(node.attrs.const_axes)}, reads {at.name}"
        )

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        (consumer,) = at.facts.consumers(at.name)
        place = _place(at, consumer)
        assert place is not None  # as `explain` found
        yield at.before(at.state.do(ComputeAt(at.name, consumer, place)))


def _place(at: Cursor, consumer: str) -> str | None:
    loops = at.state.stage(consumer).loops
    for outer, loop in pairwise(loops):
        if outer.annotation == "unroll":
            return None
        if loop.annotation == "unroll":
            return outer.name
    return None
