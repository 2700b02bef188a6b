"""Places in the body of a task at which all its threads must wait.

A barrier stands before a statement if a thread may access an element that another thread has
accessed since the last barrier, one of the two with a store. Both accesses are known to be of one
thread if the element tells the lane, and does so alike in both; to be of two elements, if their
first indices are of different stages, as (k + 1) % 2 and k % 2. Every allocation has memory of its
own, as `SharedMemory` gives it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any, Final

from ansorpy.codegen.simt.collectives import WARP
from ansorpy.expr.build import ONE
from ansorpy.expr.expr import Binary, Const, Expr, Var, reads, variables
from ansorpy.expr.intervals import Ranges, bounds, form
from ansorpy.loopir.nodes import Alloc, For, If, Scope, Seq, Stmt, Tile

EXCHANGE: Final = ""  # memory through which the warps of a task combine values


@dataclass(frozen=True, slots=True)
class OwnLane:
    """A lane variable of a thread as its elements tell it: `index[dim] // step`.

    Args:
        factor: of the variable in the number of the thread.
        wraps: whether the quotient must be taken modulo `extent`; else it is less.
    """

    factor: int
    dim: int
    step: int
    extent: int
    wraps: bool

    def agrees(self, other: "OwnLane") -> bool:
        """Return whether both name one thread for each element that both access."""
        a, b = self, other
        if (a.factor, a.dim, a.step) != (b.factor, b.dim, b.step):
            return False
        if a.wraps and b.wraps:
            return a.extent == b.extent
        return a.wraps == b.wraps or (a.extent >= b.extent if a.wraps else b.extent >= a.extent)

    def is_zero(self, element: tuple[int, int]) -> bool:
        """Return whether the lane is 0 for every element of a range of the index."""
        first, last = (end // self.step for end in element)
        return first == last and (first % self.extent if self.wraps else first) == 0


@dataclass(frozen=True, slots=True)
class StageIndex:
    """The first index of an element: (const + terms) % count, by loop variables."""

    count: int
    const: int
    terms: tuple[tuple[str, int], ...] = ()

    def differs(self, other: "StageIndex") -> bool:
        """Return whether the two are never equal."""
        return (self.count, self.terms) == (other.count, other.terms) and self.const != other.const

    def with_var(self, name: str, value: Expr) -> "StageIndex":
        """Return the stage with another value in place of a loop variable."""
        factor = dict(self.terms).get(name)
        if factor is None:
            return self
        new = form(value)
        terms = {var: n for var, n in self.terms if var != name}
        for atom, n in new.terms.items():
            terms[str(atom)] = (terms.get(str(atom), 0) + factor * n) % self.count
        return _stage(self.count, self.const + factor * new.const, terms)


def _stage(count: int, const: int, terms: Mapping[str, int]) -> StageIndex:
    left = sorted((name, n % count) for name, n in terms.items() if n % count)
    return StageIndex(count, const % count, tuple(left))


Owner = tuple[OwnLane, ...]  # the thread that accesses an element, by its lane variables
FIRST: Final[Owner] = ()  # the first thread does


@dataclass(frozen=True, slots=True)
class Pending:
    """An access since the last barrier; the owner of its elements is None if it is not known."""

    buffer: str
    store: bool
    owner: Owner | None
    index: tuple[tuple[int, int], ...] = ()  # first and last value, if the first thread accesses
    stage: StageIndex | None = None  # None: not known

    def meets(self, other: "Pending") -> bool:
        """Return whether the two need a barrier between them."""
        if self.buffer != other.buffer or not (self.store or other.store):
            return False
        if self.stage and other.stage and self.stage.differs(other.stage):
            return False
        own, others = self.owner, other.owner
        if own is None or others is None:
            return True
        if self.index or other.index:
            lanes, ranges = (others, self.index) if self.index else (own, other.index)
            return not all(lane.is_zero(ranges[lane.dim]) for lane in lanes)
        if len(own) != len(others):
            return True
        return not all(a.agrees(b) for a, b in zip(own, others, strict=True))


State = frozenset[Pending]
Names = Mapping[str, str | None]  # memory of buffers that a task allocates; None: registers
NOTHING: Final[State] = frozenset()


def waits(body: Stmt, threads: int, ranges: Ranges) -> frozenset[int]:
    """Return the `id` of every loop and tile of a task before which its threads wait.

    Args:
        threads: of the task.
        ranges: first and last value of the variables outside of the body.
    """
    found = _Barriers(threads, ranges)
    found.after(body, NOTHING, {})
    return frozenset(found.before)


@dataclass
class _Barriers:
    threads: int
    outer: Ranges
    before: set[int] = field(default_factory=set)
    ranges: dict[str, tuple[int, int]] = field(default_factory=dict)
    known: dict[Any, tuple[State, frozenset[int]]] = field(default_factory=dict)  # results of loops

    def __post_init__(self) -> None:
        self.ranges |= self.outer

    def after(self, stmt: Stmt, state: State, names: Names) -> State:
        """Return the accesses that are pending after a statement; note its barriers."""
        match stmt:
            case Seq(stmts=stmts):
                for part in stmts:
                    state = self.after(part, state, names)
                return state
            case Alloc(buffer=buffer, body=body):
                memory = None if buffer.scope is Scope.REGISTER else f"{buffer.name} {id(stmt)}"
                return self.after(body, state, {**names, buffer.name: memory})
            case If(then=then, other=other):
                rest = state if other is None else self.after(other, state, names)
                return self.after(then, state, names) | rest
            case For():
                given = id(stmt), state, frozenset(self.before), tuple(sorted(self.ranges.items()))
                if given not in self.known:
                    out = self.after_loop(stmt, state, names)
                    self.known[given] = out, frozenset(self.before)
                out, before = self.known[given]
                self.before = set(before)
                return out
            case Tile():
                return self.after_tile(stmt, state, names)
            case _:
                return state

    def after_loop(self, loop: For, state: State, names: Names) -> State:
        """Return the pending accesses after a loop.

        A barrier that only accesses before the loop need stands before the loop.
        """
        last = bounds(loop.extent, self.ranges)[1] - 1
        once = loop.extent in (Const(0), Const(1))
        before = Binary("sub", Var(loop.var), ONE)
        constant = isinstance(loop.extent, Const)
        known, self.ranges[loop.var] = self.ranges.get(loop.var), (0, max(0, last))

        def body(entry: State) -> State:
            out = self.after(loop.body, entry, names)
            while not once and not (again := _at(out, loop.var, before)) <= entry:
                entry |= again
                out = self.after(loop.body, entry, names)
            return _at(out, loop.var, Const(last) if constant else None)

        alone = body(NOTHING)
        if id(loop) in self.before:
            state = NOTHING
        needed = set(self.before)
        out = body(state)
        if self.before != needed:
            self.before = needed | {id(loop)}
            state, out = NOTHING, alone
        if known is not None:
            self.ranges[loop.var] = known
        return out if constant else out | state

    def after_tile(self, tile: Tile, state: State, names: Names) -> State:
        """Return the pending accesses after a tile."""
        store, lanes = tile.store, dict(tile.lanes)
        kept = frozenset[str]().union(*map(variables, store.index))
        across = bool(lanes) and lanes.keys().isdisjoint(kept)
        to_memory = names.get(store.buffers[0], "") is not None
        alone = not lanes and to_memory
        inner = {**self.ranges, **{name: (0, n - 1) for name, n in tile.spans}}

        def access(name: str, index: Sequence[Expr], stores: bool) -> Iterator[Pending]:
            memory = names.get(name, name)
            if memory is not None:
                stage = stage_of(index)
                first = alone or (stores and across)
                if first:
                    ends = tuple(bounds(i, inner) for i in index)
                    yield Pending(memory, stores, FIRST, ends, stage)
                else:
                    # An asynchronous store is not in the order of its thread.
                    late = stores and tile.asynchronous
                    owner = None if late else _owner(index, tile.lanes, inner)
                    yield Pending(memory, stores, owner, stage=stage)

        exprs = (*store.values, *((tile.mask,) if tile.mask is not None else ()))
        found = [read for expr in exprs for read in reads(expr)]
        taken = {one for r in found for one in access(r.tensor, r.indices, False)}
        given = {one for name in store.buffers for one in access(name, store.index, True)}
        shared = across and self.threads > WARP
        if shared:
            taken.add(Pending(EXCHANGE, True, None))
        start = taken if shared else taken | given
        if id(tile) in self.before or any(a.meets(b) for a in start for b in state):
            self.before.add(id(tile))
            state = NOTHING
        if shared:  # a barrier lies between the store and the loads of the exchange
            return frozenset({Pending(EXCHANGE, False, None), *given})
        return state | taken | given


def stage_of(index: Sequence[Expr]) -> StageIndex | None:
    """Return the stage that an index tells: its first number is a remainder; None if it is not."""
    first = index[0] if index else None
    if not isinstance(first, Binary) or first.op != "mod" or not isinstance(first.b, Const):
        return None
    whole = form(first.a)
    if not all(isinstance(atom, Var) for atom in whole.terms):
        return None
    return _stage(int(first.b.value), whole.const, {str(a): n for a, n in whole.terms.items()})


def _at(state: State, name: str, value: Expr | None) -> State:
    """Return accesses with another value of a loop variable in their stages; None: not known."""

    def moved(pending: Pending) -> Pending:
        if pending.stage is None or name not in dict(pending.stage.terms):
            return pending
        return replace(
            pending, stage=pending.stage.with_var(name, value) if value is not None else None
        )

    return frozenset(map(moved, state))


def _owner(index: Sequence[Expr], lanes: Sequence[tuple[str, int]], ranges: Ranges) -> Owner | None:
    """Return how an index tells the number of the thread; None if it does not."""
    owner = []
    for k, (name, extent) in enumerate(lanes):
        factor = prod(n for _, n in lanes[k + 1 :])
        told = ((d, _step(expr, name, extent, ranges)) for d, expr in enumerate(index))
        own = [OwnLane(factor, d, step[0], extent, step[1]) for d, step in told if step]
        owner += own[:1]
    return tuple(owner) if owner and len(owner) == len(lanes) else None


def _step(expr: Expr, lane: str, extent: int, ranges: Ranges) -> tuple[int, bool] | None:
    """Return the step s and whether to wrap such that the lane is `expr // s % extent`; or None.

    Every other part of the sum is a multiple of `s * extent`, or together they are below s.
    """
    whole = form(expr)
    steps = {atom: c for atom, c in whole.terms.items() if lane in variables(atom)}
    if len(steps) != 1:
        return None
    ((atom, step),) = steps.items()
    if step < 1 or str(atom) != lane:
        return None
    period = step * extent
    low = high = whole.const % period
    wraps = whole.const != low
    for atom, coef in whole.terms.items():
        if atom in steps:
            continue
        if coef % period == 0:
            wraps = True
            continue
        first, last = bounds(atom, ranges)
        ends = sorted((coef * first, coef * last))
        low, high = low + ends[0], high + ends[1]
    if low < 0 or high >= step:
        return None
    return step, wraps
