"""The static report of a program for a GPU: resources and machine code of each launch."""

from dataclasses import dataclass

from ansorpy.codegen.simt.assemble import Cubin, Resources, assemble, disassemble
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.codegen.simt.occupancy import GpuOccupancy, occupancy
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.gpus import Gpu
from ansorpy.target import GpuTarget, Target, expected
from benchmarks.cuda.sass import Counts, Sass, parse_sass


@dataclass(frozen=True, slots=True)
class LaunchReport:
    """Registers, spills, shared memory, occupancy and instructions of one launch."""

    launch: Launch
    resources: Resources
    occupancy: GpuOccupancy
    sass: Sass

    @property
    def main(self) -> Counts:
        """The instructions of the main loop."""
        return self.sass.main

    @property
    def spills(self) -> bool:
        """True if registers go to local memory."""
        return bool(self.resources.spill_store_bytes or self.resources.spill_load_bytes)


def static_report(code: SimtCode, target: Target) -> tuple[LaunchReport, ...]:
    """Return the static report of each launch of a program; no GPU is needed.

    Args:
        target: a GPU with its facts.

    Raises:
        BuildError: the text cannot be compiled, or ptxas and nvdisasm are not installed.
    """
    gpu = expected(target, GpuTarget).gpu
    if gpu is None:
        raise ValueError("a static report needs the facts of a GPU")
    cubins = (assemble(ptx(text, target.cpu), target.cpu) for text in code.texts)
    return tuple(
        _report(launch, cubin, gpu) for launch, cubin in zip(code.launches, cubins, strict=True)
    )


def _report(launch: Launch, cubin: Cubin, gpu: Gpu) -> LaunchReport:
    held = cubin.resources(launch.name)
    (sass,) = (one for one in parse_sass(disassemble(cubin)) if one.kernel == launch.name)
    fits = occupancy(gpu, launch.threads, held.registers, held.shared_bytes + launch.dynamic_bytes)
    return LaunchReport(launch, held, fits, sass)
