"""One pass over a symbolic program: its store statements with their loops and accesses."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from ansorpy.errors import LoweringError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Const, Expr, Var, reads
from ansorpy.features.column_program import ColumnBuilder, ColumnValue
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Prefetch,
    Program,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.plan.plan import Size


@dataclass(frozen=True, eq=False)
class EnclosingLoop:
    """A loop around a store; `number` identifies it, because names may repeat.

    `extent` is the largest extent of the loop; tails are shorter. `length` is the extent as it is
    written, which may contain variables of outer loops.
    """

    number: int
    var: str
    extent: ColumnValue
    kind: LoopKind
    length: Expr


@dataclass(frozen=True, eq=False)
class BufferAccess:
    """All accesses of one store to one buffer; `shape` in elements.

    `allocated_at` is the number of loops outside of the allocation of the buffer.
    """

    buffer: str
    shape: tuple[ColumnValue, ...]
    element_bytes: int
    reads: bool
    writes: bool
    allocated_at: int
    indices: tuple[tuple[Expr, ...], ...]  # one per access


@dataclass(frozen=True, eq=False)
class StoreStatement:
    """A store with its loops, outermost first, and its buffers, the written one first."""

    store: Store
    loops: tuple[EnclosingLoop, ...]
    accesses: tuple[BufferAccess, ...]
    unroll: ColumnValue  # unroll budget: the largest number of statements written out
    ahead: bool = False  # part of a phase that runs once, ahead of the timed calls


@dataclass(frozen=True, eq=False)
class ProgramStores:
    """The store statements of a program in program order, recorded by one builder."""

    builder: ColumnBuilder
    numbers: Iterator[int]
    sizes: Mapping[str, ColumnValue]
    statements: tuple[StoreStatement, ...]

    def zeroed(self, loops: Sequence[EnclosingLoop]) -> dict[str, ColumnValue]:
        """Return the sizes, and 0 for every loop variable."""
        zero = self.builder.const(0)
        return {**self.sizes, **{loop.var: zero for loop in loops}}


@dataclass(frozen=True)
class _Place:
    """The position of the walk in the program."""

    loops: tuple[EnclosingLoop, ...] = ()
    buffers: Mapping[str, tuple[Buffer, int]] = field(default_factory=dict)
    first: frozenset[str] = frozenset()  # loop variables that are 0 by a condition


def walk(program: Program, sizes: Sequence[Size]) -> ProgramStores:
    """Return the statements of a symbolic program.

    Raises:
        LoweringError: the program has passed the symbolic level (it has a Tile), or names a
            buffer or a size that is not there.
    """
    builder = ColumnBuilder([(size.name, _only_value(size)) for size in sizes])
    stores = ProgramStores(builder, count(), builder.column, ())
    buffers = {buffer.name: (buffer, 0) for buffer in program.buffers}
    statements = [
        replace(_statement(stores, sizes, store, place), ahead=phase.ahead)
        for phase in program.phases
        for store, place in _stores(stores, phase.body, _Place((), buffers))
    ]
    return replace(stores, statements=tuple(statements))


def _only_value(size: Size) -> int | None:
    """Return the value of a size that is the same in every legal row, else None."""
    if size.role != "tile":
        return size.values[0] if len(size.values) == 1 else None
    return size.multiple_of if size.extent <= size.multiple_of else None


def _stores(stores: ProgramStores, stmt: Stmt, place: _Place) -> Iterator[tuple[Store, _Place]]:
    match stmt:
        case Store():
            yield stmt, place
        case For(var=var, extent=extent, body=body, kind=kind):
            largest = stores.builder.of(extent, stores.zeroed(place.loops))
            loop = EnclosingLoop(next(stores.numbers), var, largest, kind, extent)
            inside = replace(place, loops=(*place.loops, loop))
            yield from _stores(stores, body, inside)
        case Seq(stmts=stmts):
            for part in stmts:
                yield from _stores(stores, part, place)
        case Alloc(buffer=buffer, body=body):
            known = {**place.buffers, buffer.name: (buffer, len(place.loops))}
            yield from _stores(stores, body, replace(place, buffers=known))
        case If(cond=cond, then=then, other=other):
            yield from _stores(stores, then, replace(place, first=place.first | _first(cond)))
            if other is not None:
                yield from _stores(stores, other, place)
        case Tile() | Prefetch():
            raise LoweringError(
                "cannot extract features of a program with register tiles; expected a symbolic one"
            )


def _first(cond: Expr) -> frozenset[str]:
    """Return the variables v of a condition `v == 0 and ...`."""
    match cond:
        case Binary(op="and", a=a, b=b):
            return _first(a) | _first(b)
        case Binary(op="eq", a=Var(name=name), b=Const(value=0)):
            return frozenset((name,))
        case _:
            return frozenset()


def _statement(
    stores: ProgramStores, sizes: Sequence[Size], store: Store, place: _Place
) -> StoreStatement:
    one = stores.builder.const(1)
    # A statement that runs in the first iteration of a loop only counts once.
    loops = tuple(
        replace(loop, extent=one, length=Const(1)) if loop.var in place.first else loop
        for loop in place.loops
    )
    accesses = _accesses(stores, store, place)
    return StoreStatement(store, loops, accesses, _unroll(stores, sizes, store, loops))


def _accesses(stores: ProgramStores, store: Store, place: _Place) -> tuple[BufferAccess, ...]:
    """Return the buffers of a store, the written ones first, then in order of appearance."""
    indices_of: dict[str, list[tuple[Expr, ...]]] = {name: [store.index] for name in store.buffers}
    read: set[str] = set(store.buffers) if store.combiner is not None else set()
    for value in store.values:
        for part in reads(value):
            indices_of.setdefault(part.tensor, []).append(part.indices)
            read.add(part.tensor)
    zeroed = stores.zeroed(place.loops)
    answer = []
    for name, indices in indices_of.items():
        if name not in place.buffers:
            raise LoweringError(f"buffer {name!r} is not declared")
        buffer, depth = place.buffers[name]
        shape = tuple(stores.builder.of(extent, zeroed) for extent in buffer.shape)
        answer.append(
            BufferAccess(
                name, shape, SIZE_BYTES[buffer.dtype], name in read, name in store.buffers,
                depth,
                tuple(dict.fromkeys(indices)),
            )
        )  # fmt: skip
    return tuple(answer)


def _unroll(
    stores: ProgramStores, sizes: Sequence[Size], store: Store, loops: Sequence[EnclosingLoop]
) -> ColumnValue:
    """Return the unroll budget of the stage that the store belongs to, or 0.

    A size "<stage>.unroll" belongs to the stores into a buffer of that stage, and to those in
    a loop of it ("<stage>:<axis>").
    """
    owners = {loop.var.split(":")[0] for loop in loops[::-1][:1]} | set(store.buffers)
    for size in sizes:
        if size.role == "unroll" and size.name.rsplit(".", 1)[0] in owners:
            return stores.sizes[size.name]
    return stores.builder.const(0)
