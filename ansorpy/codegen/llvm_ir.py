"""Print a tiled program as LLVM text: the search compiles it without numba's front end."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir

from ansorpy.codegen.index_hoisting import HoistedSums
from ansorpy.codegen.phase_utilities import (
    phase_infos,
    split_tasks,
    stored_names,
    streams,
    uses_matrices,
)
from ansorpy.codegen.simd.expansion import Expansion
from ansorpy.codegen.simd.kinds import I64, POINTER, STORED
from ansorpy.codegen.simd.matrices import configure, release
from ansorpy.codegen.simd.memory import fetch, reserve, settle
from ansorpy.codegen.simd.values import Index
from ansorpy.codegen.structured_tile import expression, structured
from ansorpy.codegen.symbols import SymbolTable, memory, register_tile
from ansorpy.codegen.text_builder import TextBuilder
from ansorpy.codegen.tile_printer import statement_text
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr
from ansorpy.host_jit import initialize
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    If,
    Phase,
    Prefetch,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
    Tile,
)
from ansorpy.target import Target

Places = tuple[tuple[int, Buffer], ...]  # buffers, by their numbers among the addresses

EXCERPT: Final = 2000  # characters kept of a message of LLVM or numba
SCRATCH_LIMIT_BYTES: Final = 1 << 20  # scratch of one task, which lies on its stack
PLAIN: Final = "nounwind"
WIDE: Final = 'nounwind "prefer-vector-width"="512"'  # LLVM prefers vectors of 256 bits


def phase_text(phase: Phase, places: Places, target: Target) -> str:
    """Return the LLVM IR of one phase alone: `void phase(int64_t *buffers, int64_t task)`.

    Raises:
        BuildError: the phase has no code here.
    """
    declarations = ir.Module()
    declarations.triple = llvm.get_process_triple()
    text = _function(declarations, "phase", phase, places, target)
    return f"{declarations}\n{text}"


def module_text(program: Program, target: Target) -> str:
    """Return the LLVM IR of a program as text.

    It defines, for every phase, `void phase0(int64_t *buffers, int64_t task)`.
    """
    declarations = ir.Module()
    declarations.triple = llvm.get_process_triple()
    infos = phase_infos(program)
    places = tuple(enumerate(program.buffers))
    parts = [
        _function(declarations, info.name, phase, places, target)
        for phase, info in zip(program.phases, infos, strict=True)
    ]
    return "\n".join([str(declarations), *parts])


def _function(declarations: Any, name: str, phase: Phase, places: Places, target: Target) -> str:
    """Return the function of a phase; the functions that it calls are added to the declarations."""
    features = None if is_local(target) else frozenset(target.features)
    builder = TextBuilder(declarations, name, [POINTER, I64], features)
    try:
        _PhaseWriter(places, builder).phase(phase)
    except ValueError as error:
        raise BuildError(f"{phase.name}: {error}") from error
    return builder.text(WIDE if target.vector_bits >= 512 else PLAIN)


@dataclass
class _PhaseWriter:
    """Writes the loops, branches and allocations of one phase; `Expansion` writes its tiles."""

    places: Places
    b: TextBuilder
    values: dict[str, Any] = field(default_factory=dict)  # by symbol, as Expansion takes them
    counter: int = 0
    known: tuple[Any, dict[Any, Any]] = (None, {})  # a basic block, and its offsets and addresses
    sums: HoistedSums = field(default_factory=HoistedSums)

    def phase(self, phase: Phase) -> None:
        """Write the whole function."""
        buffers, task = self.b.args
        places = {}
        for k, buffer in self.places:
            place = memory(buffer, f"b{k}")
            places[buffer.name] = place
            slot = self.b.gep(buffers, [ir.Constant(I64, k)], source_etype=POINTER)
            self.values[place.symbol] = self.b.load(slot, typ=POINTER)
        table = SymbolTable(places)
        tasks = split_tasks(phase)
        for name, extent in reversed(tasks.loops):
            symbol = self._fresh("i")
            table = table.with_var(name, symbol, Const(extent))
            self.values[symbol] = self.b.urem(task, ir.Constant(I64, extent))
            self.sums.enter(symbol, self.b.block)
            task = self.b.udiv(task, ir.Constant(I64, extent))
        matrices = uses_matrices(phase)
        if matrices:
            configure(self.b)
        self._stmt(tasks.body, table)
        if matrices:
            release(self.b)
        if streams(phase):
            settle(self.b)
        self.b.ret_void()

    def _fresh(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter - 1}"

    def _stmt(self, stmt: Stmt, table: SymbolTable) -> None:
        match stmt:
            case Seq(stmts=stmts):
                for part in stmts:
                    self._stmt(part, table)
            case Tile():
                self._tile(stmt, table)
            case Prefetch():
                self._prefetch(stmt, table)
            case For():
                self._for(stmt, table)
            case If():
                self._if(stmt, table)
            case Alloc():
                self._alloc(stmt, table)
            case Store():
                raise BuildError("a scalar Store where a Tile is due: the program is not tiled")

    def _tile(self, stmt: Tile, table: SymbolTable) -> None:
        tile = structured(stmt, table)
        given = {name: self.values[name] for name in tile.names}
        try:
            after = Expansion(tile, self.b, given, self._shared(), self.sums).run()
        except ValueError as error:
            raise BuildError(f"{error}: {statement_text(tile)}") from error
        for name in tile.results:
            self.values[name] = after[name]

    def _prefetch(self, stmt: Prefetch, table: SymbolTable) -> None:
        place, offset = table.buffer(stmt.buffer), self._index(stmt.offset, table)
        base, kind = self.values[place.symbol], STORED[place.dtype]
        fetch(self.b, self.b.gep(base, [offset], source_etype=kind))

    def _shared(self) -> dict[Any, Any]:
        """Return the offsets and addresses that the present basic block has computed."""
        if self.known[0] is not self.b.block:
            self.known = self.b.block, {}
        return self.known[1]

    def _alloc(self, stmt: Alloc, table: SymbolTable) -> None:
        buffer = stmt.buffer
        if buffer.scope is Scope.REGISTER:
            place = register_tile(buffer, self._fresh("r"), stmt.body)
            operand = place.operand
            count = prod(operand.shape or ())
            self.values[place.symbol] = [ir.Constant(operand.element, ir.Undefined)] * count
        else:
            place = memory(buffer, self._fresh("s"))
            self.values[place.symbol] = reserve(self.b, scratch_bytes(place.size, place.dtype))
        self._stmt(stmt.body, table.with_buffer(buffer.name, place))
        del self.values[place.symbol]

    def _for(self, stmt: For, table: SymbolTable) -> None:
        extent = self._index(stmt.extent, table)
        known = isinstance(extent, ir.Constant)
        if known and extent.constant < 1:
            return
        symbol = self._fresh("i")
        inner = table.with_var(stmt.var, symbol, stmt.extent)
        if known and extent.constant == 1:
            self.values[symbol] = ir.Constant(I64, 0)
            self._stmt(stmt.body, inner)
            return
        if known:
            self._loop(symbol, extent, lambda: self._stmt(stmt.body, inner), stmt.body, table)
            return
        some = self.b.icmp_signed(">", extent, ir.Constant(I64, 0))
        self._branch(
            some,
            lambda: self._loop(
                symbol, extent, lambda: self._stmt(stmt.body, inner), stmt.body, table
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
                self._stmt(chosen, table)
            return
        rest = None if other is None else lambda: self._stmt(other, table)
        self._branch(cond, lambda: self._stmt(stmt.then, table), rest)

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
        expansion = Expansion(tile, self.b, given, self._shared(), self.sums)
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


def is_local(target: Target) -> bool:
    """Return True if a target names no processor, which means this machine."""
    return not target.cpu and not target.features


def target_machine(target: Target) -> Any:
    """Return LLVM's back end for a target; an empty `cpu` means this machine."""
    initialize()
    local = is_local(target)
    features = (
        llvm.get_host_cpu_features().flatten()
        if local
        else ",".join(f"+{name}" for name in target.features)
    )
    return llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(
        cpu=llvm.get_host_cpu_name() if local else target.cpu,
        features=features, opt=3, reloc="pic", codemodel="default",
    )  # fmt: skip


def object_bytes(text: str, target: Target) -> bytes:
    """Return the object file of LLVM IR text.

    No mid-level passes: the code is already vectors. No strength reduction either: offsets are
    made outside of the loops that do not change them (ADR-0078).
    """
    module = parse(text)
    machine = _kept_machine(target)
    module.data_layout = str(machine.target_data)
    llvm.set_option("ansorpy", "-disable-lsr=true")
    try:
        return bytes(machine.emit_object(module))
    finally:
        llvm.set_option(
            "ansorpy", "-disable-lsr=false"
        )  # LLVM's options belong to the whole process


@lru_cache(maxsize=4)
def _kept_machine(target: Target) -> Any:
    """Return a back end that no engine owns: an engine would delete it."""
    return target_machine(target)


def public_object(text: str, prefix: str, target: Target) -> bytes:
    """Return the object file of LLVM IR text; only functions and data of a prefix are public.

    Raises:
        BuildError: LLVM refuses the text.
    """
    module = parse(text)
    for part in (*module.functions, *module.global_variables):
        if not part.is_declaration and not part.name.startswith((prefix, "llvm.")):
            part.linkage = "internal"
    machine = target_machine(target)
    module.data_layout = str(machine.target_data)
    return bytes(machine.emit_object(module))


def parse(text: str) -> Any:
    """Return LLVM's module for a text; BuildError with LLVM's message if it is invalid."""
    initialize()
    try:
        module = llvm.parse_assembly(text)
        module.verify()
    except RuntimeError as error:
        raise BuildError(f"LLVM: {str(error)[:EXCERPT]}") from error
    return module
