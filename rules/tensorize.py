"""Tensorize: compute several products of narrow numbers with one instruction."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.rewrites.intrinsics import INTRINSICS, Intrinsic
from ansorpy.rewrites.tensorize import find_dot, multiplies
from ansorpy.state import steps
from ansorpy.state.rule import Cursor, Rule
from ansorpy.te.analysis import Answer, no
from ansorpy.te.dag import Compute


@dataclass(frozen=True, slots=True)
class Tensorize(Rule):
    """Step through a sum of products by an instruction of the processor.

    Condition   the loops of the stage are not split, it needs tiling, and its body is the
                pattern of one of `intrinsics` that the target has: int8 or uint8 products into
                int32 (vpdpbusd; tdpbssd and its kin on matrices), bfloat16 products into float32
                (vdpbf16ps; tdpbf16ps). A matrix instruction has priority if every axis that it
                takes is long enough
    Rewrite     (S, i)  ->  (S', i'): the reduce axis k becomes k, k_step; "<stage>_wide" holds
                the operand that moves along the lanes with its steps side by side;
                "<stage>_narrow" is a copy of the other operand if it cannot be read in place;
                "<stage>_sums" corrects operands of equal signedness. Later rules are tried too
    Not handled an axis that both operands read by windows; an operand computed in place
    Source      ours; a described pattern as in Halide, TVM and Exo
    """

    intrinsics: tuple[str, ...] = tuple(dict.fromkeys(one.name for one in INTRINSICS))

    def explain(self, at: Cursor) -> Answer:
        """Name the instruction, or the obstacle."""
        return self._found(at)[1]

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, at the stage that runs on the instruction."""
        one, _ = self._found(at)
        assert one is not None  # as `explain` found
        state = at.state.do(steps.Tensorize(at.name, one.name))
        yield at.moved(state, state.index[at.name])

    def _found(self, at: Cursor) -> tuple[Intrinsic | None, Answer]:
        if at.facts.serves(at.name):
            return None, no(f"cannot tensorize {at.name}: it already serves an instruction")
        if at.facts.has_cache_write(at.name):
            return None, no(f"cannot tensorize {at.name}: it is a cache-write stage")
        if at.facts.divided(at.name):
            return None, no(f"cannot tensorize {at.name}: its loops are already split")
        reuse = at.facts.needs_tiling(at.name)
        if not reuse:
            return None, reuse
        fitting = [
            one
            for one in INTRINSICS
            if one.name in self.intrinsics
            and one.lanes == at.target.lanes("int32")
            and one.on(at.target.features)
        ]
        if not fitting:
            names = " or ".join(self.intrinsics)
            return None, no(f"cannot tensorize {at.name}: the target has no {names}")
        node = at.stage.node
        tried = [(one, *find_dot(node, one)) for one in fitting]
        suited = [(one, dot, why) for one, dot, why in tried if dot is not None]
        if suited:
            # Prefer the signedness whose lanes are innermost: that operand is laid out anyway.
            assert isinstance(node, Compute)  # it sums
            order = [axis.name for axis in node.axes]
            one, _, why = max(suited, key=lambda x: (x[0].matrices, order.index(x[1].lane)))
            return one, why
        # Report the obstacle of the closest instruction.
        near = max(tried, key=lambda x: (multiplies(node, x[0]), x[0].into == node.dtype))
        return None, near[2]
