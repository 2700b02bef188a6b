"""SimplifyConst: unroll the loops that index a small constant tensor."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.axis import AxisKind
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import Annotate, Reorder, Split
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute


@dataclass(frozen=True, slots=True)
class SimplifyConst(Rule):
    """Turn the indices of a constant tensor into literals, so that its zeros and ones fold.

    Condition   the node has the attribute `const_axes`
    Rewrite     (S, i)  ->  (S', i - 1); no later rule is tried. The listed axes are unrolled,
                every other axis is split in 2: all outer parts, all inner parts, the unrolled
    Not handled a reduce axis that is not listed; a listed name that is not an axis
    Source      TVM v0.19 RuleSimplifyComputeWithConstTensor (Winograd transforms).
    """

    def explain(self, at: Cursor) -> Answer:
        """Name the listed axes, or the obstacle."""
        node = at.stage.node
        if not isinstance(node, Compute) or not node.attrs.const_axes:
            return no(f"cannot unroll {at.name}: it has no const_axes")
        listed = node.attrs.const_axes
        for axis in listed:
            if all(loop.name != axis for loop in at.stage.loops):
                return no(f"cannot unroll {at.name}: it has no loop {axis}, which const_axes lists")
        for loop in at.stage.loops:
            if loop.kind is AxisKind.REDUCE and loop.name not in listed:
                return no(
                    f"cannot unroll {at.name}: its reduce axis {loop.name} is not in const_axes"
                )
        return yes(f"{', '.join(listed)} of {at.name} index a constant tensor")

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        node = at.stage.node
        assert isinstance(node, Compute)  # as `explain` found
        listed = node.attrs.const_axes
        loops = tuple(loop.name for loop in at.stage.loops)
        unrolled = tuple(name for name in loops if name in listed)
        tiled = tuple(name for name in loops if name not in listed)
        state = at.state.do(*(Annotate(at.name, name, "unroll") for name in unrolled))
        state = state.do(*(Split(at.name, name, parts=2) for name in tiled))
        order = (*(f"{name}.0" for name in tiled), *(f"{name}.1" for name in tiled), *unrolled)
        yield at.before(state.do(Reorder(at.name, order)))
