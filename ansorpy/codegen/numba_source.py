"""A tiled program as a Python file that needs numba and numpy only: the form users download."""

from dataclasses import dataclass, field
from typing import Final

from ansorpy.codegen.helpers import simd_block
from ansorpy.codegen.kernel import Kernel
from ansorpy.codegen.llvm_ir import scratch_bytes
from ansorpy.codegen.phase_utilities import (
    MATRICES_READY,
    phase_infos,
    split_tasks,
    streams,
    uses_matrices,
)
from ansorpy.codegen.runtime.numba_text import launchers_text
from ansorpy.codegen.simd.text import Tile as Operation
from ansorpy.codegen.tile_text import (
    Place,
    Scoped,
    TileText,
    index_text,
    memory,
    register_tile,
    tile_text,
)
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import (
    Alloc,
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

WIDTH: Final = 100
OUTLINE_LINES: Final = 60
INDENT: Final = "    "


def emit(program: Program, target: Target, threads: int = 1) -> Kernel:
    """Return a tiled program as readable Python; the same program gives the same bytes.

    The module defines `phase0(b0, b1, ..., task)` for every phase (addresses and a task number),
    `launch` and `ahead` (arrays, all tasks), `empty()` (aligned arrays for every buffer) and
    `kernel(*buffers)`. Names of the program do not reach it.

    Raises:
        BuildError: the program is not tiled, or a task's scratch is too large.
    """
    writer, infos = _Writer(program), phase_infos(program)
    bodies = [writer.phase(k, phase) for k, phase in enumerate(program.phases)]
    parts = [
        _header(program, target, threads, writer.outline),
        simd_block(),
        writer.operations(),
        *bodies,
        launchers_text(infos, program.buffers, threads),
    ]
    source = "\n\n\n".join(part.strip("\n") for part in parts) + "\n"
    return Kernel(source, infos, program.buffers, threads, program.meaning)


@dataclass
class _Writer:
    """Prints phases; collects their tile operations, each once."""

    program: Program
    names: dict[TileText, str] = field(default_factory=dict)
    tiles: dict[str, str] = field(default_factory=dict)  # kind of register tile -> its maker
    scratches: dict[int, str] = field(default_factory=dict)  # bytes -> its maker
    counters: dict[str, int] = field(default_factory=dict)
    outline: list[str] = field(default_factory=list)  # the schedule: loops and scratch, nested
    matrices: bool = False  # whether a phase has instructions on matrices

    def phase(self, number: int, phase: Phase) -> str:
        """Return the function of one phase."""
        self.counters = {}
        places = {b.name: memory(b, f"b{k}") for k, b in enumerate(self.program.buffers)}
        scope, lines = Scoped(places), []
        tasks = split_tasks(phase)
        self.outline.append(f"phase{number}{' (ahead)' * phase.ahead}: {tasks.count} tasks")
        left = "task"
        for name, extent in reversed(tasks.loops):
            symbol = self._fresh("i")
            scope = scope.with_var(name, symbol, Const(extent))
            outermost = name == tasks.loops[0][0]
            lines.append(f"{INDENT}{symbol} = {left if outermost else f'{left} % {extent}'}")
            left = f"{left} // {extent}" if left == "task" else f"({left}) // {extent}"
        body = self._stmt(tasks.body, scope, 1) or [f"{INDENT}pass"]
        if uses_matrices(phase):
            self.matrices = True
            body = [f"{INDENT}matrices_on()", *body, f"{INDENT}matrices_off()"]
        if streams(phase):
            body = [*body, f"{INDENT}settled()"]
        lines += body
        arguments = ", ".join([*(place.symbol for place in places.values()), "task"])
        head = f'@njit(error_model="numpy", nogil=True)\ndef phase{number}({arguments}):'
        doc = f'{INDENT}"""Do one of {tasks.count} independent tasks; b0, b1 ... are addresses."""'
        return "\n".join([head, doc, *lines])

    def operations(self) -> str:
        """Return the definitions of all tile operations."""
        lines = [f"{name} = registers({kind!r})" for kind, name in self.tiles.items()]
        if self.matrices:
            lines += [f"matrices_on = {MATRICES_READY}", "matrices_off = matrices(False)"]
        lines += [f"{name} = scratch({size})" for size, name in self.scratches.items()]
        for text, name in self.names.items():
            arguments = [repr(text.text)]
            if text.dims:
                arguments.append(f"dims={text.dims!r}")
            if text.lane:
                arguments.append(f"lane={text.lane!r}")
            if text.mask:
                arguments.append(f"mask={text.mask!r}")
            if text.dot:
                arguments.append(f"dot={text.dot!r}")
            if text.matrix:
                arguments.append(f"matrix={text.matrix!r}")
            if text.apart:
                arguments.append("apart=True")
            if text.streamed:
                arguments.append("streamed=True")
            arguments.append(f"types={dict(text.kinds)!r}")
            lines.append(_call(name, arguments))
        rule = f"# {'-' * 30} this kernel"
        imports = "import numpy as np\nfrom numba import njit, prange\n"
        return "\n".join([rule, imports, *(line.replace("'", '"') for line in lines)])

    def _fresh(self, letter: str) -> str:
        number = self.counters.get(letter, 0)
        self.counters[letter] = number + 1
        return f"{letter}{number}"

    def _stmt(self, stmt: Stmt, scope: Scoped, depth: int) -> list[str]:
        pad = INDENT * depth
        match stmt:
            case Seq(stmts=stmts):
                return [line for part in stmts for line in self._stmt(part, scope, depth)]
            case Tile():
                return [pad + self._tile(stmt, scope)]
            case Prefetch(buffer=name, offset=offset):
                place = scope.place(name)
                size, at = SIZE_BYTES[place.dtype], index_text(offset, scope)
                return [f"{pad}prefetch({place.symbol} + ({at}) * {size})"]
            case For(var=var, extent=extent, body=body):
                symbol = self._fresh("i")
                self.outline.append(f"{'  ' * depth}{symbol} < {index_text(extent, scope)}")
                inner = self._stmt(body, scope.with_var(var, symbol, extent), depth + 1)
                head = f"{pad}for {symbol} in range({index_text(extent, scope)}):"
                return [head, *(inner or [f"{pad}{INDENT}pass"])]
            case If(cond=cond, then=then, other=other):
                lines = [f"{pad}if {index_text(cond, scope)}:"]
                lines += self._stmt(then, scope, depth + 1) or [f"{pad}{INDENT}pass"]
                if other is not None:
                    lines.append(f"{pad}else:")
                    lines += self._stmt(other, scope, depth + 1) or [f"{pad}{INDENT}pass"]
                return lines
            case Alloc():
                return self._alloc(stmt, scope, depth)
            case Store():
                raise BuildError("a scalar Store where a Tile is due: the program is not tiled")

    def _alloc(self, stmt: Alloc, scope: Scoped, depth: int) -> list[str]:
        buffer = stmt.buffer
        if buffer.scope is Scope.REGISTER:
            place = register_tile(buffer, self._fresh("r"), stmt.body)
            maker = self.tiles.setdefault(place.kind, f"registers{len(self.tiles)}")
        else:
            place = memory(buffer, self._fresh("s"))
            maker = self._scratch(place)
        self.outline.append(f"{'  ' * depth}{place.symbol}: {place.scope_text}")
        line = f"{INDENT * depth}{place.symbol} = {maker}()"
        return [line, *self._stmt(stmt.body, scope.with_buffer(buffer.name, place), depth)]

    def _scratch(self, place: Place) -> str:
        size = scratch_bytes(place.size, place.dtype)
        return self.scratches.setdefault(size, f"scratch{len(self.scratches)}")

    def _tile(self, stmt: Tile, scope: Scoped) -> str:
        text = tile_text(stmt, scope)
        name = self.names.setdefault(text, f"tile{len(self.names)}")
        kinds = dict(text.kinds)
        tile = Operation(text.text, text.dims, text.lane, text.mask, kinds, text.dot, text.matrix)
        call = f"{name}({', '.join(tile.names)})"
        return f"{', '.join(tile.results)} = {call}" if tile.results else call


def _header(program: Program, target: Target, threads: int, outline: list[str]) -> str:
    made = f"for {threads} thread(s) and {target.vector_bits}-bit vectors"
    lines = [f"# A kernel made by ansorpy {made}; it needs numba and numpy.", "#"]
    lines += [
        f"# b{k}: {buffer.scope.value} {buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
        for k, buffer in enumerate(program.buffers)
    ]
    left = outline[OUTLINE_LINES:]
    lines += ["#", *(f"# {line}" for line in outline[:OUTLINE_LINES])]
    lines += [f"# ... and {len(left)} more loops and scratch buffers"] if left else []
    if threads > 1:
        lines += ["", "import os", "", 'os.environ.setdefault("NUMBA_THREADING_LAYER", "omp")']
    return "\n".join(lines)


def _call(name: str, arguments: list[str]) -> str:
    line = f"{name} = tile({', '.join(arguments)})"
    if len(line) <= WIDTH:
        return line
    return "\n".join([f"{name} = tile(", *(f"{INDENT}{part}," for part in arguments), ")"])
