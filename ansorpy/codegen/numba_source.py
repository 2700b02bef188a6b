"""A tiled program as Python for numba: the kernel that users download, beside its `simd.py`."""

import re
from dataclasses import dataclass, field
from typing import Any, Final

from ansorpy.codegen.kernel import Kernel, PhaseInfo
from ansorpy.codegen.phase_utilities import (
    MATRICES_READY,
    phase_infos,
    streams,
    uses_matrices,
)
from ansorpy.codegen.phase_writer import scratch_bytes
from ansorpy.codegen.runtime.numba_text import launchers_text
from ansorpy.codegen.simd_file import FILE, simd_version
from ansorpy.codegen.structured_tile import expression, structured
from ansorpy.codegen.symbols import SymbolBuffer, SymbolTable, memory, register_tile
from ansorpy.codegen.tile_printer import INDENT, definition, expression_text
from ansorpy.errors import BuildError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Const, Expr
from ansorpy.loopir.nodes import (
    SIZES,
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
from ansorpy.loopir.tasks import split_tasks, task_count
from ansorpy.target import Target

HELPERS: Final = ("matrices", "prefetch", "registers", "scratch", "settled", "tile")
OUTLINE_LINES: Final = 60  # loops and buffers that the header of a kernel lists


_BESIDE: Final = f'''import numpy as np
from numba import njit, prange


def beside(name):
    """Return the module of a file in this folder; equal files of several kernels are one."""
    path = Path(__file__).with_name(name)
    unique = f"{{path.stem}}_{{hashlib.sha256(path.read_bytes()).hexdigest()[:16]}}"
    if unique not in sys.modules:
        spec = importlib.util.spec_from_file_location(unique, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules.setdefault(unique, module)
    return sys.modules[unique]


simd = beside("{FILE}")'''


def emit(program: Program, target: Target, threads: int = 1) -> Kernel:
    """Return a tiled program as readable Python; the same program gives the same bytes.

    The module defines `phase0(b0, b1, ..., task)` for every phase (addresses and a task number),
    and `launch` and `ahead` (arrays, all tasks). It loads `simd.py` (`simd_file.simd_text`) from
    its own folder. Names of the program do not reach it.

    Raises:
        BuildError: the program is not tiled, or a task's scratch is too large.
    """
    infos = phase_infos(program)
    writer = _Writer(program, infos)
    bodies = [writer.phase(k, phase) for k, phase in enumerate(program.phases)]
    operations = writer.operations()
    parts = [
        _header(program, target, threads, writer.outline),
        _imports(threads, operations + "".join(bodies)),
        operations,
        *bodies,
        launchers_text(infos, len(program.buffers), threads, len(program.dims)),
    ]
    source = "\n\n\n".join(part.strip("\n") for part in parts if part) + "\n"
    return Kernel(source, infos, program.arguments, threads, program.meaning)


@dataclass
class _Writer:
    """Prints phases; collects their tile operations, each once."""

    program: Program
    infos: tuple[PhaseInfo, ...]
    names: dict[Any, str] = field(default_factory=dict)  # by the structure of a tile
    definitions: list[str] = field(default_factory=list)
    tiles: dict[str, str] = field(
        default_factory=dict
    )  # names of the makers by kind of register tile
    scratches: dict[int, str] = field(default_factory=dict)  # names of the makers by size in bytes
    counters: dict[str, int] = field(default_factory=dict)
    outline: list[str] = field(default_factory=list)  # the schedule: loops and scratch, nested
    matrices: bool = False  # whether a phase has instructions on matrices

    def phase(self, number: int, phase: Phase) -> str:
        """Return the function of one phase."""
        self.counters = {}
        places = {b.name: memory(b, f"b{k}") for k, b in enumerate(self.program.buffers)}
        table, lines = self._sized(SymbolTable(places))
        tasks = split_tasks(phase)
        info = self.infos[number]
        several = f"at most {info.tasks}" if info.sized else str(info.tasks)
        self.outline.append(f"phase{number}{' (ahead)' * phase.ahead}: {several} tasks")
        left = "task"
        for name, extent in reversed(tasks.loops):
            symbol, count = self._fresh("i"), index_text(extent, table)
            count = count if isinstance(extent, Const) else f"({count})"
            table = table.with_var(name, symbol, extent)
            outermost = name == tasks.loops[0][0]
            lines.append(f"{INDENT}{symbol} = {left if outermost else f'{left} % {count}'}")
            left = f"{left} // {count}" if left == "task" else f"({left}) // {count}"
        body = self._stmt(tasks.body, table, 1) or [f"{INDENT}pass"]
        if uses_matrices(phase):
            self.matrices = True
            body = [f"{INDENT}matrices_on()", *body, f"{INDENT}matrices_off()"]
        if streams(phase):
            body = [*body, f"{INDENT}settled()"]
        lines += body
        addresses = [place.symbol for name, place in places.items() if name != SIZES]
        sizes = [f"n{k}" for k in range(len(self.program.dims))]
        arguments = ", ".join([*addresses, *sizes, "task"])
        head = f'@njit(error_model="numpy", nogil=True)\ndef phase{number}({arguments}):'
        doc = f'{INDENT}"""Do one of {several} independent tasks; b0, b1 ... are addresses."""'
        return "\n".join([head, doc, *lines, *self._counter(phase, info, sizes)])

    def _counter(self, phase: Phase, info: PhaseInfo, sizes: list[str]) -> list[str]:
        """Return the function of the number of tasks of a phase if sizes decide that."""
        if not info.sized:
            return []
        table, lines = self._sized(SymbolTable({}))
        head = (
            f'\n\n@njit(error_model="numpy", nogil=True)\ndef {info.counter}({", ".join(sizes)}):'
        )
        doc = f'{INDENT}"""Return the number of tasks of a call of these sizes."""'
        return [head, doc, *lines, f"{INDENT}return {index_text(task_count(phase), table)}"]

    def _sized(self, table: SymbolTable) -> tuple[SymbolTable, list[str]]:
        """Return a table with the steps of the sizes n0, n1 ..., and the lines that count them."""
        lines = list[str]()
        for k, dim in enumerate(self.program.dims):
            symbol = f"n{k}" if dim.step == 1 else f"m{k}"
            table = table.with_dim(dim, symbol)
            lines += [f"{INDENT}{symbol} = n{k} // {dim.step}"] if dim.step > 1 else []
        return table, lines

    def operations(self) -> str:
        """Return the definitions of all tile operations."""
        lines = [f"{name} = registers({kind!r})" for kind, name in self.tiles.items()]
        if self.matrices:
            lines += [f"matrices_on = {MATRICES_READY}", "matrices_off = matrices(False)"]
        lines += [f"{name} = scratch({size})" for size, name in self.scratches.items()]
        return "\n".join([*(line.replace("'", '"') for line in lines), *self.definitions])

    def _fresh(self, letter: str) -> str:
        number = self.counters.get(letter, 0)
        self.counters[letter] = number + 1
        return f"{letter}{number}"

    def _stmt(self, stmt: Stmt, table: SymbolTable, depth: int) -> list[str]:
        pad = INDENT * depth
        match stmt:
            case Seq(stmts=stmts):
                return [line for part in stmts for line in self._stmt(part, table, depth)]
            case Tile():
                return [pad + self._tile(stmt, table)]
            case Prefetch(buffer=name, offset=offset):
                place = table.buffer(name)
                size, at = SIZE_BYTES[place.dtype], index_text(offset, table)
                return [f"{pad}prefetch({place.symbol} + ({at}) * {size})"]
            case For(var=var, extent=extent, body=body):
                symbol = self._fresh("i")
                self.outline.append(f"{'  ' * depth}{symbol} < {index_text(extent, table)}")
                inner = self._stmt(body, table.with_var(var, symbol, extent), depth + 1)
                head = f"{pad}for {symbol} in range({index_text(extent, table)}):"
                return [head, *(inner or [f"{pad}{INDENT}pass"])]
            case If(cond=cond, then=then, other=other):
                lines = [f"{pad}if {index_text(cond, table)}:"]
                lines += self._stmt(then, table, depth + 1) or [f"{pad}{INDENT}pass"]
                if other is not None:
                    lines.append(f"{pad}else:")
                    lines += self._stmt(other, table, depth + 1) or [f"{pad}{INDENT}pass"]
                return lines
            case Alloc():
                return self._alloc(stmt, table, depth)
            case Store():
                raise BuildError("a scalar Store where a Tile is due: the program is not tiled")

    def _alloc(self, stmt: Alloc, table: SymbolTable, depth: int) -> list[str]:
        buffer = stmt.buffer
        if buffer.scope is Scope.REGISTER:
            place = register_tile(buffer, self._fresh("r"), stmt.body)
            maker = self.tiles.setdefault(str(place.operand), f"registers{len(self.tiles)}")
        else:
            place = memory(buffer, self._fresh("s"))
            maker = self._scratch(place)
        self.outline.append(f"{'  ' * depth}{place.symbol}: {place.described}")
        line = f"{INDENT * depth}{place.symbol} = {maker}()"
        return [line, *self._stmt(stmt.body, table.with_buffer(buffer.name, place), depth)]

    def _scratch(self, place: SymbolBuffer) -> str:
        size = scratch_bytes(place.size, place.dtype)
        return self.scratches.setdefault(size, f"scratch{len(self.scratches)}")

    def _tile(self, stmt: Tile, table: SymbolTable) -> str:
        tile = structured(stmt, table)
        if tile.key not in self.names:
            self.names[tile.key] = f"tile{len(self.names)}"
            self.definitions.append(definition(self.names[tile.key], tile))
        call = f"{self.names[tile.key]}({', '.join(tile.names)})"
        return f"{', '.join(tile.results)} = {call}" if tile.results else call


def index_text(expr: Expr, table: SymbolTable) -> str:
    """Return an expression over loop variables as Python."""
    return expression_text(expression(expr, table).values[0])


def _header(program: Program, target: Target, threads: int, outline: list[str]) -> str:
    bits = 8 * SIZE_BYTES["float32"] * target.lanes("float32")
    made = f"for {threads} thread(s) and {bits}-bit vectors"
    lines = [
        f"# A kernel made by ansorpy {made}; it needs numba, numpy and",
        f"# {FILE} beside it (SIMD compiler {simd_version()}).",
        "#",
    ]
    lines += [
        f"# b{k}: {buffer.scope.value} {buffer.dtype}[{', '.join(map(str, buffer.shape))}]"
        for k, buffer in enumerate(program.buffers)
    ]
    left = outline[OUTLINE_LINES:]
    lines += ["#", *(f"# {line}" for line in outline[:OUTLINE_LINES])]
    lines += [f"# ... and {len(left)} more loops and scratch buffers"] if left else []
    return "\n".join(lines)


def _imports(threads: int, text: str) -> str:
    """Return the imports of a kernel, with the names of `simd.py` that its text uses."""
    used = [name for name in HELPERS if re.search(rf"\b{name}\b", text)]
    names = ", ".join(["address", *used])
    found = ", ".join(f"simd.{name}" for name in ["address", *used])
    chosen = 'os.environ.setdefault("NUMBA_THREADING_LAYER", "omp")\n\n' if threads > 1 else ""
    modules = ["hashlib", "importlib.util", *(["os"] if threads > 1 else []), "sys"]
    lines = [*(f"import {name}" for name in modules), "from pathlib import Path"]
    return "\n".join(lines) + f"\n\n{chosen}{_BESIDE}\n\n{names} = {found}"
