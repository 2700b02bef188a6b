"""The static report of a program for a GPU: resources and machine code of each launch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from ansorpy.codegen.simt.assemble import Cubin, Resources, assemble, disassemble
from ansorpy.codegen.simt.launch import Launch, SimtCode
from ansorpy.codegen.simt.occupancy import GpuOccupancy, occupancy
from ansorpy.codegen.simt.ptx import ptx
from ansorpy.codegen.simt.sass import Counts, Sass, parse_sass
from ansorpy.gpus import Gpu
from ansorpy.target import Target

# Instructions of the main loop that are counted, for JSON.
_COUNTED: Final = ("FFMA", "HMMA", "LDS", "LDSM", "STS", "LDG", "LDGSTS", "STG", "BAR")


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

    def __str__(self) -> str:
        held, fits, main = self.resources, self.occupancy, self.main
        spilled = held.spill_store_bytes + held.spill_load_bytes
        products = f"{main['HMMA']} HMMA, {main['LDSM']} LDSM, " if main["HMMA"] else ""
        return (
            f"{self.launch.name}: {self.launch.blocks} blocks of {self.launch.threads} threads,"
            f" {held.registers} registers, {spilled} B spilled, {held.shared_bytes} B shared;"
            f" {fits.blocks_per_sm} blocks per SM ({100 * fits.share:.0f} %,"
            f" bound by {fits.bound_by}); main loop of {main.total} instructions:"
            f" {100 * main.share('FFMA'):.1f} % FFMA, {products}{main['LDS']} LDS,"
            f" {main['LDG']} LDG, {main['BAR']} BAR"
        )

    def as_object(self) -> Mapping[str, Any]:
        """Return the report as an object of JSON."""
        main = self.main
        return {
            "launch": asdict(self.launch),
            "resources": asdict(self.resources),
            "occupancy": asdict(self.occupancy),
            "instructions": self.sass.all.total,
            "local_accesses": self.sass.all.local_accesses,
            "main_loop": {
                "instructions": main.total,
                "ffma_share": main.share("FFMA"),
                "counts": {code: main[code] for code in _COUNTED},
                "load_bytes": {str(width): n for width, n in main.widths("LDG").items()},
            },
        }


@dataclass(frozen=True, slots=True)
class StaticReport:
    """The reports of all launches of a program, in order, and its cubins."""

    arch: str
    launches: tuple[LaunchReport, ...]
    cubins: tuple[Cubin, ...]

    @property
    def spills(self) -> bool:
        """True if a launch spills registers."""
        return any(one.spills for one in self.launches)

    def __str__(self) -> str:
        return "\n".join((f"{self.arch}:", *(f"  {one}" for one in self.launches)))

    def as_object(self) -> Mapping[str, Any]:
        """Return the report as an object of JSON; cubins are left out."""
        return {"arch": self.arch, "launches": [one.as_object() for one in self.launches]}


def static_report(code: SimtCode, target: Target) -> StaticReport:
    """Return the static report of a program; no GPU is needed.

    Args:
        target: a GPU with its facts.

    Raises:
        BuildError: the text cannot be compiled, or ptxas and nvdisasm are not installed.
    """
    gpu = target.gpu
    if gpu is None:
        raise ValueError("a static report needs the facts of a GPU")
    cubins = tuple(assemble(ptx(text, target.cpu), target.cpu) for text in code.texts)
    launches = tuple(
        _report(launch, cubin, gpu) for launch, cubin in zip(code.launches, cubins, strict=True)
    )
    return StaticReport(target.cpu, launches, cubins)


def _report(launch: Launch, cubin: Cubin, gpu: Gpu) -> LaunchReport:
    held = cubin.resources(launch.name)
    (sass,) = (one for one in parse_sass(disassemble(cubin)) if one.kernel == launch.name)
    fits = occupancy(gpu, launch.threads, held.registers, held.shared_bytes + launch.dynamic_bytes)
    return LaunchReport(launch, held, fits, sass)
