"""FuseChain: compute what leads from one tiled reduction to the next, a block of rows at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansorpy.expr.expr import SIZE_BYTES
from ansorpy.state.rule import Cursor, Verdict
from ansorpy.state.state import State
from ansorpy.state.steps import ComputeAt, ComputeInline
from ansorpy.state.transform import tile
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute

ROWS = 16  # a register tile or two: blocks of fewer rows reuse too little


@dataclass(frozen=True, slots=True)
class Chain:
    """The stages from one tiled reduction to the next; `shared` leading axes are common to all."""

    first: str
    middle: tuple[str, ...]
    shared: int


@dataclass(frozen=True, slots=True)
class FuseChain:
    """Tile a reduction; compute the reduction before it, and all between, in blocks of its rows.

    Condition   the stage needs tiling, and so does a reduction before it; the stages between (a
                softmax, say) need none, and nothing else reads them; all share c leading axes,
                with `rows` points or more for every core; 16 rows of the first reduction take
                half of the second cache at most
    Rewrite     (S, i)  ->  (S', h - 1), h the first reduction; no later rule is tried. Both are
                tiled as `structure` and `first` say. The first, and what the last one reads of
                the stages between, are computed at the c-th loop of the last; the others beside
                the rows they are needed for, or inlined where that costs nothing
    Not handled other stages between; a chain of three is fused two by two, from its end
    Source      ours; as FlashAttention (Dao et al., 2022, arXiv:2205.14135) without its running
                maximum, and Chimera (Zheng et al., HPCA 2023)
    """

    structure: str
    first: str
    rows: int = 8

    def condition(self, at: Cursor) -> Verdict:
        """Apply alone where a block of rows stays in the cache."""
        return Verdict.APPLY_ALONE if self.explain(at) else Verdict.SKIP

    def explain(self, at: Cursor) -> Answer:
        """Name the chain, or what stands in the way."""
        return _find(at, self.rows)[1]

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, before the first reduction."""
        chain, _ = _find(at, self.rows)
        assert chain is not None  # as the condition found
        node = at.stage.node
        assert isinstance(node, Compute)  # as the condition found
        state = tile(at.state, at.name, self.structure).state
        state = tile(state, chain.first, self.first).state
        block = f"{node.axes[chain.shared - 1].name}.0"
        state = state.do(ComputeAt(chain.first, at.name, block))
        state = _place(at, state, chain, block)
        yield at.moved(state, at.state.index[chain.first] - 1)


def _find(at: Cursor, rows: int) -> tuple[Chain | None, Answer]:
    reuse = _tiled(at, at.name)
    if not reuse:
        return None, reuse
    middle: list[str] = []
    for stage in reversed(at.state.stages[: at.index]):
        if not isinstance(stage.node, Compute):
            continue
        if _tiled(at, stage.name):
            chain = Chain(stage.name, tuple(reversed(middle)), _shared(at, stage.name))
            return _judged(at, chain, rows)
        middle.append(stage.name)
    return None, no(f"{at.name} comes after no tiled reduction")


def _tiled(at: Cursor, name: str) -> Answer:
    if not at.facts.reduces(name):
        return no(f"{name} reduces nothing")
    if at.facts.divided(name) or at.facts.has_cache_write(name) or at.facts.serves(name):
        return no(f"{name} has its loops, or is a cache")
    return at.facts.needs_tiling(name)


def _shared(at: Cursor, name: str) -> int:
    return at.facts.common_outer(name, at.name).count


def _judged(at: Cursor, chain: Chain, rows: int) -> tuple[Chain | None, Answer]:
    inside = {*chain.middle, at.name}
    for name in (chain.first, *chain.middle):
        if name in at.state.dag.outputs or not set(at.facts.consumers(name)) <= inside:
            return None, no(f"{name} is read beside the way to {at.name}")
        if at.facts.divided(name) or _shared(at, name) < chain.shared:
            return None, no(f"{name} has its loops, or shares fewer axes than {chain.first}")
        if name in chain.middle and at.facts.needs_tiling(name):
            return None, no(f"{name} needs tiling itself")
    return _fits(at, chain, rows)


def _fits(at: Cursor, chain: Chain, least: int) -> tuple[Chain | None, Answer]:
    node = at.state.stage(chain.first).node
    assert isinstance(node, Compute)  # a tiled reduction
    shared, others = node.axes[: chain.shared], node.axes[chain.shared :]
    rows = prod(axis.extent for axis in shared)
    if not shared or rows < least * at.target.cores:
        return None, no(f"{chain.first} and {at.name} share {rows if shared else 0} rows")
    size = ROWS * prod(axis.extent for axis in others) * sum(SIZE_BYTES[d] for d in node.dtypes)
    if not others or 2 * size > at.target.l2_bytes:
        return None, no(f"{ROWS} rows of {chain.first} take {size} bytes")
    last = at.stage.node
    assert isinstance(last, Compute)  # a tiled reduction, too
    if last.attrs.no_split_inner or node.attrs.no_split_inner:
        return None, no(f"{chain.first} or {at.name} keeps axes whole")
    names = ", ".join((chain.first, *chain.middle))
    return chain, yes(f"{rows} rows of {names} are needed by the same rows of {at.name}")


def _place(at: Cursor, state: State, chain: Chain, block: str) -> State:
    """Attach the stages between: what the last reduction reads to its blocks, the others to that.

    Stages that are cheap to inline are, but for what the last reduction reads.
    """
    read = at.facts.direct_producers(at.name)
    hosts: list[str] = []
    for name in reversed(chain.middle):
        node = state.stage(name).node
        assert isinstance(node, Compute)  # only compute stages are between
        if name in read:
            state = state.do(ComputeAt(name, at.name, block))
            hosts.append(name)
        elif at.facts.always_inlined(name, everything=False):
            state = state.do(ComputeInline(name))
        else:
            beside = (at.name, block)
            if len(hosts) == 1:
                beside = hosts[0], state.stage(hosts[0]).loops[chain.shared - 1].name
            state = state.do(ComputeAt(name, *beside))
    return state
