"""A program as a shared library that needs neither Python nor numba; a measuring back end too.

The same LLVM IR as in the search, inside the functions of `dispatch`, linked; where nothing can
link, the object file.
"""

import ctypes
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm

from ansorpy.codegen.cpuid import required, supported_text
from ansorpy.codegen.dispatch import ALIGN_BYTES, WORKSPACE, Place, dispatch_text
from ansorpy.codegen.drive import native_call, table_of
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.codegen.jit_link import jit_link
from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.link import link
from ansorpy.codegen.llvm_ir import module_text, parse, target_machine
from ansorpy.codegen.loader import Loaded
from ansorpy.codegen.phase_utilities import phase_infos
from ansorpy.codegen.tile_text import extents
from ansorpy.errors import BuildError
from ansorpy.expr.expr import SIZE_BYTES, Const
from ansorpy.loopir.nodes import Buffer, Scope
from ansorpy.target import Target

BUILT: Final = Library
RELOCATABLE: Final = 1  # e_type of an ELF header
THREADS = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)


def build(
    export: Export, target: Target, clock: Callable[[], float] = time.perf_counter
) -> Library:
    """Compile and link.

    Raises:
        BuildError: the program has no code, or LLVM refuses it.
    """
    start = clock()
    places, workspace_bytes = _places(export)
    infos = phase_infos(export.program)
    text = module_text(export.program, target)
    features = required(target.features or _host_features(), text)
    code = _object(export, target, text, places, features)
    linked = link(code, export.linkers)
    timed = [info for info in infos if not info.ahead]
    return Library(
        code=code if isinstance(linked, str) else linked,
        object_sha256=sha256(code).hexdigest(),
        buffers=_arguments(export, workspace_bytes),
        phases=tuple(
            PhaseInfo(f"{export.prefix}_task{k}", info.tasks) for k, info in enumerate(timed)
        ),
        prefix=export.prefix,
        features=features,
        workspace_bytes=workspace_bytes,
        build_s=clock() - start,
        note=linked if isinstance(linked, str) else "",
    )


def _object(
    export: Export, target: Target, text: str, places: Sequence[Place], features: Sequence[str]
) -> bytes:
    infos = phase_infos(export.program)
    count = len(export.inputs) + len(export.outputs) + 1
    x86 = llvm.get_process_triple().startswith("x86_64")
    text = "\n".join([
        text,
        dispatch_text(export.prefix, places, count, infos),
        supported_text(f"{export.prefix}_supported", features, x86),
    ])  # fmt: skip
    module = parse(text)
    for part in (*module.functions, *module.global_variables):
        if not part.is_declaration and not part.name.startswith((export.prefix, "llvm.")):
            part.linkage = "internal"
    machine = target_machine(target)
    module.data_layout = str(machine.target_data)
    return bytes(machine.emit_object(module))


def _places(export: Export) -> tuple[list[Place], int]:
    """Return where every buffer of the program lies, and the bytes of the workspace."""
    order = (*export.inputs, *export.outputs)
    places, end_bytes = [], 0
    for buffer in export.program.buffers:
        if buffer.scope is Scope.CONSTANT:
            places.append(Place(data=export.constants[buffer.name]))
        elif buffer.scope is Scope.GLOBAL:
            places.append(Place(offset_bytes=end_bytes))
            count = SIZE_BYTES[buffer.dtype]
            for extent in extents(buffer):
                count *= extent
            end_bytes += -(-count // ALIGN_BYTES) * ALIGN_BYTES
        else:
            places.append(Place(argument=order.index(buffer.name)))
    return places, end_bytes


def _arguments(export: Export, workspace_bytes: int) -> tuple[Buffer, ...]:
    by_name = export.program.by_name
    found = [by_name[name] for name in (*export.inputs, *export.outputs)]
    if workspace_bytes:
        shape = (Const(workspace_bytes),)
        found.append(Buffer(WORKSPACE, "uint8", shape, Scope.GLOBAL))
    return tuple(found)


def _host_features() -> tuple[str, ...]:
    present = llvm.get_host_cpu_features()
    return tuple(name for name, on in present.items() if on)


@dataclass
class _Opened:
    """The address of every public function, and what keeps them there."""

    entries: dict[str, int]
    alive: object = field(repr=False)


class LoadedLibrary(Loaded):
    """An exported library in this process, for the checks: its own functions are called."""

    def __init__(self, built: Library) -> None:
        self.phases, self.buffers = built.phases, built.buffers
        names = ("run", "ahead", "run_threads", "supported")
        symbols = {name: f"{built.prefix}_{name}" for name in names}
        symbols |= {phase.name: phase.name for phase in built.phases}
        opened = _opened(built.code, symbols)
        self._alive, self.entries = opened.alive, opened.entries
        if not ctypes.CFUNCTYPE(ctypes.c_int32)(self.entries["supported"])():
            raise BuildError(f"this processor lacks one of {', '.join(built.features)}")

    def bind(self, addresses: Sequence[int]) -> Callable[[], None]:
        """Return a call without arguments that runs all timed phases, serially."""
        return native_call(self.entries["run"], addresses, self)

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the phases that are done once, before the timed ones."""
        native_call(self.entries["ahead"], addresses, self)()

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return a call without arguments that runs the timed phases on POSIX threads."""
        arguments = table_of(addresses)
        function: Any = THREADS(self.entries["run_threads"])

        def call(_alive: object = self) -> None:
            function(arguments, threads)

        return call


def _opened(code: bytes, symbols: Mapping[str, str]) -> _Opened:
    if code[:4] != b"\x7fELF":
        raise BuildError("not an ELF file")
    if int.from_bytes(code[16:18], "little") == RELOCATABLE:
        code_of = jit_link([code], list(symbols.values()))
        return _Opened({k: code_of.entries[symbol] for k, symbol in symbols.items()}, code_of)
    with tempfile.NamedTemporaryFile(prefix="ansorpy-", suffix=".so") as file:
        Path(file.name).write_bytes(code)
        try:
            library = ctypes.CDLL(file.name)
            found = {key: getattr(library, symbol) for key, symbol in symbols.items()}
        except (OSError, AttributeError) as error:
            raise BuildError(f"cannot load the library: {error}") from error
    address = {k: int(ctypes.cast(f, ctypes.c_void_p).value or 0) for k, f in found.items()}
    return _Opened(address, library)


def prepare_threads() -> None:
    """Do nothing: a library starts its own threads."""


def load(built: Library) -> LoadedLibrary:
    """Make an exported library callable in this process.

    Raises:
        BuildError: it does not load, or this processor lacks a feature it needs.
    """
    return LoadedLibrary(built)
