"""A back end of `measure` whose machine code is an estimate: no device is needed (ADR-0143).

A program is written as kernels, as for a device. Its seconds come from the analytic model. If
ptxas is installed, the kernels are compiled to PTX and assembled, and ptxas counts registers; a
program that spills them fails. Without ptxas, PTX tells nothing of a candidate, and takes half
of the time: it is made of delivered kernels only.
"""

from dataclasses import dataclass, fields
from typing import Final

from ansorpy.codegen.exported_types import Export
from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.codegen.simt.assemble import Resources, assemble, has_assembler
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.writer import simt_code
from ansorpy.cost.simt import Parts, estimate
from ansorpy.cost.simt_facts import least_registers, program_facts
from ansorpy.errors import BuildError
from ansorpy.loopir.nodes import Buffer, Program
from ansorpy.measure.backend import CallableCode
from ansorpy.measure.outcome import Estimated, Failed
from ansorpy.target import GpuTarget, Target, expected

_PARTS: Final = tuple(sorted(one.name for one in fields(Parts)))


@dataclass(frozen=True, slots=True)
class EstimatedCode:
    """The launches of a program and their estimate, or the reason why they cannot run."""

    launches: tuple[Launch, ...]
    buffers: tuple[Buffer, ...]
    outcome: Estimated | Failed

    @property
    def phases(self) -> tuple[PhaseInfo, ...]:
        """The launches as phases; a task is a block."""
        return SimtCode((), self.launches, self.buffers).phases


BUILT: Final = EstimatedCode


def build(what: Program | Export, target: Target) -> EstimatedCode:
    """Return the estimate of a bound program.

    Raises:
        BuildError: the program has no kernels, or, with ptxas, LLVM or ptxas refuses them.
    """
    if isinstance(what, Export):
        raise BuildError("cannot estimate a library; expected a program for a GPU")
    code = simt_code(what, target)
    known = resources_of(code, target) if has_assembler() else None
    return EstimatedCode(code.launches, code.buffers, _outcome(what, code, known, target))


def load(built: EstimatedCode) -> CallableCode:
    """Refuse: an estimate cannot be called.

    Raises:
        BuildError: always.
    """
    raise BuildError(f"cannot run {len(built.launches)} launches that were only estimated")


def resources_of(code: SimtCode, target: Target) -> tuple[Resources, ...]:
    """Return the resources of every launch as ptxas counts them."""
    cubins = [assemble(ptx(text, target.cpu), target.cpu) for text in code.texts]
    return tuple(
        cubin.resources(launch.name) for launch, cubin in zip(code.launches, cubins, strict=True)
    )


def _outcome(
    program: Program, code: SimtCode, known: tuple[Resources, ...] | None, target: Target
) -> Estimated | Failed:
    gpu = expected(target, GpuTarget).gpu
    if gpu is None:
        raise BuildError(
            f"cannot estimate {program.name} because the facts of the GPU are unknown; expected"
            " cuda:sm_80 or cuda:sm_90"
        )
    spilled = _spilled(program, code, known, gpu.registers_per_thread)
    if spilled is not None:
        return spilled
    facts = program_facts(program, code.launches, known or (None,) * len(code.launches))
    found = [estimate(one, gpu) for one in facts]
    parts = [one for one in found if one is not None]
    if len(parts) < len(found):
        return Failed("occupancy", _crowded(facts[found.index(None)]))
    return Estimated(
        seconds=sum(one.seconds for one in parts),
        parts=tuple((name, sum(getattr(one, name) for one in parts)) for name in _PARTS),
        registers=max((one.registers for one in facts), default=0),
        assembled=known is not None,
    )


def _spilled(
    program: Program, code: SimtCode, known: tuple[Resources, ...] | None, most: int
) -> Failed | None:
    """Return the failure of a program with too many registers: as ptxas says, or certainly."""
    for number, launch in enumerate(code.launches):
        if known is not None:
            lost = known[number].spill_store_bytes + known[number].spill_load_bytes
            if lost:
                return Failed("spills", f"{launch.name}: {lost} bytes of a thread spilled")
            continue
        least = least_registers(program.phases[number])
        if least > most:
            return Failed(
                "spills", f"{launch.name}: {least} registers of a thread; expected at most {most}"
            )
    return None


def _crowded(facts: object) -> str:
    threads, registers, shared = (
        getattr(facts, name) for name in ("threads", "registers", "shared_bytes")
    )
    return (
        f"a block of {threads} threads with {registers} registers each and {shared} bytes of"
        " shared memory fits no multiprocessor"
    )
