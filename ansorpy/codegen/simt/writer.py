"""Print a tiled program as kernels for a GPU: LLVM text for the NVPTX target, one per phase.

A task of a phase is a block, and the lane of a tile a thread of it; a task of one warp shares its
block with others. Scratch of a task is shared memory. A register tile with lanes lies in the
registers of their threads, a tile without lanes in the registers of all threads, which compute it
all alike. A phase is a launch.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from llvmlite import ir

from ansorpy.codegen.phase_utilities import phase_infos, stored_names
from ansorpy.codegen.phase_writer import PhaseWriter
from ansorpy.codegen.simd.kinds import I32, I64, STORED, Operand, declared
from ansorpy.codegen.simd.tile import SimdTile
from ansorpy.codegen.simt.barriers import waits
from ansorpy.codegen.simt.collectives import WARP, ThreadBlock
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.codegen.simt.matrices import DIGITS, Fragments, MatrixTile
from ansorpy.codegen.simt.memory import ALIGNMENT, GLOBAL, SharedMemory
from ansorpy.codegen.simt.ptx import TRIPLE
from ansorpy.codegen.simt.thread_digits import Digit, digits_of, lanes_held, lanes_of, tiles_of
from ansorpy.codegen.simt.thread_tile import ThreadTile
from ansorpy.codegen.structured_tile import structured
from ansorpy.codegen.symbols import SymbolBuffer, SymbolTable, memory, register_tile
from ansorpy.codegen.text_builder import TextBuilder, type_text
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Const, Expr, Read, Var, rebuild, transform, variables
from ansorpy.loopir.nodes import Buffer, Phase, Prefetch, Program, Stmt, Tile
from ansorpy.loopir.passes.warp_matrices import on_matrices, room_bytes
from ansorpy.loopir.rewrite import walk_stmt
from ansorpy.loopir.scratch import scratch_of
from ansorpy.target import GpuTarget, Target, expected

TASKS: Final = 4  # tasks of one warp in a block, which then has a warp for each scheduler
SPECIAL: Final = "llvm.nvvm.read.ptx.sreg.{}.x"  # number of the thread, or of the block


@dataclass(frozen=True, slots=True)
class BlockShape:
    """The threads of a task, the tasks of a launch, and the tasks of one block."""

    task_threads: int
    tasks: int
    tasks_per_block: int
    digits: tuple[Digit, ...] = ()

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.task_threads * self.tasks_per_block

    @property
    def blocks(self) -> int:
        """The blocks of a launch; the last one may have fewer tasks."""
        return -(-self.tasks // self.tasks_per_block)


def simt_code(program: Program, target: Target) -> SimtCode:
    """Return the kernels of a bound program.

    Raises:
        BuildError: a part of the program has no meaning on a GPU yet, or exceeds a block.
    """
    gpu = expected(target, GpuTarget)
    texts, launches, room = [], [], room_bytes(program, gpu)
    for info, phase in zip(phase_infos(program), program.phases, strict=True):
        block = block_shape(phase, info.tasks, gpu)
        shared = SharedMemory(phase.name, room)
        texts.append(_module_text(info.name, phase, program.buffers, block, shared))
        launches.append(
            Launch(info.name, block.blocks, block.threads, shared.size_bytes, info.ahead)
        )
    return SimtCode(tuple(texts), tuple(launches), program.arguments)


def block_shape(phase: Phase, tasks: int, target: GpuTarget) -> BlockShape:
    """Return the threads and tasks of a block.

    Raises:
        BuildError: a block has fewer threads than a tile has lanes.
    """
    tiles = tuple(tiles_of(phase))
    digits = dict.fromkeys(digit for tile in tiles for digit in digits_of(tile))
    if any(map(on_matrices, tiles)):
        digits |= dict.fromkeys(DIGITS)
    several = tasks_of(phase, tasks, target)
    return BlockShape(threads_of(phase, target), tasks, several, tuple(digits))


def threads_of(phase: Phase, target: GpuTarget) -> int:
    """Return the threads of a block: whole warps, as many as the widest tile has lanes.

    Raises:
        BuildError: a block has fewer threads.
    """
    widest = max((lanes_of(tile) for tile in tiles_of(phase)), default=1)
    if widest > target.max_threads:
        raise BuildError(
            f"cannot write {phase.name} for CUDA because a tile has {widest} lanes;"
            f" expected at most {target.max_threads}, the threads of a block"
        )
    return -(-widest // WARP) * WARP


def tasks_of(phase: Phase, tasks: int, target: GpuTarget) -> int:
    """Return the tasks of a block: several if each has one warp, so that blocks fill an SM."""
    if threads_of(phase, target) > WARP:
        return 1
    each = sum(buffer.size_bytes + ALIGNMENT for buffer in scratch_of(phase.body))
    return max(1, min(TASKS, tasks, target.shared_bytes // max(1, each)))


def _module_text(
    name: str, phase: Phase, buffers: tuple[Buffer, ...], block: BlockShape, shared: SharedMemory
) -> str:
    declarations = ir.Module()
    declarations.triple = TRIPLE
    builder = TextBuilder(declarations, name, [GLOBAL] * len(buffers), frozenset())
    written = stored_names(phase.body)
    # No `noalias` of a buffer that is written: LLVM would move its accesses across barriers, which
    # it takes for calls that cannot know the buffer.
    listed = ", ".join(
        f"{type_text(arg.type)}{'' if buffer.name in written else ' noalias readonly'} {arg.name}"
        for arg, buffer in zip(builder.args, buffers, strict=True)
    )
    builder.head = f"define ptx_kernel void @{name}({listed})"
    try:
        places = tuple(enumerate(buffers))
        writer = KernelWriter(places, builder, shape=block, shared_memory=shared)
        writer.phase(phase)
    except ValueError as error:
        raise BuildError(f"{phase.name}: {error}") from error
    # Without a least number of blocks per SM, ptxas stops at 64 registers and spills.
    text = builder.text(f'nounwind "nvvm.maxntid"="{block.threads}" "nvvm.minctasm"="1"')
    return "\n".join([str(declarations), *shared.lines, text, ""])


@dataclass
class KernelWriter(PhaseWriter):
    """Writes the kernel of one phase: `void phase(buffers...)`.

    Args:
        shape: of a block.
        shared_memory: of a block.
        waits: `id` of the statements before which the threads of a task wait.
    """

    shape: BlockShape = field(kw_only=True)
    shared_memory: SharedMemory = field(kw_only=True)
    waits: frozenset[int] = frozenset()
    depth: int = 0  # loops and branches around the present statement
    held: set[str] = field(default_factory=set)  # symbols of tiles with registers per thread
    tile_type: type[ThreadTile] = ThreadTile
    block_type: type[ThreadBlock] = ThreadBlock

    def begin(self) -> tuple[dict[str, SymbolBuffer], Any]:
        """Return the buffers by name, their addresses among the values, and the block's number."""
        places = {}
        for (k, buffer), address in zip(self.places, self.b.args, strict=True):
            place = places[buffer.name] = memory(buffer, f"b{k}")
            self.values[place.symbol] = address
        thread, task = (self._special(name) for name in ("tid", "ctaid"))
        several = self.shape.tasks_per_block
        if several > 1:
            self.warp = self.b.lshr(thread, ir.Constant(I32, WARP.bit_length() - 1))
            thread = self.b.and_(thread, ir.Constant(I32, WARP - 1))
            task = self.b.add(self.b.mul(task, ir.Constant(I32, several)), self.warp)
        self.number = task
        for digit in self.shape.digits:
            self.values[digit.symbol] = self.b.zext(digit.of(self.b, thread), I64)
            self.sums.enter(digit.symbol, self.b.block)
        self.block = self.block_type(
            self.b, thread, self.shape.task_threads, self.shared_memory, several > 1
        )
        return places, task

    def _special(self, name: str) -> Any:
        function = declared(self.b.module, SPECIAL.format(name), ir.FunctionType(I32, []))
        return self.b.call(function, [])

    def task(self, phase: Phase, body: Stmt, table: SymbolTable) -> None:
        """Write the body of a task; the last block may have warps without one."""
        del phase
        self.block.copying = any(
            isinstance(part, Tile) and part.asynchronous for part in walk_stmt(body)
        )
        self.waits = waits(body, self.shape.task_threads, table.ranges)
        count = self.shape.tasks
        if count % self.shape.tasks_per_block:
            some = self.b.icmp_unsigned("<", self.number, ir.Constant(I32, count))
            with self.b.if_then(some):
                self.stmt(body, table)
        else:
            self.stmt(body, table)

    def stmt(self, stmt: Stmt, table: SymbolTable) -> None:
        """Write a statement, and the barrier before it."""
        if id(stmt) in self.waits:
            self.block.barrier()
        super().stmt(stmt, table)

    def _loop(
        self, symbol: str, extent: Any, body: Callable[[], None], stmt: Stmt, table: SymbolTable
    ) -> None:
        self.depth += 1
        super()._loop(symbol, extent, body, stmt, table)
        self.depth -= 1
        if not self.depth:
            self.sums.begin_again(self.b.block)

    def _branch(
        self, cond: Any, then: Callable[[], None], other: Callable[[], None] | None = None
    ) -> None:
        self.depth += 1
        super()._branch(cond, then, other)
        self.depth -= 1

    def prefetch(self, stmt: Prefetch, table: SymbolTable) -> None:
        """Write nothing: other blocks run while loads wait."""

    def registers(self, buffer: Buffer, body: Stmt) -> SymbolBuffer:
        """Return the entry of a register tile; its lanes lie in the threads."""
        lanes = lanes_held(buffer.name, body)
        if not lanes:
            return register_tile(buffer, self.fresh("r"), body)
        symbol, extents = self.fresh("r"), buffer.extents[:-lanes]
        self.held.add(symbol)
        return SymbolBuffer(
            symbol, buffer.dtype, extents, Operand(buffer.dtype, 0, extents or (1,))
        )

    def scratch(self, place: SymbolBuffer) -> Any:
        """Return the address of new shared memory."""
        several = self.shape.tasks_per_block
        first = self.shared_memory.reserve(place.size * several, place.dtype)
        if several == 1:
            return first
        offset = self.b.mul(self.warp, ir.Constant(I32, place.size))
        return self.b.gep(first, [offset], source_etype=STORED[place.dtype])

    def tile(self, stmt: Tile, table: SymbolTable) -> None:
        """Write a tile: each thread its lane."""
        _require_plain(stmt)
        inner = table
        for (name, extent), digit in zip(stmt.lanes, digits_of(stmt), strict=True):
            inner = inner.with_var(name, digit.symbol, Const(extent))
        kept = frozenset[str]().union(*map(variables, stmt.store.index))
        kept_lanes = [name in kept for name, _ in stmt.lanes]
        if any(kept_lanes) and not all(kept_lanes):
            raise BuildError(
                f"cannot write a reduction over some lanes to {stmt.store.buffers[0]} for CUDA"
                " because all threads of a block exchange values; expected all lanes in the index,"
                " or none"
            )
        self.thread_tile(stmt, inner, across=not all(kept_lanes))

    def thread_tile(self, stmt: Tile, table: SymbolTable, across: bool) -> None:
        """Write a tile as one thread runs it; its lane variables are known in the table.

        Args:
            across: whether the tile is a reduction over the lanes.
        """
        held = {name for name, place in table.buffers.items() if place.symbol in self.held}
        tile = structured(of_thread(stmt, held), table)
        if on_matrices(stmt):
            self.matrix_tile(stmt, tile)
            return
        if across and not tile.combiner:
            raise BuildError(
                f"cannot write a store of all lanes to {stmt.store.buffers[0]} for CUDA because its"
                " threads would write one element; expected a reduction over the lanes"
            )
        given = {name: self.values[name] for name in tile.names}
        among, wide = lanes_of(stmt) if stmt.lanes else 0, stmt.access_width
        maker, shared, late = self.tile_type, self.shared(), stmt.asynchronous
        lanes = zip(stmt.lanes, digits_of(stmt), strict=True)
        places = {digit.symbol: extent for (_, extent), digit in lanes}
        found = maker(tile, given, shared, self.sums, self.block, among, across, wide, late, places)
        self.expand(tile, found)

    def matrix_tile(self, stmt: Tile, tile: SimdTile) -> None:
        """Write a tile on matrices.

        Args:
            tile: the statement as one thread runs it.
        """
        assert stmt.matrix is not None
        symbols = [*tile.names, *(digit.symbol for digit in DIGITS)]
        given = {name: self.values[name] for name in symbols}
        place = [name for name, _ in stmt.dims].index(stmt.matrix.column)
        rows, columns = digits_of(stmt)[-2:]
        found = Fragments(rows.symbol, columns.symbol, tile.spans[place][0])
        threads = lanes_of(stmt)
        self.expand(
            tile, MatrixTile(tile, given, self.shared(), self.sums, self.block, threads, found)
        )


def of_thread(tile: Tile, held: set[str]) -> Tile:
    """Return a tile as one thread runs it: its lane variables are bound outside.

    Args:
        held: register tiles whose last indices are the lanes; a thread has its own registers only.

    Raises:
        BuildError: a thread would need the register of another one.
    """
    lanes = tuple(Var(name) for name, _ in tile.lanes)

    def own(name: str, index: tuple[Expr, ...]) -> tuple[Expr, ...]:
        if name not in held:
            return index
        mine = len(index) - len(lanes)
        if not lanes or index[mine:] != lanes:
            last = ", ".join(map(str, index[max(mine, 0) :] if lanes else index[-1:])) or "0"
            raise BuildError(
                f"cannot write a tile that reads {name} at {last} for CUDA"
                " because the register belongs to another thread; expected the lane of the tile"
            )
        return index[:mine]

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and expr.tensor in held:
            return rebuild(expr, own(expr.tensor, expr.indices))
        return None

    store = tile.store
    index = own(store.buffers[0], store.index)
    values = tuple(transform(value, change) for value in store.values)
    return replace(tile, lanes=(), access_width=1, store=replace(store, index=index, values=values))


def _require_plain(tile: Tile) -> None:
    if on_matrices(tile):
        return
    found = {"a dot product": tile.dot is not None, "a matrix instruction": tile.matrix is not None}
    name = next((name for name, there in found.items() if there), None)
    if name is not None:
        raise BuildError(
            f"cannot write {name} for CUDA because a tile becomes scalar code of one thread;"
            " expected sums of products"
        )
