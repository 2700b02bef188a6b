"""Rules that are wrong, each in another way: the check of rules must refuse every one."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace

from ansorpy.expr.expr import Binary, Const, Expr, Read, transform
from ansorpy.state.axis import AxisKind
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import Attached, Inlined, Stage, State
from ansorpy.state.steps import CacheWrite, ComputeAt, ComputeInline, Reorder, Split
from ansorpy.state.transform import tile
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute


class OnReductions(Rule):
    """The condition of most rules here: a reduction whose loops are whole, and that has inputs."""

    def explain(self, at: Cursor) -> Answer:
        if at.facts.divided(at.name) or not at.facts.reduces(at.name):
            return no(f"{at.name} is divided, or reduces nothing")
        return yes(f"{at.name} reduces")


def changed(at: Cursor, stage: Stage) -> Cursor:
    """Go on with another stage in place of the current one, by no step."""
    return at.before(at.state.with_stage(stage))


def compute(at: Cursor) -> Compute:
    node = at.stage.node
    assert isinstance(node, Compute)
    return node


@dataclass(frozen=True)
class WrongTileProduct(OnReductions):
    """Split the first loop in 2 and run the inner part once: the product of the parts is short."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        name = at.stage.loops[0].name
        state = at.state.do(Split(at.name, name, 2))
        outer, inner, *rest = state.stage(at.name).loops
        once = replace(inner, extent=1, length=None)
        yield at.before(state.with_stage(replace(state.stage(at.name), loops=(outer, once, *rest))))


@dataclass(frozen=True)
class DropsAnAxis(OnReductions):
    """Leave the innermost loop of the reduction out."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield changed(at, replace(at.stage, loops=at.stage.loops[:-1]))


@dataclass(frozen=True)
class FusesAnyConsumer(Rule):
    """Compute a stage at the innermost loop of its last consumer, although others read it."""

    def explain(self, at: Cursor) -> Answer:
        if len(at.facts.consumers(at.name)) < 2 or not isinstance(at.stage.node, Compute):
            return no(f"{at.name} has one consumer")
        return yes(f"{at.name} has two consumers")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        host = at.state.stage(at.facts.consumers(at.name)[-1])
        yield at.before(at.state.do(ComputeAt(at.name, host.name, host.loops[-1].name)))


@dataclass(frozen=True)
class InlinesAReduction(OnReductions):
    """Inline a reduction, past the step that refuses to."""

    def explain(self, at: Cursor) -> Answer:
        if at.name in at.state.dag.outputs:
            return no(f"{at.name} is an output")
        return super().explain(at)

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield changed(at, replace(at.stage, location=Inlined()))


@dataclass(frozen=True)
class InlinesByAStep(InlinesAReduction):
    """Inline a reduction by the step, which refuses."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.before(at.state.do(ComputeInline(at.name)))


@dataclass(frozen=True)
class Stays(OnReductions):
    """Yield the cursor itself: the derivation never ends."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at


@dataclass(frozen=True)
class CachesCaches(OnReductions):
    """Cache the cache of the cache: every state is new, and the derivation never ends."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.moved(at.state.do(CacheWrite(at.name)), at.index)


@dataclass(frozen=True)
class YieldsForever(OnReductions):
    """Yield one successor after the other."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        while True:
            yield at.before(at.state)


@dataclass(frozen=True)
class Hangs(OnReductions):
    """Search for a tile size that does not exist, past every error."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        size = 1
        while size:
            try:
                size = size % 7 + 1
            except Exception:  # noqa: BLE001 - a careless rule
                size = 1
        yield at.before(at.state)


@dataclass(frozen=True)
class Raises(Rule):
    """Divide by the number of consumers: an output has none."""

    def explain(self, at: Cursor) -> Answer:
        share = 1 / len(at.facts.consumers(at.name))
        return yes(f"{at.name} has a share of {share}")

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.before(at.state)


@dataclass(frozen=True)
class ChangesAnOutput(OnReductions):
    """Double the terms of a reduction."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        node = compute(at)
        body = tuple(Binary("add", term, term) for term in node.body)
        yield changed(at, replace(at.stage, node=replace(node, body=body)))


@dataclass(frozen=True)
class ChangesTheDag(OnReductions):
    """Give the Dag another name, so that records would be of another workload."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.before(replace(at.state, dag=replace(at.state.dag, name="faster")))


@dataclass(frozen=True)
class MutatesItsState(OnReductions):
    """Reorder the loops in the state that it was given."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        after = at.state.do(Reorder(at.name, tuple(x.name for x in at.stage.loops[::-1])))
        object.__setattr__(at.state, "stages", after.stages)
        yield at.before(at.state)


@dataclass(frozen=True)
class ReadsPastTheEnd(OnReductions):
    """Read the next element along the last dimension of every operand."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        node = compute(at)

        def later(expr: Expr) -> Expr | None:
            if not isinstance(expr, Read):
                return None
            *first, last = expr.indices
            return replace(expr, indices=(*first, Binary("add", last, Const(1))))

        body = tuple(transform(term, later) for term in node.body)
        yield changed(at, replace(at.stage, node=replace(node, body=body)))


@dataclass(frozen=True)
class YieldsTwins(OnReductions):
    """Yield every successor three times."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        for _ in range(3):
            yield at.before(tile(at.state, at.name, "SRS").state)


@dataclass(frozen=True)
class TossesCoins(OnReductions):
    """Draw a structure at random: a record could not tell the rule that made it."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.before(tile(at.state, at.name, "S" * random.randint(2, 99) + "R").state)


@dataclass(frozen=True)
class YieldsNothing(OnReductions):
    """Apply, and give the derivation nothing to go on with."""

    def excludes_later(self, at: Cursor) -> bool:
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield from ()


@dataclass(frozen=True)
class ForgetsItsSteps(OnReductions):
    """Tile, and drop the history: a record of the state replays another program."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.before(replace(tile(at.state, at.name, "SSRSRS").state, steps=()))


@dataclass(frozen=True)
class Doubled:
    """A step of the user's own: the reduction runs over its data twice."""

    stage: str

    def apply(self, state: State) -> State:
        stage = state.stage(self.stage)
        (last,) = (x for x in stage.loops[-1:] if x.kind is AxisKind.REDUCE)
        again = replace(last, name="again", axes=())
        return state.with_stage(replace(stage, loops=(*stage.loops, again)))


@dataclass(frozen=True)
class TakesOwnSteps(OnReductions):
    """Apply a step that no record can hold."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.before(at.state.do(Doubled(at.name)))


@dataclass(frozen=True)
class LeavesARuin(OnReductions):
    """Attach a stage to a loop that does not exist: a later rule fails."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield changed(at, replace(at.stage, location=Attached("nowhere", "i")))


@dataclass(frozen=True)
class YieldsStates(OnReductions):
    """Yield states in place of cursors."""

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        yield at.state  # type: ignore[misc]
