"""Share the elements of copies out among the threads of a block.

for i in 32 share: for k in 8 share: S[i, k] = A[i, k]        ->        256 threads, 4 elements each
    unroll r in 1: thread t in 32: thread u in 2: unroll w in 4: S[t, 4 u + w] = A[t, 4 u + w]

An edge is padded: elements of scratch that the copy leaves out are zero. Statements that read such
scratch only, and write scratch, then need no condition at the edge.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from ansorpy.expr.build import ZERO, add, floordiv, mod, mul, zero
from ansorpy.expr.coalescing import ACCESS_BYTES
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import (
    Binary,
    Const,
    Expr,
    Read,
    Select,
    Var,
    reads,
    substitute,
)
from ansorpy.expr.groups import even
from ansorpy.expr.intervals import Interval, bounds, linear, simplify
from ansorpy.expr.products import conjunction, conjuncts
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Phase,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
)
from ansorpy.loopir.rewrite import map_stmt, stmt_children, walk_stmt

REPEATS: Final = 32  # elements or quads of a thread that are written out; more become a loop
LEAST_NEIGHBOURS: Final = 8  # threads along a row, of which groups of 16 bytes fill a cache line
# Most repeats of a copy with idle threads, as a multiple of the fewest: beyond it the quotients of
# a copy without idle threads cost less.
IDLE: Final = 1.25


@dataclass(frozen=True)
class _Block:
    """The threads of a block, and the buffers in scope.

    `padded` has the scratch buffers every element of which is written before it is read, `edges`
    the conditions that all stores to a scratch buffer have: no element without them is ever read.
    """

    threads: int
    buffers: Mapping[str, Buffer]
    padded: frozenset[str] = frozenset()
    edges: Mapping[str, frozenset[Expr]] = field(default_factory=dict)


def share(program: Program) -> Program:
    """Return the program with every loop over shared elements as loops of threads.

    Needs        a bound, peeled program; extents of THREAD loops are numbers.
    Keeps        the values of everything that is read.
    After        no loop is SHARE. A condition that all stores to a scratch buffer have is dropped
                 if the operands are copies that the threads share, and all places are within
                 their buffers at every point.
    Not handled  a body other than one store to scratch at the loop variables: the loops become
                 serial.
    """
    return replace(program, phases=tuple(_phase(phase, program) for phase in program.phases))


def threads_of(body: Stmt) -> int:
    """Return the number of threads that the THREAD loops of a statement ask for."""
    found = 1

    def go(stmt: Stmt, around: int) -> None:
        nonlocal found
        match stmt:
            case For(kind=LoopKind.THREAD, extent=Const(value=extent), body=inner):
                found = max(found, around * int(extent))
                go(inner, around * int(extent))
            case For(body=inner) | Alloc(body=inner):
                go(inner, around)
            case Seq(stmts=stmts):
                for part in stmts:
                    go(part, around)
            case If(then=then, other=other):
                for part in (then,) if other is None else (then, other):
                    go(part, around)
            case _:
                pass

    go(body, 1)
    return found


def _phase(phase: Phase, program: Program) -> Phase:
    block = _Block(threads_of(phase.body), program.by_name)
    return replace(phase, body=_share(phase.body, block, {}))


def _share(stmt: Stmt, block: _Block, ranges: Mapping[str, Interval]) -> Stmt:
    match stmt:
        case For(kind=LoopKind.SHARE):
            return _shared(stmt, block, ranges) or _serial(stmt)
        case For(var=var, extent=extent, body=body):
            inside = {**ranges, var: (0, max(0, bounds(extent, ranges)[1] - 1))}
            return replace(stmt, body=_share(body, block, inside))
        case Alloc(buffer=buffer, body=body):
            padded = block.padded | {buffer.name} if _is_copy(buffer, body) else block.padded
            inner = replace(
                block,
                buffers={**block.buffers, buffer.name: buffer},
                padded=padded,
                edges={**block.edges, buffer.name: _edges(buffer.name, body)},
            )
            return replace(stmt, body=_share(body, inner, ranges))
        case Seq(stmts=stmts):
            return Seq(tuple(_share(part, block, ranges) for part in stmts))
        case If(cond=cond, then=Store() as store, other=None):
            if not _anywhere(store, block, ranges):
                return stmt
            edges = block.edges[store.buffers[0]]
            kept = [part for part in conjuncts(cond) if part not in edges]
            return If(conjunction(kept), store) if kept else store
        case If(then=then, other=other):
            rest = None if other is None else _share(other, block, ranges)
            return replace(stmt, then=_share(then, block, ranges), other=rest)
        case _:
            return stmt


def _serial(stmt: Stmt) -> Stmt:
    def change(part: Stmt) -> Stmt:
        if isinstance(part, For) and part.kind is LoopKind.SHARE:
            return replace(part, kind=LoopKind.SERIAL)
        return part

    return map_stmt(stmt, change)


def _nest(loop: Stmt) -> tuple[list[For], tuple[Expr, ...], Stmt]:
    """Return the perfect nest of SHARE loops, the conditions inside of it, and the body."""
    loops: list[For] = []
    conds: tuple[Expr, ...] = ()
    while True:
        match loop:
            case For(kind=LoopKind.SHARE, body=body):
                loops.append(loop)
                loop = body
            case If(cond=cond, then=then, other=None):
                conds = (*conds, *conjuncts(cond))
                loop = then
            case _:
                return loops, conds, loop


def _is_copy(buffer: Buffer, body: Stmt) -> bool:
    """Return True if scratch is filled by one nest of SHARE loops, first of all."""
    while isinstance(body, Alloc):
        body = body.body
    if not isinstance(body, Seq) or buffer.scope is not Scope.LOCAL:
        return False
    writers = [s for s in walk_stmt(body) if isinstance(s, Store) and buffer.name in s.buffers]
    first, *_ = body.stmts
    loops, _, store = _nest(first)
    return [store] == writers and _places(loops, store, buffer) is not None


def _places(loops: list[For], store: Stmt, buffer: Buffer) -> list[For | None] | None:
    """Return the loop that runs along every dimension of a buffer; None for other indices."""
    if not isinstance(store, Store) or store.combiner or len(store.buffers) > 1:
        return None
    by_name = {loop.var: loop for loop in loops}
    answer: list[For | None] = []
    for index in store.index:
        if index == ZERO:
            answer.append(None)
        elif isinstance(index, Var) and index.name in by_name:
            answer.append(by_name.pop(index.name))
        else:
            return None
    return None if by_name else answer


def _edges(name: str, body: Stmt) -> frozenset[Expr]:
    """Return the conditions just around every store to a buffer."""
    common: list[frozenset[Expr]] = []

    def go(stmt: Stmt, conds: frozenset[Expr]) -> None:
        match stmt:
            case Store(buffers=buffers):
                if name in buffers:
                    common.append(conds)
            case If(cond=cond, then=Store() as then, other=None):
                go(then, frozenset(conjuncts(cond)))
            case _:
                for part in stmt_children(stmt):
                    go(part, frozenset())

    go(body, frozenset())
    return frozenset.intersection(*common) if common else frozenset()


def _anywhere(store: Store, block: _Block, ranges: Mapping[str, Interval]) -> bool:
    """Return True if a store to scratch may run at every point: its places exist, and operands."""
    taken = [read for value in store.values for read in reads(value)]
    places = [(name, store.index) for name in store.buffers]
    places += [(read.tensor, read.indices) for read in taken]
    if any(read.tensor not in block.padded for read in taken):
        return False
    return all(
        block.buffers[name].scope is Scope.LOCAL and _within(block.buffers[name], index, ranges)
        for name, index in places
    )


def _within(buffer: Buffer, index: tuple[Expr, ...], ranges: Mapping[str, Interval]) -> bool:
    for place, extent in zip(index, buffer.extents, strict=True):
        if reads(place):
            return False
        low, high = bounds(place, ranges)
        if low < 0 or high >= extent:
            return False
    return True


def _shared(loop: For, block: _Block, ranges: Mapping[str, Interval]) -> Stmt | None:
    """Return a nest of SHARE loops as loops of threads; None if it is not one plain store."""
    loops, inside_conds, store = _nest(loop)
    if not isinstance(store, Store) or store.buffers[0] not in block.buffers:
        return None
    buffer = block.buffers[store.buffers[0]]
    along = _places(loops, store, buffer)
    if along is None or buffer.scope is not Scope.LOCAL:
        return None
    names = [f"{buffer.name}:{d}" if one is None else one.var for d, one in enumerate(along)]
    inside = {name: (0, n - 1) for name, n in zip(names, buffer.extents, strict=True)}
    tests = [
        Binary("lt", Var(name), Const(1) if one is None else one.extent)
        for name, one in zip(names, along, strict=True)
    ]
    every = {**ranges, **inside}
    (value,) = store.values
    value, guards = _unguarded(value)
    edges, zeros = (
        [cond for cond in (simplify(part, every) for part in parts) if cond != TRUE]
        for parts in (tests, (*inside_conds, *guards))
    )
    left = [*edges, *zeros]
    index = tuple(Var(name) for name in names)
    wide, fast = _fastest(value, edges, zeros, names, buffer, block)
    order = [d for d in range(len(names)) if d != fast] + [fast]
    extents = [buffer.extents[d] // (wide if d == fast else 1) for d in order]
    digits = _digits([f"{names[d]}" for d in order], extents, block.threads)
    if wide > 1:
        near = Var(f"{names[fast]}.w")
        digits.values[-1] = add(mul(digits.values[-1], Const(wide)), near)
    swap = dict(zip([names[d] for d in order], digits.values, strict=True))
    value = substitute(value, swap)
    if left:
        # A group of neighbours is whole or left out: its first element decides.
        moved = (substitute(part, swap) for part in left)
        cond = conjunction([substitute(part, {f"{names[fast]}.w": ZERO}) for part in moved])
        value = Select(cond, value, zero(value.dtype))
    body: Stmt = replace(store, index=tuple(substitute(i, swap) for i in index), values=(value,))
    if digits.mask is not None:
        body = If(digits.mask, body)
    if wide > 1:
        body = For(f"{names[fast]}.w", Const(wide), body, LoopKind.UNROLL)
    for name, extent in reversed(digits.lanes):
        body = For(name, Const(extent), body, LoopKind.THREAD)
    count = wide
    for name, extent in reversed(digits.repeats):
        count *= extent
        kind = LoopKind.UNROLL if count <= REPEATS * wide else LoopKind.SERIAL
        body = For(name, Const(extent), body, kind)
    return body


TRUE: Final = Const(True, "bool")


def _unguarded(value: Expr) -> tuple[Expr, tuple[Expr, ...]]:
    """Return an element of a padded operand and the conditions without which it is zero."""
    match value:
        case Select(cond=cond, then=Read() as then, other=other) if other == zero(then.dtype):
            return (value, ()) if reads(cond) else (then, conjuncts(cond))
        case _:
            return value, ()


def _fastest(
    value: Expr,
    edges: list[Expr],
    zeros: list[Expr],
    names: list[str],
    buffer: Buffer,
    block: _Block,
) -> tuple[int, int]:
    """Return the elements of one access, and the dimension along which threads are neighbours.

    Neighbours read adjacent elements of the operand, several each if groups are aligned and no
    condition cuts one.

    Args:
        edges: conditions of the elements that are used.
        zeros: conditions without which an element is zero.
    """
    last = len(names) - 1
    for read in reads(value):
        form = _flat(read, block)
        if form is None:
            continue
        for d in reversed(range(len(names))):
            if form[1].get(names[d]) != 1:
                continue
            wide = ACCESS_BYTES // SIZE_BYTES[read.dtype]
            others = [form[0], *(n for name, n in form[1].items() if name != names[d])]
            aligned = all(n % wide == 0 for n in (*others, buffer.extents[d]))
            # Rows of whole groups have all of a group that an edge cuts: no element beyond is used.
            rows = block.buffers[read.tensor].extents[-1] % wide == 0
            cut = zeros if rows else (*edges, *zeros)
            whole = all(even(cond, names[d], wide) for cond in cut)
            plain = isinstance(value, Read)
            return (wide if aligned and whole and plain else 1), d
    return 1, last


def _flat(read: Read, block: _Block) -> tuple[int, dict[str, int]] | None:
    """Return the row-major offset of a read as a constant and coefficients; None if not linear."""
    total: Expr = ZERO
    stride = 1
    buffer = block.buffers[read.tensor]
    for index, extent in zip(reversed(read.indices), reversed(buffer.extents), strict=True):
        total = add(total, mul(index, Const(stride)))
        stride *= extent
    return linear(total)


@dataclass
class _Digits:
    values: list[Expr]  # by dimension
    lanes: list[tuple[str, int]]
    repeats: list[tuple[str, int]]
    mask: Expr | None = None


def _digits(names: list[str], extents: list[int], threads: int) -> _Digits:
    """Return the place of a thread's elements in an array: row-major over repeats and threads.

    Threads divide every dimension evenly, or so that few of them idle and no place needs a
    quotient; else they divide all elements in order.
    """
    lanes = _even_lanes(extents, threads) or _uneven_lanes(extents, threads)
    if lanes is None:
        return _flat_digits(names, extents, threads)
    digits = _Digits([], [], [])
    tests: list[Expr] = []
    for name, extent, lane in zip(names, extents, lanes, strict=True):
        value: Expr = ZERO
        if lane > 1:
            digits.lanes.append((f"{name}.t", lane))
            value = Var(f"{name}.t")
        if extent > lane:
            digits.repeats.append((f"{name}.r", -(-extent // lane)))
            value = add(mul(Var(f"{name}.r"), Const(lane)), value)
        if extent % lane:
            tests.append(Binary("lt", value, Const(extent)))
        digits.values.append(value)
    digits.mask = conjunction(tests) if tests else None
    return digits


def _even_lanes(extents: list[int], threads: int) -> list[int] | None:
    """Return the threads along each dimension that divide all evenly; None if they cannot."""
    lanes: list[int] = []
    for extent in reversed(extents):
        if threads % extent and extent % threads:
            return None
        lanes.insert(0, min(extent, threads))
        threads //= lanes[0]
    return lanes


def _uneven_lanes(extents: list[int], threads: int) -> list[int] | None:
    """Return the threads along each dimension with the fewest repeats; None if many idle.

    Of equal numbers of repeats, those with the most neighbours along the last dimension.
    """
    best: tuple[int, list[int]] | None = None
    for times in range(1, extents[-1] + 1):
        lanes, left = [-(-extents[-1] // times)], threads
        if lanes[0] > threads:
            continue
        left //= lanes[0]
        for extent in reversed(extents[:-1]):
            lanes.insert(0, min(extent, left))
            left //= lanes[0]
        repeats = prod(-(-n // lane) for n, lane in zip(extents, lanes, strict=True))
        if best is None or repeats < best[0]:
            best = repeats, lanes
        if lanes[-1] <= LEAST_NEIGHBOURS:
            break
    least = -(-prod(extents) // threads)
    return best[1] if best and best[0] <= IDLE * least else None


def _flat_digits(names: list[str], extents: list[int], threads: int) -> _Digits:
    total = prod(extents)
    lane = min(total, threads)
    times = -(-total // lane)
    thread, repeat = f"{names[-1]}.t", f"{names[-1]}.r"
    place: Expr = Var(thread)
    if times > 1:
        place = add(mul(Var(repeat), Const(lane)), place)
    mask = Binary("lt", place, Const(total)) if total % lane else None
    values: list[Expr] = []
    for extent in reversed(extents[1:]):
        values.insert(0, mod(place, Const(extent)))
        place = floordiv(place, Const(extent))
    values.insert(0, place)
    repeats = [(repeat, times)] if times > 1 else []
    return _Digits(values, [(thread, lane)], repeats, mask)
