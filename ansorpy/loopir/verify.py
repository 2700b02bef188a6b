"""The definition of a valid program, as predicates. Passes state their needs in these terms."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import Final, Literal

from ansorpy.errors import LoweringError
from ansorpy.expr.dtypes import DTYPES, INDEX, INTS
from ansorpy.expr.expr import Const, Expr, Read, Var, reads, variables
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    LoopKind,
    Matrix,
    Phase,
    Prefetch,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.printer import describe, headline
from ansorpy.loopir.rewrite import stores
from ansorpy.loopir.typecheck import index_type, value_type
from ansorpy.te.dag import COMBINERS

Level = Literal["symbolic", "bound", "tiled"]

_PAIRS: Final = ("argmax", "argmin")
_WHOLE: Final = (Scope.INPUT, Scope.CONSTANT, Scope.SIZES, Scope.OUTPUT, Scope.GLOBAL)
_READ_ONLY: Final = (Scope.INPUT, Scope.CONSTANT, Scope.SIZES)


def check(
    program: Program, level: Level = "symbolic", sizes: Collection[str] | None = None
) -> None:
    """Raise if `program` is not valid at a level.

    symbolic   every variable is a loop or a size; buffers are declared, in scope, of the right
               rank and dtype; PARALLEL loops are the outermost of their phase and every shared
               store depends on each of them; inputs are not stored; outputs are
    bound      and no sizes are left, all shapes are positive numbers
    tiled      and VECTOR and UNROLL loops have become Tiles, REGISTER buffers are touched by
               Tiles only, at a sub-sequence of (dims..., lanes...)

    Args:
        sizes: the names that may stand free at the symbolic level; None allows any.

    Raises:
        LoweringError: names the phase, the statement and the violated condition.
    """
    if level != "symbolic":
        sizes = ()
    if sizes is not None:
        sizes = (*sizes, *program.ranges)
    _unique("buffer", [buffer.name for buffer in program.buffers])
    _unique("phase", [phase.name for phase in program.phases])
    for buffer in program.buffers:
        _check_buffer(buffer, level, _WHOLE)
    dims = frozenset(program.ranges)
    for phase in program.phases:
        known = frozenset() if phase.ahead else dims  # sizes are not there yet
        if phase.tasks is not None and not variables(phase.tasks) <= known:
            raise LoweringError(f"phase {phase.name}: {phase.tasks} tasks; expected dims only")
        _check_stmt(phase.body, _Place(phase.name, level, sizes, dict(program.by_name), dims))
    _check_flow(program)


@dataclass(frozen=True, slots=True)
class _Place:
    """The context of a statement: loops, conditions and buffers around it."""

    phase: str
    level: Level
    sizes: Collection[str] | None
    buffers: dict[str, Buffer]
    dims: frozenset[str]  # variables that a call decides
    bound: tuple[str, ...] = ()
    parallel: tuple[str, ...] = ()
    outermost: bool = True  # only PARALLEL loops so far
    vector: bool = False
    guards: frozenset[str] = frozenset()  # variables of the conditions around
    tile: Tile | None = None

    def find(self, name: str) -> Buffer:
        if name not in self.buffers:
            raise LoweringError(f"no buffer {name!r} in scope")
        return self.buffers[name]

    def index(self, expr: Expr, dtype: str = INDEX) -> None:
        """Demand an index expression (or condition) over variables that are bound here."""
        self.closed(expr)
        if index_type(expr) != dtype:
            raise LoweringError(f"{expr} is not {dtype}")

    def closed(self, expr: Expr) -> None:
        free = variables(expr) - set(self.bound)
        if self.sizes is not None and not free <= set(self.sizes):
            raise LoweringError(f"{expr}: nothing binds {', '.join(sorted(free))}")

    def bind(self, *names: str) -> "_Place":
        for name in names:
            if name in self.bound:
                raise LoweringError(f"{name} is already bound by a loop around")
        _unique("variable", names)
        return replace(self, bound=(*self.bound, *names))


def _check_stmt(stmt: Stmt, at: _Place) -> None:
    try:
        inner = _enter(stmt, at)
    except LoweringError as error:
        raise LoweringError(f"phase {at.phase}: {headline(stmt)}: {error}") from None
    match stmt:
        case Store() | Prefetch():
            pass
        case Tile(store=store):
            _check_stmt(store, inner)
        case For(body=body) | Alloc(body=body):
            _check_stmt(body, inner)
        case Seq(stmts=stmts):
            for part in stmts:
                _check_stmt(part, inner)
        case If(then=then, other=other):
            for branch in (then,) if other is None else (then, other):
                _check_stmt(branch, inner)


def _enter(stmt: Stmt, at: _Place) -> _Place:
    """Check a statement without its children, and return the context of the children."""
    match stmt:
        case For():
            return _enter_for(stmt, at)
        case Tile():
            return _enter_tile(stmt, at)
        case Alloc(buffer=buffer):
            if buffer.name in at.buffers:
                raise LoweringError(f"buffer {buffer.name!r} exists already")
            _check_buffer(buffer, at.level, (Scope.LOCAL, Scope.REGISTER), at.bound)
            for extent in buffer.shape:
                at.index(extent)
            return replace(at, buffers={**at.buffers, buffer.name: buffer}, outermost=False)
        case If(cond=cond):
            at.index(cond, "bool")
            return replace(at, outermost=False, guards=at.guards | variables(cond))
        case Seq():
            return replace(at, outermost=False)
        case Store() | Prefetch():
            _check_leaf(stmt, at)
            return at


def _check_leaf(stmt: Store | Prefetch, at: _Place) -> None:
    if isinstance(stmt, Store):
        _check_store(stmt, at)
        return
    if at.find(stmt.buffer).scope is Scope.REGISTER:
        raise LoweringError(f"{stmt.buffer} is in registers: there is nothing to fetch")
    at.index(stmt.offset)


def _enter_for(stmt: For, at: _Place) -> _Place:
    at.index(stmt.extent)
    inner = at.bind(stmt.var)
    match stmt.kind:
        case LoopKind.PARALLEL:
            if not at.outermost:
                raise LoweringError("a parallel loop must be the outermost of its phase")
            if at.level != "symbolic" and not variables(stmt.extent) <= at.dims:
                raise LoweringError("the extent of a parallel loop must be a number")
            single = stmt.extent == Const(1)
            return inner if single else replace(inner, parallel=(*at.parallel, stmt.var))
        case LoopKind.SERIAL:
            return replace(inner, outermost=False)
        case LoopKind.DOT if not isinstance(stmt.extent, Const) or not isinstance(stmt.body, Store):
            raise LoweringError("a dot loop has a number for its extent, and one store in it")
        case _:
            if at.level == "tiled":
                raise LoweringError(f"a {stmt.kind.value} loop is left after tiling")
            vector = stmt.kind is LoopKind.VECTOR
            if vector and at.vector:
                raise LoweringError("a vector loop inside a vector loop")
            return replace(inner, outermost=False, vector=at.vector or vector)


def _enter_tile(tile: Tile, at: _Place) -> _Place:
    if at.level != "tiled":
        raise LoweringError(f"a tile at level {at.level!r}")
    spans = tile.spans
    for var, extent in spans:
        if extent < 1:
            raise LoweringError(f"{var} has extent {extent} < 1")
    inner = at.bind(*(var for var, _ in spans))
    if tile.dot is not None:
        _check_dot(tile, tile.dot[0])
    if tile.matrix is not None:
        _check_matrix(tile, tile.matrix, at)
    if tile.mask is not None:
        inner.index(tile.mask, "bool")
        inner = replace(inner, guards=at.guards | variables(tile.mask))
    return replace(inner, tile=tile)


def _check_dot(tile: Tile, var: str) -> None:
    kept = {name for index in tile.store.index for name in variables(index)}
    masked = set() if tile.mask is None else variables(tile.mask)
    if not tile.dims or tile.dims[-1][0] != var or tile.store.combiner != "sum":
        raise LoweringError(f"{var} is not the last dimension of a tile that sums")
    if var in kept | masked:
        raise LoweringError(f"{var} is summed over by one instruction: no index may have it")


def _check_matrix(tile: Tile, matrix: Matrix, at: _Place) -> None:
    kept = {name for index in tile.store.index for name in variables(index)}
    names = [name for name, _ in tile.dims]
    if tile.dot is None or tile.mask is not None or not tile.lanes:
        raise LoweringError("a tile on matrices has a dot and lanes, and no mask")
    whole = {name for name, extent in tile.dims if extent > 1}
    if matrix.row not in names or (matrix.row in whole and matrix.row not in kept):
        raise LoweringError(f"{matrix.row} is no dimension of the target: it has no rows along it")
    if matrix.group not in names or matrix.group in kept:
        raise LoweringError(f"{matrix.group} is not summed over: it has no groups along it")
    for name in tile.store.buffers:
        if at.find(name).scope is Scope.REGISTER and len(tile.lanes) == 1:
            raise LoweringError(f"{name} is in registers: matrices come from memory")


def _check_store(store: Store, at: _Place) -> None:
    arity = 2 if store.combiner in _PAIRS else 1
    if store.combiner is not None and store.combiner not in COMBINERS:
        raise LoweringError(f"unknown combiner {store.combiner!r}")
    if len(store.values) != len(store.buffers) or len(store.buffers) < arity:
        raise LoweringError(f"{len(store.values)} values for {len(store.buffers)} buffers")
    if store.combiner is not None and len(store.buffers) != arity:
        raise LoweringError(f"{store.combiner} takes {arity} buffers, not {len(store.buffers)}")
    _unique("stored buffer", store.buffers)
    for index in store.index:
        at.index(index)
    for name, value in zip(store.buffers, store.values, strict=True):
        _check_target(at.find(name), store, at)
        at.closed(value)
        found = value_type(value, at.find)
        if found != at.find(name).dtype:
            raise LoweringError(f"{name} holds {at.find(name).dtype}, the value is {found}")
        for read in reads(value):
            _check_register(read.tensor, read.indices, at)
    if arity == 2 and at.find(store.buffers[1]).dtype not in INTS:
        raise LoweringError(f"{store.buffers[1]} must hold integers to take an index")


def _check_target(buffer: Buffer, store: Store, at: _Place) -> None:
    if buffer.scope in _READ_ONLY:
        raise LoweringError(f"{buffer.name} is {buffer.scope.value} and must not be stored")
    if len(store.index) != len(buffer.shape):
        raise LoweringError(
            f"{len(store.index)} indices, {buffer.name} has rank {len(buffer.shape)}"
        )
    _check_register(buffer.name, store.index, at)
    if buffer.scope in (Scope.OUTPUT, Scope.GLOBAL):
        used = at.guards.union(*map(variables, store.index))
        for var in at.parallel:
            if var not in used:
                raise LoweringError(f"tasks of {var} would all store the same {buffer.name}")


def _check_register(name: str, index: tuple[Expr, ...], at: _Place) -> None:
    buffer = at.find(name)
    if buffer.scope is not Scope.REGISTER or at.level != "tiled":
        return
    if at.tile is None:
        raise LoweringError(f"register {name} is touched outside a tile")
    spans = at.tile.spans
    extents, rest = dict(spans), iter(var for var, _ in spans)
    # `in` consumes the iterator, so that the variables must occur in order: a sub-sequence.
    if not all(isinstance(expr, Var) and expr.name in rest for expr in index):
        raise LoweringError(f"register {name} is not indexed by a sub-sequence of dims, lanes")
    for expr, extent in zip(index, buffer.shape, strict=True):
        if isinstance(extent, Const) and extents[str(expr)] > extent.value:
            raise LoweringError(f"{expr} runs past the extent {extent} of register {name}")


def _check_buffer(
    buffer: Buffer, level: Level, scopes: tuple[Scope, ...], loops: tuple[str, ...] = ()
) -> None:
    def fail(what: str) -> LoweringError:
        return LoweringError(f"buffer {describe(buffer)}: {what}")

    if buffer.scope not in scopes:
        raise fail(f"scope must be one of {', '.join(scope.value for scope in scopes)}")
    if buffer.dtype not in DTYPES:
        raise fail("unknown dtype")
    for extent in buffer.shape:
        if level != "symbolic" and not isinstance(extent, Const):
            raise fail(f"extent {extent} is not a number")
        if isinstance(extent, Const) and (extent.dtype != INDEX or extent.value < 1):
            raise fail(f"extent {extent} is not a positive {INDEX}")
        if variables(extent).intersection(loops):
            raise fail(f"extent {extent} depends on a loop")


def _check_flow(program: Program) -> None:
    """Require that phases read only buffers written before, and `ahead` phases only constants."""
    written: set[str] = set()
    ready: set[str] = set()  # written ahead
    shared = {b.name for b in program.buffers if b.scope in (Scope.OUTPUT, Scope.GLOBAL)}
    for phase in program.phases:
        own = {name for store in stores(phase.body) for name in store.buffers}
        for name in sorted(_reads(phase) & shared):
            if name not in written | own:
                raise LoweringError(f"phase {phase.name}: {name} is read before it is written")
            if phase.ahead and name not in ready | own:
                raise LoweringError(f"phase {phase.name}: ahead, but {name} is not known ahead")
        written |= own
        ready |= own if phase.ahead else set()
    for buffer in program.buffers:
        if buffer.scope is Scope.OUTPUT and buffer.name not in written:
            raise LoweringError(f"output {buffer.name} is never stored")


def _reads(phase: Phase) -> set[str]:
    values = (value for store in stores(phase.body) for value in store.values)
    found: set[Read] = {read for value in values for read in reads(value)}
    return {read.tensor for read in found}


def _unique(what: str, names: Collection[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise LoweringError(f"{what} {name!r} occurs twice")
        seen.add(name)
