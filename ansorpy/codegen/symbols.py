"""The symbol table of generated code: buffers and loop variables by their names in the loop IR."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

from ansorpy.codegen.simd.kinds import Operand
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Expr, Var, reads
from ansorpy.expr.intervals import Interval, bounds
from ansorpy.loopir.nodes import Buffer, Stmt, Tile
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.te.dims import Dim


@dataclass(frozen=True, slots=True)
class SymbolBuffer:
    """A buffer in generated code: its symbol, dtype, extents and kind of operand."""

    symbol: str
    dtype: str
    extents: tuple[int, ...]
    operand: Operand

    @property
    def in_registers(self) -> bool:
        """Return True if the buffer is a register tile."""
        return self.operand.shape is not None

    @property
    def described(self) -> str:
        """Size and storage, for the header of a kernel."""
        return f"registers {self.operand}" if self.in_registers else f"{self.size} {self.dtype}"

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.extents)


@dataclass(frozen=True, slots=True)
class SymbolTable:
    """Buffers and symbols of the variables in scope at one point of a program.

    `ranges` holds the first and last value of every variable, which simplify offsets.
    """

    buffers: Mapping[str, SymbolBuffer]
    symbols: Mapping[str, str] = field(default_factory=dict)
    ranges: Mapping[str, Interval] = field(default_factory=dict)

    def buffer(self, name: str) -> SymbolBuffer:
        """Return a buffer; BuildError if none of that name is in scope."""
        if name not in self.buffers:
            raise BuildError(f"no buffer {name!r} in scope; there are {', '.join(self.buffers)}")
        return self.buffers[name]

    def symbol(self, name: str) -> str:
        """Return the symbol of a variable; BuildError if no loop binds it."""
        if name not in self.symbols:
            raise BuildError(f"no loop binds {name!r}; there are {', '.join(self.symbols)}")
        return self.symbols[name]

    def with_var(self, name: str, symbol: str, extent: Expr) -> "SymbolTable":
        """Return the table inside a loop."""
        last = max(0, bounds(extent, self.ranges)[1] - 1)
        symbols, ranges = {**self.symbols, name: symbol}, {**self.ranges, name: (0, last)}
        return SymbolTable(self.buffers, symbols, ranges)

    def with_dim(self, dim: Dim, symbol: str) -> "SymbolTable":
        """Return the table in which a symbol is the number of steps of a dim."""
        name = dim.var.name
        ranges = {**self.ranges, name: dim.counts}
        return SymbolTable(self.buffers, {**self.symbols, name: symbol}, ranges)

    def with_points(self, points: Mapping[str, tuple[str, int]]) -> "SymbolTable":
        """Return the table inside a tile that binds variables to symbols with extents."""
        symbols, ranges = dict(self.symbols), dict(self.ranges)
        for name, (symbol, extent) in points.items():
            symbols[name], ranges[name] = symbol, (0, max(0, extent - 1))
        return SymbolTable(self.buffers, symbols, ranges)

    def with_buffer(self, name: str, buffer: SymbolBuffer) -> "SymbolTable":
        """Return the table inside an allocation."""
        return SymbolTable({**self.buffers, name: buffer}, self.symbols, self.ranges)


def memory(buffer: Buffer, symbol: str) -> SymbolBuffer:
    """Return the entry of a buffer that lives in memory."""
    return SymbolBuffer(symbol, buffer.dtype, buffer.extents, Operand(buffer.dtype, 0, None))


def register_tile(buffer: Buffer, symbol: str, body: Stmt) -> SymbolBuffer:
    """Return the entry of a REGISTER buffer; the tiles in `body` say whether it holds vectors."""
    shape = buffer.extents
    lanes = any(
        isinstance(stmt, Tile) and _along_lane(stmt, buffer.name) for stmt in walk_stmt(body)
    )
    rest = (shape[:-1] if lanes else shape) or (() if lanes else (1,))
    operand = Operand(buffer.dtype, shape[-1] if lanes else 0, rest)
    return SymbolBuffer(symbol, buffer.dtype, shape, operand)


def _along_lane(tile: Tile, name: str) -> bool:
    """Return True if a tile touches buffer `name` with its lane variable as the last index."""
    if tile.lane is None:
        return False
    found = [tile.store.index] if name in tile.store.buffers else []
    found += [r.indices for value in tile.store.values for r in reads(value) if r.tensor == name]
    return any(index and index[-1] == Var(tile.lane[0]) for index in found)
