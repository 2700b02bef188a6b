"""The loops, branches and allocations of one phase as LLVM text; `Expansion` writes its tiles."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any, ClassVar, Final

from llvmlite import ir

from ansorpy.codegen.index_hoisting import HoistedSums
from ansorpy.codegen.phase_utilities import stored_names, streams, uses_matrices
from ansorpy.codegen.simd.expansion import Expansion
from ansorpy.codegen.simd.kinds import I64, POINTER, STORED
from ansorpy.codegen.simd.matrices import configure, release
from ansorpy.codegen.simd.memory import fetch, reserve, settle
from ansorpy.codegen.simd.tile import SimdTile
from ansorpy.codegen.simd.values import Index
from ansorpy.codegen.structured_tile import expression, structured
from ansorpy.codegen.symbols import SymbolBuffer, SymbolTable, memory, register_tile
from ansorpy.codegen.text_builder import TextBuilder
from ansorpy.codegen.tile_printer import statement_text
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr
from ansorpy.loopir.nodes import (
    SIZES,
    Alloc,
    Buffer,
    For,
    If,
    Phase,
    Prefetch,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.loopir.tasks import split_tasks
from ansorpy.te.dims import Dim

Places = tuple[tuple[int, Buffer], ...]  # buffers, by their numbers among the addresses

SCRATCH_LIMIT_BYTES: Final = 1 << 20  # scratch of one task, which lies on its stack


@dataclass
class PhaseWriter:
    """Writes the function of one phase for a CPU: `void phase(int64_t *buffers, int64_t task)`."""

    index_expansion: ClassVar[type[Expansion]] = Expansion  # for indices and conditions

    places: Places
    b: TextBuilder
    dims: tuple[Dim, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)  # by symbol, as Expansion takes them
    counter: int = 0
    known: tuple[Any, dict[Any, Any]] = (None, {})  # a basic block, and its offsets and addresses
    sums: HoistedSums = field(default_factory=HoistedSums)

    def phase(self, phase: Phase) -> None:
        """Write the whole function."""
        places, task = self.begin()
        table = self.sizes(SymbolTable(places))
        tasks = split_tasks(phase)
        for name, extent in reversed(tasks.loops):
            symbol, sizes = self.fresh("i"), table
            table = table.with_var(name, symbol, extent)
            if isinstance(extent, Const):
                count = ir.Constant(task.type, int(extent.value))
            elif name == tasks.loops[0][0]:  # no task is beyond the outermost extent
                self.values[symbol] = task
                self.sums.enter(symbol, self.b.block)
                break
            else:
                count = self._index(extent, sizes)
            self.values[symbol] = self.wide(self.b.urem(task, count))
            self.sums.enter(symbol, self.b.block)
            task = self.b.udiv(task, count)
        self.task(phase, tasks.body, table)
        self.b.ret_void()

    def tasks_of_call(self, count: Expr) -> None:
        """Write the function `int64_t phase_tasks(int64_t *buffers)` of a number of tasks."""
        places, _ = self.begin()
        table = self.sizes(SymbolTable(places))
        self.b.ret(self._index(count, table))

    def begin(self) -> tuple[dict[str, SymbolBuffer], Any]:
        """Return the buffers by name, their addresses among the values, and the task's number."""
        buffers, task = self.b.args[0], self.b.args[-1]
        places = {}
        for k, buffer in self.places:
            place = places[buffer.name] = memory(buffer, f"b{k}")
            slot = self.b.gep(buffers, [ir.Constant(I64, k)], source_etype=POINTER)
            self.values[place.symbol] = self.b.load(slot, typ=POINTER)
        return places, task

    def sizes(self, table: SymbolTable) -> SymbolTable:
        """Return the table with the sizes of the call, which are loaded."""
        for k, dim in enumerate(self.dims):
            base = self.values[table.buffer(SIZES).symbol]
            slot = self.b.gep(base, [ir.Constant(I64, k)], source_etype=I64)
            symbol = f"n{k}"
            size = self.b.load(slot, typ=I64)
            steps = size if dim.step == 1 else self.b.udiv(size, ir.Constant(I64, dim.step))
            self.values[symbol] = steps
            self.sums.enter(symbol, self.b.block)
            table = table.with_dim(dim, symbol)
        return table

    def task(self, phase: Phase, body: Stmt, table: SymbolTable) -> None:
        """Write the body of a task, and the instructions around it."""
        matrices = uses_matrices(phase)
        if matrices:
            configure(self.b)
        self.stmt(body, table)
        if matrices:
            release(self.b)
        if streams(phase):
            settle(self.b)

    def wide(self, number: Any) -> Any:
        """Return a natural number as an int64."""
        return number if number.type == I64 else self.b.zext(number, I64)

    def fresh(self, letter: str) -> str:
        """Return a new symbol."""
        self.counter += 1
        return f"{letter}{self.counter - 1}"

    def stmt(self, stmt: Stmt, table: SymbolTable) -> None:
        """Write a statement."""
        match stmt:
            case Seq(stmts=stmts):
                for part in stmts:
                    self.stmt(part, table)
            case Tile():
                self.tile(stmt, table)
            case Prefetch():
                self.prefetch(stmt, table)
            case For():
                self._for(stmt, table)
            case If():
                self._if(stmt, table)
            case Alloc():
                self._alloc(stmt, table)
            case Store():
                raise BuildError("a scalar Store where a Tile is due: the program is not tiled")

    def tile(self, stmt: Tile, table: SymbolTable) -> None:
        """Write a tile."""
        tile = structured(stmt, table)
        given = {name: self.values[name] for name in tile.names}
        self.expand(tile, Expansion(tile, self.b, given, self.shared(), self.sums))

    def expand(self, tile: SimdTile, expansion: Expansion) -> None:
        """Write the code of a tile, and keep the registers that it assigns."""
        try:
            after = expansion.run()
        except ValueError as error:
            raise BuildError(f"{error}: {statement_text(tile)}") from error
        for name in tile.results:
            self.values[name] = after[name]

    def prefetch(self, stmt: Prefetch, table: SymbolTable) -> None:
        """Write a prefetch."""
        place, offset = table.buffer(stmt.buffer), self._index(stmt.offset, table)
        base, kind = self.values[place.symbol], STORED[place.dtype]
        fetch(self.b, self.b.gep(base, [offset], source_etype=kind))

    def shared(self) -> dict[Any, Any]:
        """Return the offsets and addresses that the present basic block has computed."""
        if self.known[0] is not self.b.block:
            self.known = self.b.block, {}
        return self.known[1]

    def _alloc(self, stmt: Alloc, table: SymbolTable) -> None:
        buffer = stmt.buffer
        if buffer.scope is Scope.REGISTER:
            place = self.registers(buffer, stmt.body)
            operand = place.operand
            count = prod(operand.shape or ())
            self.values[place.symbol] = [ir.Constant(operand.element, ir.Undefined)] * count
        else:
            place = memory(buffer, self.fresh("s"))
            self.values[place.symbol] = self.scratch(place)
        self.stmt(stmt.body, table.with_buffer(buffer.name, place))
        del self.values[place.symbol]

    def registers(self, buffer: Buffer, body: Stmt) -> SymbolBuffer:
        """Return the entry of a register tile that lives in `body`."""
        return register_tile(buffer, self.fresh("r"), body)

    def scratch(self, place: SymbolBuffer) -> Any:
        """Return the address of new memory of the task."""
        return reserve(self.b, scratch_bytes(place.size, place.dtype))

    def _for(self, stmt: For, table: SymbolTable) -> None:
        extent = self._index(stmt.extent, table)
        known = isinstance(extent, ir.Constant)
        if known and extent.constant < 1:
            return
        symbol = self.fresh("i")
        inner = table.with_var(stmt.var, symbol, stmt.extent)
        if known and extent.constant == 1:
            self.values[symbol] = ir.Constant(I64, 0)
            self.stmt(stmt.body, inner)
            return
        if known:
            self._loop(symbol, extent, lambda: self.stmt(stmt.body, inner), stmt.body, table)
            return
        some = self.b.icmp_signed(">", extent, ir.Constant(I64, 0))
        self._branch(
            some,
            lambda: self._loop(
                symbol, extent, lambda: self.stmt(stmt.body, inner), stmt.body, table
            ),
        )

    def _loop(
        self, symbol: str, extent: Any, body: Callable[[], None], stmt: Stmt, table: SymbolTable
    ) -> None:
        """Write a loop that runs at least once; register tiles it changes become phis."""
        before, head = self.b.block, self.b.append_basic_block()
        self.b.branch(head)
        self.b.position_at_end(head)
        index = self.b.phi(I64)
        index.add_incoming(ir.Constant(I64, 0), before)
        self.values[symbol] = index
        self.sums.enter(symbol, head)
        changed = stored_names(stmt)
        carried = [
            place.symbol
            for name, place in table.buffers.items()
            if place.in_registers and name in changed
        ]
        phis: list[tuple[str, int, Any]] = []
        for name in carried:
            for k, value in enumerate(self.values[name]):
                phi = self.b.phi(value.type)
                phi.add_incoming(value, before)
                phis.append((name, k, phi))
            self.values[name] = [phi for owner, _, phi in phis if owner == name]
        body()
        after = self.b.add(index, ir.Constant(I64, 1), flags=("nsw", "nuw"))
        index.add_incoming(after, self.b.block)
        for name, k, phi in phis:
            phi.add_incoming(self.values[name][k], self.b.block)
        again = self.b.icmp_signed("<", after, extent)
        out = self.b.append_basic_block()
        self.b.cbranch(again, head, out)
        self.b.position_at_end(out)

    def _if(self, stmt: If, table: SymbolTable) -> None:
        cond = self._index(stmt.cond, table)
        other = stmt.other
        if isinstance(cond, bool):
            chosen = stmt.then if cond else other
            if chosen is not None:
                self.stmt(chosen, table)
            return
        rest = None if other is None else lambda: self.stmt(other, table)
        self._branch(cond, lambda: self.stmt(stmt.then, table), rest)

    def _branch(
        self, cond: Any, then: Callable[[], None], other: Callable[[], None] | None = None
    ) -> None:
        """Write if / else; register tiles that either side changes are joined by phis."""
        entry = dict(self.values)
        blocks = [self.b.append_basic_block() for _ in range(3)]
        self.b.cbranch(cond, *blocks[:2])
        ends = []
        for block, side in zip(blocks, (then, other), strict=False):
            self.b.position_at_end(block)
            self.values = dict(entry)
            if side is not None:
                side()
            ends.append((self.values, self.b.block))
            self.b.branch(blocks[2])
        self.b.position_at_end(blocks[2])
        self.values = {name: self._join(name, value, ends) for name, value in entry.items()}

    def _join(self, name: str, value: Any, ends: list[tuple[dict[str, Any], Any]]) -> Any:
        if not isinstance(value, list):
            return value
        joined = []
        for k in range(len(value)):
            sides = [values[name][k] for values, _ in ends]
            if sides[0] is sides[1]:
                joined.append(sides[0])
                continue
            phi = self.b.phi(sides[0].type)
            for side, (_, block) in zip(sides, ends, strict=True):
                phi.add_incoming(side, block)
            joined.append(phi)
        return joined

    def _index(self, expr: Expr, table: SymbolTable) -> Any:
        """Return an int64, or an i1 or bool for a condition, over loop variables."""
        tile = expression(expr, table)
        given = {name: self.values[name] for name in tile.names}
        expansion = self.index_expansion(tile, self.b, given, self.shared(), self.sums)
        found = expansion.eval(tile.values[0], {})
        if isinstance(found, bool):
            return found
        return expansion.whole(found) if isinstance(found, Index) else found.ir


def scratch_bytes(size: int, dtype: str) -> int:
    """Return the bytes of a task's scratch; BuildError if the stack cannot hold them."""
    size_bytes = size * SIZE_BYTES[dtype]
    if size_bytes > SCRATCH_LIMIT_BYTES:
        raise BuildError(f"{size_bytes} bytes of scratch; a task has {SCRATCH_LIMIT_BYTES}")
    return -(-size_bytes // 64) * 64
