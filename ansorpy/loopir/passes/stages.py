"""Load the operands of the next step of a reduction while threads multiply the present operands.

alloc S: for k in 8: { S = A[k]; C += S }
    ->      alloc S[2]: { S[0] = A[0]                               asynchronous
                          for k in 7: { S[(k + 1) % 2] = A[k + 1]   asynchronous
                                        C += S[k % 2] }
                          C += S[1] }

A copy that computes its elements goes through registers N:
            for k in 7: alloc N: { N = 2 A[k + 1]; C += S[k % 2]; S[(k + 1) % 2] = N }
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ansorpy.expr.build import ONE, ZERO, add, floordiv, mod, zero
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr, Read, Select, Var, reads, rebuild, transform
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    LoopKind,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.rewrite import (
    in_order,
    map_own_exprs,
    map_phases,
    map_stmt,
    rebuild_stmt,
    seq,
    stmt_children,
    stores,
    substitute_stmt,
)
from ansorpy.loopir.scratch import scratch_of

STAGES: Final = 2  # arrays of a scratch buffer: threads read one and fill the other
LEAST_BYTES: Final = 4  # bytes that an asynchronous copy has at least
HELD: Final = 32  # 32-bit registers of a thread for elements of the next step, at most


@dataclass(frozen=True)
class Pipeline:
    """A nest of serial loops whose body copies operands to scratch, and then uses them.

    Attributes:
        loops: variables and extents, outermost first.
        copies: tiles, each of which fills a scratch buffer of its own from global memory.
        rest: the statements after the copies; they store to no scratch.
    """

    loops: tuple[tuple[str, int], ...]
    copies: tuple[Tile, ...]
    rest: tuple[Stmt, ...]

    @property
    def steps(self) -> int:
        """The iterations of the nest."""
        return prod(n for _, n in self.loops)

    @property
    def scratch(self) -> tuple[str, ...]:
        """The buffers that the copies fill."""
        return tuple(copy.store.buffers[0] for copy in self.copies)

    @property
    def var(self) -> str:
        """The variable that counts the steps."""
        first, *more = (name for name, _ in self.loops)
        return f"{first}.all" if more else first

    def at(self, stmt: Stmt, step: Expr) -> Stmt:
        """Return a statement of the body as it runs in a step."""
        return substitute_stmt(stmt, dict(self._digits(step)))

    def _digits(self, step: Expr) -> Iterator[tuple[str, Expr]]:
        for name, extent in reversed(self.loops[1:]):
            digit, step = _divided(step, extent)
            yield name, digit
        yield self.loops[0][0], step


def stages(program: Program, shared_bytes: int) -> Program:
    """Return the program with scratch in two stages, so that a step needs one barrier.

    Needs        a tiled program for a GPU whose scratch is allocated once per task.
    Keeps        the meaning; the order of all sums.
    After        a step starts the copies of the next one to the other stage before it uses its
                 own elements. The nest of loops is a single loop.
    Not handled  copies in loops of their own; many elements of a thread that are computed; scratch
                 that a statement other than a copy fills; blocks without room for two stages.

    Args:
        shared_bytes: shared memory of a block.
    """

    def staged(body: Stmt) -> Stmt:
        pipelines = dict(_pipelines(body, program.by_name, frozenset()))
        names = frozenset[str]().union(*(one.scratch for one in pipelines.values()))
        held_bytes = sum(
            buffer.size_bytes * (STAGES if buffer.name in names else 1)
            for buffer in scratch_of(body)
        )
        return _in_stages(body, pipelines, names) if held_bytes <= shared_bytes else body

    return map_phases(program, staged)


def pipeline(loop: For, buffers: Mapping[str, Buffer], scratch: frozenset[str]) -> Pipeline | None:
    """Return a loop as a pipeline of copies to some scratch buffers; None if it is none.

    Args:
        buffers: those outside of the phase by name.
        scratch: names of the scratch buffers around the loop.
    """
    loops: list[tuple[str, int]] = []
    stmt: Stmt = loop
    while isinstance(stmt, For) and stmt.kind is LoopKind.SERIAL:
        if not isinstance(stmt.extent, Const):
            return None
        loops.append((stmt.var, int(stmt.extent.value)))
        stmt = stmt.body
    if not isinstance(stmt, Seq) or prod(n for _, n in loops) < 2:
        return None
    written = [name for store in stores(stmt) for name in store.buffers]
    copies: list[Tile] = []
    parts = tuple(_flat(stmt))
    for part in parts:
        if not isinstance(part, Tile) or not _is_copy(part, scratch, written):
            break
        copies.append(replace(part, asynchronous=_is_plain(part, buffers)))
    rest = parts[len(copies) :]
    filled = {name for part in rest for store in stores(part) for name in store.buffers}
    if not copies or not rest or filled & scratch:
        return None
    return Pipeline(tuple(loops), tuple(copies), rest)


def _pipelines(
    stmt: Stmt, buffers: Mapping[str, Buffer], scratch: frozenset[str]
) -> Iterator[tuple[int, Pipeline]]:
    """Yield the `id` of every loop that becomes a pipeline."""
    if isinstance(stmt, Alloc) and stmt.buffer.scope is Scope.LOCAL:
        scratch |= {stmt.buffer.name}
    found = pipeline(stmt, buffers, scratch) if isinstance(stmt, For) else None
    if found and _words(found) <= HELD:
        yield id(stmt), found
        return
    for part in stmt_children(stmt):
        yield from _pipelines(part, buffers, scratch)


def _flat(stmt: Stmt) -> Iterator[Stmt]:
    """Yield the statements of a Seq in order, statements of a nested Seq in its place."""
    for part in in_order(stmt):
        yield from _flat(part) if isinstance(part, Seq) else (part,)


def _is_copy(tile: Tile, scratch: frozenset[str], written: list[str]) -> bool:
    """Return True if a tile alone fills scratch, from buffers that its loop does not write."""
    store = tile.store
    if store.combiner or len(store.buffers) > 1 or not tile.lanes:
        return False
    (name,) = store.buffers
    taken = {read.tensor for value in store.values for read in reads(value)}
    return name in scratch and written.count(name) == 1 and taken.isdisjoint({*written, *scratch})


def _is_plain(tile: Tile, buffers: Mapping[str, Buffer]) -> bool:
    """Return True if a copy moves elements as they are, or zeros, at least 4 bytes at once."""
    (value,) = tile.store.values
    if isinstance(value, Select) and value.other == zero(value.dtype) and not reads(value.cond):
        value = value.then
    if not isinstance(value, Read) or len(reads(value)) > 1 or value.dtype == "bool":
        return False
    group = tile.access_width if tile.dims and tile.dims[-1][1] == tile.access_width else 1
    held = buffers.get(value.tensor)
    size_bytes = SIZE_BYTES[value.dtype] * group
    return held is not None and held.dtype == value.dtype and size_bytes >= LEAST_BYTES


def _words(pipeline: Pipeline) -> int:
    """Return the registers of a thread that hold computed elements of the next step."""
    return sum(
        prod(n for _, n in copy.dims) * max(1, SIZE_BYTES[copy.store.values[0].dtype] // 4)
        for copy in pipeline.copies
        if not copy.asynchronous
    )


def _in_stages(stmt: Stmt, pipelines: Mapping[int, Pipeline], names: frozenset[str]) -> Stmt:
    if id(stmt) in pipelines:
        return _pipelined(pipelines[id(stmt)], names)
    parts = tuple(_in_stages(part, pipelines, names) for part in stmt_children(stmt))
    if isinstance(stmt, Alloc) and stmt.buffer.name in names:
        shape = (Const(STAGES), *stmt.buffer.shape)
        return Alloc(replace(stmt.buffer, shape=shape), *parts)
    return rebuild_stmt(stmt, parts) if parts else _of_stage(stmt, ZERO, names)


def _pipelined(pipeline: Pipeline, names: frozenset[str]) -> Stmt:
    step, last = Var(pipeline.var), pipeline.steps - 1
    after = add(step, ONE)
    late = [copy for copy in pipeline.copies if copy.asynchronous]
    computed = [copy for copy in pipeline.copies if not copy.asynchronous]
    held = [_held(copy) for copy in computed]
    loads = [_load(copy, buffer) for copy, buffer in zip(computed, held, strict=True)]
    fills = [_fill(copy, buffer) for copy, buffer in zip(computed, held, strict=True)]

    def run(parts: list[Tile] | tuple[Stmt, ...], at: Expr) -> tuple[Stmt, ...]:
        stage = mod(at, Const(STAGES)) if not isinstance(at, Const) else _divided(at, STAGES)[0]
        return tuple(_of_stage(pipeline.at(part, at), stage, names) for part in parts)

    body = seq(*run([*late, *loads], after), *run(pipeline.rest, step), *run(fills, after))
    for buffer in reversed(held):
        body = Alloc(buffer, body)
    first = run(pipeline.copies, ZERO)
    return seq(*first, For(pipeline.var, Const(last), body), *run(pipeline.rest, Const(last)))


def _held(copy: Tile) -> Buffer:
    """Return the registers for the elements of a copy."""
    (name,), (value,) = copy.store.buffers, copy.store.values
    shape = tuple(Const(n) for _, n in copy.spans)
    return Buffer(f"{name}.next", value.dtype, shape, Scope.REGISTER)


def _load(copy: Tile, to: Buffer) -> Tile:
    index = tuple(Var(name) for name, _ in copy.spans)
    return replace(copy, store=Store((to.name,), index, copy.store.values))


def _fill(copy: Tile, held: Buffer) -> Tile:
    value = Read(held.name, tuple(Var(name) for name, _ in copy.spans), held.dtype)
    return replace(copy, store=replace(copy.store, values=(value,)))


def _of_stage(stmt: Stmt, stage: Expr, names: frozenset[str]) -> Stmt:
    """Return a statement whose accesses to scratch are those to a stage of it."""

    def moved(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and expr.tensor in names:
            return rebuild(expr, (stage, *expr.indices))
        return None

    def change(part: Stmt) -> Stmt:
        part = map_own_exprs(part, lambda expr: transform(expr, moved))
        store = part.store if isinstance(part, Tile) else part
        if not isinstance(store, Store) or store.buffers[0] not in names:
            return part
        store = replace(store, index=(stage, *store.index))
        return replace(part, store=store) if isinstance(part, Tile) else store

    return map_stmt(stmt, change)


def _divided(step: Expr, extent: int) -> tuple[Expr, Expr]:
    """Return the remainder and the quotient of a step."""
    if isinstance(step, Const):
        return Const(int(step.value) % extent), Const(int(step.value) // extent)
    if extent == 1:
        return ZERO, step
    return mod(step, Const(extent)), floordiv(step, Const(extent))
