"""A tiled program as numba.cuda source in a plain form, for people and for other compilers.

Scalar loads, arithmetic, shared and local arrays, barriers and shuffles: nothing else. It is the
writer of kernels (`simt.writer`) with a builder that prints Python, so that both forms have one
table of arithmetic and round alike, but for contraction by the compiler and for the order of sums
inside of a tile: its dimensions are loops here, and registers are local arrays.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import prod
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.index_hoisting import HoistedSums, Terms
from ansorpy.codegen.phase_utilities import phase_infos
from ansorpy.codegen.simd.expansion import Expansion
from ansorpy.codegen.simd.kinds import F32, F64, I32, I64, STORED, computed
from ansorpy.codegen.simd.tile import TileExpr
from ansorpy.codegen.simd.values import Guards, Index, Point, RuntimeValue
from ansorpy.codegen.simt.collectives import ThreadBlock
from ansorpy.codegen.simt.memory import GLOBAL, SharedMemory
from ansorpy.codegen.simt.source_builder import ArrayElement, SourceBuilder
from ansorpy.codegen.simt.source_printer import body_lines
from ansorpy.codegen.simt.thread_tile import ThreadTile
from ansorpy.codegen.simt.writer import BlockShape, KernelWriter, block_shape
from ansorpy.codegen.symbols import SymbolTable
from ansorpy.codegen.tile_printer import INDENT
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Const, variables
from ansorpy.loopir.nodes import Alloc, Buffer, For, Phase, Program, Scope, Tile
from ansorpy.target import STATIC_SHARED_BYTES, GpuTarget, Target, expected

DTYPES: Final = ("float16", "float32", "float64", "int8", "int16", "int32", "int64", "uint64")
ARRAYS: Final = {  # others by their names
    "bool": "int8", "uint8": "int8", "uint16": "int16", "uint32": "int32", "uint64": "int64",
    "bfloat16": "int16",
}  # fmt: skip


def kernel_source(program: Program, target: Target) -> str:
    """Return the kernels of a bound program as Python for numba.cuda; equal programs, equal bytes.

    The text defines `phase0`, `phase1`, ... for flat arrays b0, b1, ... in the order of the
    buffers, and `LAUNCHES`: kernel, blocks, threads of a block, whether it reads constants only.
    bool and unsigned integers are signed arrays there, bfloat16 the bits as int16. Names of the
    program do not reach it.

    Raises:
        BuildError: as `simt_code`; or a block has more than 48 KB of shared memory.
    """
    infos, gpu = phase_infos(program), expected(target, GpuTarget)
    parts, launches = [], []
    for info, phase in zip(infos, program.phases, strict=True):
        shape = block_shape(phase, info.tasks, gpu)
        parts.append(_kernel(info.name, phase, program.buffers, shape, gpu))
        launches.append(f"{INDENT}({info.name}, {shape.blocks}, {shape.threads}, {info.ahead}),")
    parts.append("\n".join(["LAUNCHES = (", *launches, ")"]))
    head = f"{_header(program.buffers)}\n\n{_imports(parts)}"
    return "\n\n\n".join([head, *parts]) + "\n"


def _header(buffers: Sequence[Buffer]) -> str:
    lines = ["# Kernels for numba.cuda; b0, b1 ... are flat, row-major arrays of the device:", "#"]
    lines += [
        f"# b{k}: {buffer.scope.value} {array_dtype(buffer.dtype)}[{prod(buffer.extents)}]"
        + (f", {buffer.dtype} by its bits" if buffer.dtype in ARRAYS else "")
        + f" of shape {list(buffer.extents)}"
        for k, buffer in enumerate(buffers)
    ]
    return "\n".join(lines)


def _imports(parts: Sequence[str]) -> str:
    """Return the imports of the names that a text uses."""
    words = set(re.findall(r"\w+", "\n".join(parts)))
    modules = (
        ("math", ("inf", "nan")),
        ("numba", ("cuda",)),
        ("numba.cuda", ("libdevice",)),
        ("numpy", DTYPES),
    )
    used = [(module, [name for name in names if name in words]) for module, names in modules]
    return "\n".join(f"from {module} import {', '.join(names)}" for module, names in used if names)


def array_dtype(dtype: str) -> str:
    """Return the dtype of the array that a kernel takes for a buffer."""
    return ARRAYS.get(dtype, dtype)


def _kernel(
    name: str, phase: Phase, buffers: tuple[Buffer, ...], shape: BlockShape, target: GpuTarget
) -> str:
    builder = SourceBuilder([ArrayElement(GLOBAL, f"b{k}", None) for k in range(len(buffers))])
    limit = min(target.shared_bytes, STATIC_SHARED_BYTES)
    shared = _SharedArrays(phase.name, limit, builder)
    try:
        places = tuple(enumerate(buffers))
        stands_in: Any = builder  # for a TextBuilder
        writer = SourceWriter(
            places, stands_in, shape=shape, shared_memory=shared, sums=_SumsInPlace(),
            tile_type=SourceTile, block_type=_SourceBlock,
        )  # fmt: skip
        writer.phase(phase)
    except ValueError as error:
        raise BuildError(f"{phase.name}: {error}") from error
    arguments = ", ".join(f"b{k}" for k in range(len(buffers)))
    doc = f'{INDENT}"""Do one of {shape.blocks} independent blocks of {shape.threads} threads."""'
    return "\n".join(["@cuda.jit", f"def {name}({arguments}):", doc, *body_lines(builder)])


class _SumsInPlace(HoistedSums):
    """Leaves sums of loop variables where they are used."""

    def know(self, terms: Terms) -> bool:
        """Return False."""
        del terms
        return False


class _SharedArrays(SharedMemory):
    """Shared memory as `cuda.shared.array`."""

    def __init__(self, phase: str, limit_bytes: int, builder: SourceBuilder) -> None:
        super().__init__(phase, limit_bytes)
        self.builder = builder

    def reserve(self, count: int, dtype: str) -> Any:
        """Return a new array."""
        super().reserve(count, dtype)
        name = f"s{len(self.lines) - 1}"
        return self.builder.array(name, "shared", count, STORED[dtype])


class _SourceBlock(ThreadBlock):
    """Threads that exchange values of all types that numba.cuda shuffles."""

    def of_partner(self, value: Any, distance: int) -> Any:
        """Return the value of the thread whose number differs in one bit."""
        b: Any = self.b
        if value.type in (F32, F64, I32, I64):
            return b.shuffled(value, distance)
        return b.trunc(b.shuffled(b.zext(value, I32), distance), value.type)


class _FloorDivision:
    """Integer division by Python's operators."""

    b: Any

    def divide_safely(self, op: str, x: Any, y: Any) -> Any:
        """Return x // y or x % y, rounded down, as Python does."""
        return self.b.floor(op, x, y)


class SourceIndex(_FloorDivision, Expansion):
    """An index or a condition over loop variables."""


class SourceTile(_FloorDivision, ThreadTile):
    """A tile whose registers are elements of local arrays."""

    def unless_masked(self) -> None:
        """Emit the tile; its one statement has the branch on the mask."""
        self.body()

    def load(self, read: TileExpr, point: Point, guards: Guards) -> tuple[str, Any]:
        """Return the dtype and the value of a read."""
        operand = self.tile.of(read)
        if operand.shape is None:
            return super().load(read, point, guards)
        value = self.b.load(self._place(read, point), typ=operand.element)
        return computed(operand.dtype), self.as_computed(value, operand.dtype)

    def write(self, target: TileExpr, point: Point, value: Any, guard: Any) -> None:
        """Write one value to a register or to memory."""
        operand = self.tile.of(target)
        if operand.shape is None:
            super().write(target, point, value, guard)
            return
        if guard is not None and guard is not True:
            raise ValueError("cannot write a masked register")
        stored = self.stored(value, "bool") if operand.dtype == "bool" else value
        self.b.store(stored, self._place(target, point), align=1)

    def _place(self, node: TileExpr, point: Point) -> Any:
        """Return the address of a register in its array, row-major."""
        operand, flat = self.tile.of(node), Index({}, (0,))
        for part, extent in zip(node.args[1:], operand.shape or (), strict=True):
            flat = flat.plus(flat, extent - 1).plus(self.index(part, point))
        offset = self.whole(flat)
        return self.b.gep(self.values[node.args[0]], [offset], source_etype=operand.element)

    def compare_index(self, op: str, gap: Index) -> Any:
        """Return `gap op 0`: a bool, or an i1 with the constant on the right."""
        if not gap.terms:
            return super().compare_index(op, gap)
        limit = ir.Constant(I64, -gap.lanes[0])
        return RuntimeValue("bool", self.b.icmp_signed(op, self.scalar(gap.terms), limit))

    def function(self, op: str, dtype: str, x: Any) -> Any:
        """Return a function of mathematics, under a comment with its name."""
        self.b.note(op)
        return super().function(op, dtype, x)


class SourceWriter(KernelWriter):
    """Writes one kernel: loops and branches as Python has them."""

    index_expansion = SourceIndex

    def thread_tile(self, stmt: Tile, table: SymbolTable, across: bool) -> None:
        """Write a tile: its dimensions are loops, but for sums that are kept in a variable.

        Sums of a matrix instruction are scalar products.
        """
        store = stmt.store
        kept = frozenset[str]().union(*map(variables, store.index))
        whole = table.buffer(store.buffers[0]).in_registers
        looped = [(name, n) for name, n in stmt.dims if not across and (name in kept or whole)]
        with self._loops(looped, table) as inner:
            rest = tuple(one for one in stmt.dims if one not in looped)
            plain = replace(
                stmt, dims=rest, access_width=1, asynchronous=False, dot=None, matrix=None
            )
            super().thread_tile(plain, inner, across)

    @contextmanager
    def _loops(self, dims: list[tuple[str, int]], table: SymbolTable) -> Iterator[SymbolTable]:
        if not dims:
            yield table
            return
        (name, extent), *rest = dims
        symbol = self.fresh("i")
        if extent == 1:
            self.values[symbol] = ir.Constant(I64, 0)
            with self._loops(rest, table.with_var(name, symbol, Const(1))) as inner:
                yield inner
            return
        builder: Any = self.b
        with builder.loop(symbol, ir.Constant(I64, extent)) as number:
            self.values[symbol] = number
            with self._loops(rest, table.with_var(name, symbol, Const(extent))) as inner:
                yield inner

    def _alloc(self, stmt: Alloc, table: SymbolTable) -> None:
        buffer = stmt.buffer
        builder: Any = self.b
        if buffer.scope is not Scope.REGISTER:
            super()._alloc(stmt, table)
            return
        place = self.registers(buffer, stmt.body)
        count, kind = prod(place.operand.shape or (1,)), place.operand.element
        self.values[place.symbol] = builder.array(place.symbol, "local", count, kind)
        self.stmt(stmt.body, table.with_buffer(buffer.name, place))

    def _for(self, stmt: For, table: SymbolTable) -> None:
        extent, symbol = self._index(stmt.extent, table), self.fresh("i")
        builder: Any = self.b
        inner = table.with_var(stmt.var, symbol, stmt.extent)
        if isinstance(extent, ir.Constant) and extent.constant == 1:
            self.values[symbol] = ir.Constant(I64, 0)
            self.stmt(stmt.body, inner)
            return
        with builder.loop(symbol, extent) as number:
            self.values[symbol] = number
            self.stmt(stmt.body, inner)

    def _branch(
        self, cond: Any, then: Callable[[], None], other: Callable[[], None] | None = None
    ) -> None:
        builder: Any = self.b
        builder.branch(cond, then, other)
