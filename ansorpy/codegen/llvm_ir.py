"""Print a tiled program as LLVM text: the search compiles it without numba's front end."""

from functools import lru_cache
from typing import Any, Final

import llvmlite.binding as llvm
from llvmlite import ir

from ansorpy.codegen.phase_utilities import phase_dims, phase_infos
from ansorpy.codegen.phase_writer import PhaseWriter, Places
from ansorpy.codegen.simd.kinds import I64, POINTER
from ansorpy.codegen.text_builder import TextBuilder
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Const
from ansorpy.host_jit import initialize
from ansorpy.loopir.nodes import Phase, Program
from ansorpy.loopir.tasks import task_count
from ansorpy.target import Target
from ansorpy.te.dims import Dim

EXCERPT: Final = 2000  # characters kept of a message of LLVM or numba
OPT: Final = 3  # level of LLVM's back end for code that is timed
PLAIN: Final = "nounwind"
WIDE: Final = 'nounwind "prefer-vector-width"="512"'  # LLVM prefers vectors of 256 bits
WIDE_BYTES: Final = 64  # bytes of a vector of 512 bits


def phase_text(phase: Phase, places: Places, target: Target, dims: tuple[Dim, ...] = ()) -> str:
    """Return the LLVM IR of one phase alone: `void phase(int64_t *buffers, int64_t task)`.

    With `int64_t phase_tasks(int64_t *buffers)` if the sizes of dims decide the number of tasks.

    Raises:
        BuildError: the phase has no code here.
    """
    declarations = ir.Module()
    declarations.triple = llvm.get_process_triple()
    text = _functions(declarations, "phase", phase, places, target, dims)
    return f"{declarations}\n{text}"


def module_text(program: Program, target: Target) -> str:
    """Return the LLVM IR of a program as text.

    It defines, for every phase, the functions of `PhaseInfo`: `phase0`, and `phase0_tasks`.
    """
    declarations = ir.Module()
    declarations.triple = llvm.get_process_triple()
    infos = phase_infos(program)
    places = tuple(enumerate(program.buffers))
    parts = [
        _functions(declarations, info.name, phase, places, target, phase_dims(program, phase))
        for phase, info in zip(program.phases, infos, strict=True)
    ]
    return "\n".join([str(declarations), *parts])


def _functions(
    declarations: Any, name: str, phase: Phase, places: Places, target: Target,
    dims: tuple[Dim, ...],
) -> str:  # fmt: skip
    """Return the function of a phase, and of its number of tasks if sizes decide that.

    The functions that it calls are added to the declarations.
    """
    features = None if is_local(target) else frozenset(target.features)
    builder = TextBuilder(declarations, name, [POINTER, I64], features)
    try:
        PhaseWriter(places, builder, dims).phase(phase)
    except ValueError as error:
        raise BuildError(f"{phase.name}: {error}") from error
    text = builder.text(WIDE if target.lanes("int8") >= WIDE_BYTES else PLAIN)
    count = task_count(phase)
    if isinstance(count, Const):
        return text
    counter = TextBuilder(declarations, f"{name}_tasks", [POINTER], features, "i64")
    PhaseWriter(places, counter, dims).tasks_of_call(count)
    return f"{text}\n{counter.text(PLAIN)}"


def is_local(target: Target) -> bool:
    """Return True if a target names no processor, which means this machine."""
    return not target.cpu and not target.features


def target_machine(target: Target, opt: int = OPT) -> Any:
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
        features=features, opt=opt, reloc="pic", codemodel="default",
    )  # fmt: skip


def object_bytes(text: str, target: Target, opt: int = OPT) -> bytes:
    """Return the object file of LLVM IR text.

    Args:
        opt: level of LLVM's back end, 0 to 3.

    No mid-level passes: the code is already vectors. No strength reduction either: offsets are
    made outside of the loops that do not change them (ADR-0067).
    """
    module = parse(text)
    machine = _kept_machine(target, opt)
    module.data_layout = str(machine.target_data)
    llvm.set_option("ansorpy", "-disable-lsr=true")
    try:
        return bytes(machine.emit_object(module))
    finally:
        llvm.set_option(
            "ansorpy", "-disable-lsr=false"
        )  # LLVM's options belong to the whole process


@lru_cache(maxsize=4)
def _kept_machine(target: Target, opt: int) -> Any:
    """Return a back end that no engine owns: an engine would delete it."""
    return target_machine(target, opt)


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
