"""The threads of a block as a size of a plan for a GPU, and the registers that a row takes.

The lanes of a tile are threads: a loop marked "thread" is divided among them whole, and a vector
loop in steps of as many elements as there are threads, or fewer.
"""

from collections.abc import Mapping
from typing import Final

from ansorpy.expr.build import add, ceildiv, mul
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Const, Expr, Var
from ansorpy.loopir.nodes import LoopKind
from ansorpy.plan.domain import Domain
from ansorpy.plan.plan import Size
from ansorpy.target import GpuTarget, Target

THREADS: Final = "threads"  # name of the size
ROW_REGISTERS: Final = 160  # registers of a thread for rows; 40 more hold addresses and sums
REGISTER_BYTES: Final = 4


def thread_sizes(domains: Mapping[str, Domain], target: Target) -> tuple[Size, ...]:
    """Return the size of the threads of a block; none if tiles of a fixed number need them.

    Its values are powers of two from a warp to the threads that a block may have, up to the
    longest row, and enough for a row to take at most `thread_registers` of each.
    """
    parts = [part for made in domains.values() for part in made.parts]
    lanes = [part for part in parts if part.kind is LoopKind.VECTOR]
    if not isinstance(target, GpuTarget) or not lanes or any(map(_of_a_tile, lanes)):
        return ()
    rows = [int(n.value) for made in domains.values() for n in _rows(made)]
    longest, most = max(rows, default=target.max_threads), target.thread_registers
    values, threads = [], target.warp
    while threads <= target.max_threads:
        enough = not rows or -(-longest // threads) <= most
        if enough and (threads == target.warp or threads < 2 * longest):
            values.append(threads)
        threads *= 2
    return (Size(THREADS, "threads", values=tuple(values)),) if values else ()


def _of_a_tile(part: object) -> bool:
    length = getattr(part, "length", None)
    return isinstance(length, Var) and not length.name.endswith(".vec")


def _rows(domain: Domain) -> tuple[Const, ...]:
    """Return the extent of the loop of a stage that is divided among the threads whole."""
    found = (
        domain.extent(p) for p in domain.parts if p.kind is LoopKind.VECTOR and p.length is None
    )
    return tuple(extent for extent in found if isinstance(extent, Const))


def kept_rows(domains: Mapping[str, Domain], attached: frozenset[str]) -> dict[str, Const]:
    """Return the stages whose rows stay in registers, with the elements of a row.

    Args:
        attached: stages that are computed at a loop of another one.
    """
    rows = {
        name: _rows(made)
        for name, made in domains.items()
        if name in attached and made.work.combiner is None
    }
    return {name: extents[0] for name, extents in rows.items() if extents}


def row_registers(
    domains: Mapping[str, Domain], attached: frozenset[str], sizes: tuple[Size, ...]
) -> tuple[Expr, ...]:
    """Return the condition that all elements of rows fit in registers at every stage.

    A row is alive from the stage that computes it to its last reader.

    Args:
        domains: producers first.
        attached: stages that are computed at a loop of another one.
    """
    if not any(size.name == THREADS for size in sizes):
        return ()
    names = list(domains)
    alive: dict[str, tuple[int, int, Expr]] = {}
    for name, extent in kept_rows(domains, attached).items():
        readers = [i for i, other in enumerate(names) if _reads(domains[other], name)]
        dtypes = domains[name].work.dtypes
        each: Expr = Const(sum(-(-SIZE_BYTES[dtype] // REGISTER_BYTES) for dtype in dtypes))
        at = names.index(name)
        alive[name] = (at, max(readers, default=at), mul(each, ceildiv(extent, Var(THREADS))))
    answer: list[Expr] = []
    for at in range(len(names)):
        together = [count for first, last, count in alive.values() if first <= at < last]
        if together:
            total = together[0]
            for count in together[1:]:
                total = add(total, count)
            condition = Binary("le", total, Const(ROW_REGISTERS))
            if condition not in answer:
                answer.append(condition)
    return tuple(answer)


def _reads(domain: Domain, name: str) -> bool:
    return any(read.tensor == name for read in domain.work.reads)
