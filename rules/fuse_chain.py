"""FuseChain: compute two tiled reductions and the stages between them in blocks of rows."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.state.rule import Cursor, Rule
from ansorpy.state.state import State
from ansorpy.state.steps import ComputeAt, ComputeInline
from ansorpy.state.transform import tile
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute

ROWS = 16  # rows of a block, one or two register tiles: fewer rows reuse too little


@dataclass(frozen=True, slots=True)
class Chain:
    """The stages from one tiled reduction to the next; `shared` leading axes are common to all."""

    first: str
    middle: tuple[str, ...]
    shared: int


@dataclass(frozen=True, slots=True)
class FuseChain(Rule):
    """Tile a reduction; compute the reduction before it, and the stages between, per block of rows.

    Condition   the stage needs tiling, and so does a reduction before it; the stages between (a
                softmax, for example) need none and have no other readers; all share c leading
                axes, with `rows` points or more per core; 16 rows of the first reduction take
                at most half of the second-level cache
    Rewrite     (S, i)  ->  (S', h - 1), h the first reduction; no later rule is tried. Both
                reductions are tiled, by `structure` and by `first`. The first reduction and the
                stages that the last one reads are computed at the c-th loop of the last; the
                other stages at the loops of their readers, or inlined if that costs nothing
    Not handled other stages between; a chain of three is fused in pairs, from its end
    Source      ours; as FlashAttention (Dao et al., 2022, arXiv:2205.14135) without its running
                maximum, and Chimera (Zheng et al., HPCA 2023)
    """

    structure: str
    first: str
    rows: int = 8

    def explain(self, at: Cursor) -> Answer:
        """Name the chain, or the obstacle."""
        return _find(at, self.rows)[1]

    def excludes_later(self, at: Cursor) -> bool:
        """Try no later rule: always."""
        return True

    def rewrite(self, at: Cursor) -> Iterator[Cursor]:
        """Yield the one successor, before the first reduction."""
        chain, _ = _find(at, self.rows)
        assert chain is not None  # as `explain` found
        node = at.stage.node
        assert isinstance(node, Compute)  # as `explain` found
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
    return None, no(f"cannot fuse {at.name}: it comes after no tiled reduction")


def _tiled(at: Cursor, name: str) -> Answer:
    if not at.facts.reduces(name):
        return no(f"cannot fuse {name}: it reduces nothing")
    if at.facts.divided(name):
        return no(f"cannot fuse {name}: its loops are already split")
    if at.facts.has_cache_write(name) or at.facts.serves(name):
        return no(f"cannot fuse {name}: it is a cache-write stage, or serves an instruction")
    return at.facts.needs_tiling(name)


def _shared(at: Cursor, name: str) -> int:
    return at.facts.common_outer(name, at.name).count


def _judged(at: Cursor, chain: Chain, rows: int) -> tuple[Chain | None, Answer]:
    inside = {*chain.middle, at.name}
    for name in (chain.first, *chain.middle):
        if name in at.state.dag.outputs or not set(at.facts.consumers(name)) <= inside:
            return None, no(
                f"cannot fuse {name} into {at.name}: another stage reads it, or it is an output"
            )
        if at.facts.divided(name):
            return None, no(f"cannot fuse {name}: its loops are already split")
        if _shared(at, name) < chain.shared:
            return None, no(f"cannot fuse {name}: it shares fewer axes than {chain.first}")
        if name in chain.middle and at.facts.needs_tiling(name):
            return None, no(f"cannot fuse {name}: it needs tiling itself")
    return _fits(at, chain, rows)


def _fits(at: Cursor, chain: Chain, least: int) -> tuple[Chain | None, Answer]:
    node = at.state.stage(chain.first).node
    assert isinstance(node, Compute)  # a tiled reduction
    shared, others = node.axes[: chain.shared], node.axes[chain.shared :]
    rows = prod(axis.extent for axis in shared)
    if not shared or rows < least * at.target.cores:
        return None, no(
            f"cannot fuse {chain.first} and {at.name}: they share {rows if shared else 0} rows"
        )
    size = ROWS * prod(axis.extent for axis in others) * sum(SIZE_BYTES[d] for d in node.dtypes)
    if not others or 2 * size > at.target.scratch_bytes:
        return None, no(f"cannot fuse {chain.first}: {ROWS} of its rows take {size} bytes")
    last = at.stage.node
    assert isinstance(last, Compute)  # a tiled reduction, too
    if last.attrs.no_split_inner or node.attrs.no_split_inner:
        return None, no(f"cannot fuse {chain.first} and {at.name}: an axis stays whole")
    names = ", ".join((chain.first, *chain.middle))
    return chain, yes(f"{rows} rows of {names} are needed by the same rows of {at.name}")


def _place(at: Cursor, state: State, chain: Chain, block: str) -> State:
    """Attach the stages between: operands of the last reduction at its blocks, the others there.

    A stage that is cheap to inline is inlined, unless the last reduction reads it.
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
