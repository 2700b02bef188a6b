"""CrossThreadReduction: divide one reduction among the threads of a block."""

from collections.abc import Iterator
from dataclasses import dataclass

from ansorpy.state.query import Found
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.steps import Annotate, ComputeAt, FollowSplit, Split
from ansorpy.state.transform import fuse_reduction
from ansorpy.target import GpuTarget, expected
from ansorpy.te.analysis import Answer, no, yes


@dataclass(frozen=True, slots=True)
class CrossThreadReduction(Rule):
    """Bind the inner part of the fused reduction to the threads of a block.

    Condition   not a cache-write stage, and with S and R the points of the spatial and of the
                reduce axes: S < R if the stage needs tiling; otherwise R > 1 and R > warp
    Rewrite     (S, i)  ->  (S', i - 1); later rules are tried too. The reduce loops are fused.
                If a single consumer shares c >= 1 outer axes and needs no tiling, its last loop
                is split by warp and bound to threads (unless the consumer has a split), the
                reduction follows that split, and the stage is computed at the consumer's loop
                c - 1. Otherwise the reduction is split by warp
    Not handled fusion into a consumer that has several splits, follows a split of another
                stage, or reduces without a split: the reduction is not fused then
    Source      TVM v0.19 RuleCrossThreadReduction.
    """

    def explain(self, at: Cursor) -> Answer:
        """Compare the points of the spatial and the reduce axes."""
        if not isinstance(at.target, GpuTarget):
            return no(f"cannot bind {at.name} to threads: the target is no GPU")
        facts, name, warp = at.facts, at.name, at.target.warp
        if not facts.reduces(name):
            return no(f"cannot bind {name} to threads: it reduces nothing")
        if facts.has_cache_write(name):
            return no(f"cannot bind {name} to threads: it is a cache-write stage")
        if facts.divided(name):
            return no(f"cannot bind {name} to threads: its loops are already split")
        space, reduce = facts.points(name)
        if facts.needs_tiling(name):
            if space < reduce:
                return yes(f"{name} has {space} spatial < {reduce} reduce points")
            return no(f"{name} has {space} spatial >= {reduce} reduce points")
        if reduce > max(1, warp):
            return yes(f"{name} has {reduce} reduce points > a warp of {warp}")
        return no(f"{name} has {reduce} reduce points <= a warp of {warp}")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor."""
        warp = expected(at.target, GpuTarget).warp
        state, reduce = fuse_reduction(at.state, at.name)
        host = _host(at)
        if host.name is None:
            state = state.do(Split(at.name, reduce, parts=2, fixed=(warp,)))
            yield at.before(state.do(Annotate(at.name, f"{reduce}.1", "thread")))
            return
        splits = at.facts.splits(host.name)
        if splits:
            leader = splits[0].loop
        else:
            leader = state.stage(host.name).loops[-1].name
            state = state.do(
                Split(host.name, leader, parts=2, fixed=(warp,)),
                Annotate(host.name, f"{leader}.1", "thread"),
            )
        place = state.stage(host.name).loops[at.facts.common_outer(at.name, host.name).count - 1]
        state = state.do(
            FollowSplit(at.name, reduce, host.name, leader, levels=1),
            Annotate(at.name, f"{reduce}.1", "thread"),
            ComputeAt(at.name, host.name, place.name),
        )
        yield at.before(state)


def _host(at: Cursor) -> Found:
    """Return the consumer that can share its threads with the reduction."""
    facts = at.facts
    consumer = facts.single_consumer(at.name)
    if consumer.name is None:
        return consumer
    if facts.common_outer(at.name, consumer.name).count < 1:
        return Found(None, f"{consumer.name} shares no outer axis with {at.name}")
    if facts.needs_tiling(consumer.name):
        return Found(None, f"{consumer.name} needs tiling")
    splits = facts.splits(consumer.name)
    if len(splits) > 1:
        return Found(None, f"{consumer.name} has {len(splits)} splits")
    if not splits and (facts.divided(consumer.name) or facts.reduces(consumer.name)):
        return Found(None, f"{consumer.name} has no plain loop to bind to threads")
    return consumer
