"""Export a program as a shared library that needs neither Python nor numba; a measuring back end.

The phases are the LLVM IR of the search; `runtime.c_entry` adds the public functions. Without a
linker on this machine the result is the object file.
"""

import ctypes
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import llvmlite.binding as llvm

from ansorpy.codegen.cpuid import required, supported_text
from ansorpy.codegen.exported_types import Export, Library
from ansorpy.codegen.jit_link import jit_link
from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.link import link
from ansorpy.codegen.llvm_ir import module_text, public_object
from ansorpy.codegen.loader import Loaded
from ansorpy.codegen.phase_utilities import (
    packed_names,
    phase_infos,
    steady_names,
    stored_names,
)
from ansorpy.codegen.runtime.c_entry import (
    ALIGN_BYTES,
    SUFFIXES,
    Addressing,
    Area,
    Location,
    entry_text,
)
from ansorpy.codegen.runtime.native_launcher import NO_POOL, native_call, word_array
from ansorpy.codegen.runtime.phase_loop import timed_loop
from ansorpy.codegen.runtime.thread_pool import process_pool
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import Buffer, Program, Scope
from ansorpy.target import Target

BUILT: Final = Library
RELOCATABLE: Final = 1  # e_type of an ELF header
WORKSPACE: Final = ".workspace"  # no tensor has this name
ON_POOL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)


def build(export: Export, target: Target) -> Library:
    """Compile and link.

    Raises:
        BuildError: the program has no code, or LLVM refuses it.
    """
    addressing, infos = _addressing(export), phase_infos(export.program)
    text = module_text(export.program, target)
    features = required(target.features or _host_features(), text)
    code = _object(export, target, text, addressing, features)
    linked = link([code], export.linkers)
    timed = timed_loop(infos).phases
    return Library(
        code=code if isinstance(linked, str) else linked,
        object_code=code,
        buffers=_arguments(export, addressing),
        phases=tuple(
            PhaseInfo(f"{export.prefix}_task{k}", info.tasks) for k, info in enumerate(timed)
        ),
        prefix=export.prefix,
        features=features,
        workspace_bytes=addressing.packed_bytes + addressing.scratch_bytes,
        packed_bytes=addressing.packed_bytes,
        note=linked if isinstance(linked, str) else "",
        steady=_steady(export.program),
    )


def _object(
    export: Export, target: Target, text: str, addressing: Addressing, features: Sequence[str]
) -> bytes:
    triple = llvm.get_process_triple()
    text = "\n".join([
        text,
        entry_text(export.prefix, addressing, phase_infos(export.program), triple),
        supported_text(f"{export.prefix}_supported", features, triple.startswith("x86_64")),
    ])  # fmt: skip
    return public_object(text, export.prefix, target)


def _addressing(export: Export) -> Addressing:
    """Return the location of every buffer of the program."""
    order, packed = export.arguments, _packed(export.program)
    locations = []
    ends = {Area.PACKED: 0, Area.SCRATCH: 0}  # in bytes
    for buffer in export.program.buffers:
        if buffer.scope is Scope.CONSTANT:
            locations.append(Location(Area.CONSTANT, data=export.constants[buffer.name]))
        elif buffer.scope is Scope.GLOBAL:
            area = Area.PACKED if buffer.name in packed else Area.SCRATCH
            locations.append(Location(area, ends[area]))
            ends[area] += -(-buffer.size_bytes // ALIGN_BYTES) * ALIGN_BYTES
        else:
            locations.append(Location(Area.ARGUMENT, order.index(buffer.name)))
    return Addressing(tuple(locations), len(order), ends[Area.PACKED], ends[Area.SCRATCH])


def _packed(program: Program) -> frozenset[str]:
    """Return the names of packed weights.

    Raises:
        BuildError: a call would overwrite one, so that two calls could not share it.
    """
    packed = packed_names(program)
    for phase in program.phases:
        lost = [] if phase.ahead else sorted(stored_names(phase.body) & packed)
        if lost:
            raise BuildError(f"{phase.name} overwrites {', '.join(lost)}, written ahead")
    return packed


def _steady(program: Program) -> tuple[str, ...]:
    """Return the arguments that calls read and never write, but for the scratch of a workspace."""
    inputs = [name for name in steady_names(program) if name not in packed_names(program)]
    return (*inputs, *([WORKSPACE] if packed_names(program) else []))


def _arguments(export: Export, addressing: Addressing) -> tuple[Buffer, ...]:
    by_name = export.program.by_name
    found = [by_name[name].argument for name in export.arguments]
    size_bytes = addressing.packed_bytes + addressing.scratch_bytes
    if size_bytes:
        found.append(Buffer(WORKSPACE, "uint8", (Const(size_bytes),), Scope.GLOBAL))
    return tuple(found)


def _host_features() -> tuple[str, ...]:
    present = llvm.get_host_cpu_features()
    return tuple(name for name, on in present.items() if on)


@dataclass
class _Opened:
    """The address of every public function, and the object that keeps them loaded."""

    entries: dict[str, int]
    alive: object = field(repr=False)


class LoadedLibrary(Loaded):
    """An exported library in this process, for the checks: its public functions are called."""

    def __init__(self, built: Library) -> None:
        self.phases, self.buffers = built.phases, built.buffers
        self._workspace, self._packed_bytes = bool(built.workspace_bytes), built.packed_bytes
        symbols = {name: f"{built.prefix}_{name}" for name in (*SUFFIXES, "supported")}
        symbols |= {phase.name: phase.name for phase in built.phases}
        opened = _opened(built.code, symbols)
        self._alive, self.entries = opened.alive, opened.entries
        if not ctypes.CFUNCTYPE(ctypes.c_int32)(self.entries["supported"])():
            raise BuildError(f"this processor lacks one of {', '.join(built.features)}")

    def bind(self, addresses: Sequence[int], pool: int = NO_POOL) -> Callable[[], None]:
        """Return a call without arguments that runs all timed phases.

        Args:
            addresses: of `buffers`: inputs, outputs, sizes of dims and the workspace.
            pool: address of a running pool; 0: the caller's thread only.
        """
        if not pool:
            return native_call(self.entries["run"], addresses, self)
        tensors, packed = (addresses[:-1], addresses[-1]) if self._workspace else (addresses, 0)
        return self.bind_packed([*tensors, packed, packed + self._packed_bytes], pool)

    def run_ahead(self, addresses: Sequence[int]) -> None:
        """Run the phases ahead of the timed ones."""
        native_call(self.entries["ahead"], addresses, self)()

    def bind_parallel(self, addresses: Sequence[int], threads: int) -> Callable[[], None]:
        """Return a call without arguments that runs the timed phases on a running pool.

        Delivered libraries and bundles call on one, too.
        """
        return self.bind(addresses, process_pool(threads).address if threads > 1 else NO_POOL)

    def pack(self, addresses: Sequence[int]) -> None:
        """Pack the weights: addresses as of `bind`, with packed weights and scratch."""
        native_call(self.entries["pack"], addresses, self)()

    def bind_packed(self, addresses: Sequence[int], pool: int = NO_POOL) -> Callable[[], None]:
        """Return `bind` for packed weights and scratch in place of a workspace."""
        arguments = word_array(addresses)
        function: Any = ON_POOL(self.entries["run_packed"])

        def call(_alive: object = self) -> None:
            function(arguments, pool)

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


def load(built: Library) -> LoadedLibrary:
    """Make an exported library callable in this process.

    Raises:
        BuildError: it does not load, or this processor lacks a feature it needs.
    """
    return LoadedLibrary(built)
