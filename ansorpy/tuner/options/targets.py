"""The target that a request names: this machine, a GPU by its architecture, or the present one."""

import re
from typing import Final

from ansorpy.codegen.simt.device.present import present_gpu
from ansorpy.errors import RecordError, SpecError, shown
from ansorpy.gpus import PRESETS
from ansorpy.measure.backend import DEVICE
from ansorpy.measure.host import local_target
from ansorpy.records import target_digest
from ansorpy.target import (
    GPU_NAMES,
    GpuTarget,
    Target,
    cuda_target,
    gpu_target,
    listed,
    parse_target,
    unknown_target,
)

THREADS: Final = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)  # the last part of a key


def target_for(given: Target | str | None, cores: int) -> Target:
    """Return the target of a call: a target itself, one by its name, or this machine for None.

    Args:
        cores: threads of a kernel of this machine.

    Raises:
        SpecError: as `named_target`.
    """
    if isinstance(given, Target):
        return given
    return local_target(cores) if given is None else named_target(given, cores)


def named_target(name: str, cores: int) -> Target:
    """Return the target of this machine, or of a GPU.

    Args:
        name: KIND[:ARCH], or the digest of this machine; `cuda` is the GPU that is present.
        cores: threads of a kernel of this machine.

    Raises:
        SpecError: the name belongs to another machine, the GPU has no preset, or none is present.
    """
    here = local_target(cores)
    known = (*here.names, target_digest(here))
    asked = parse_target(name, (*known, *GPU_NAMES))
    if asked.kind == "cuda":
        return named_gpu(asked.arch)
    if name not in known:
        raise unknown_target(name, (*known, *GPU_NAMES))
    return here


def named_gpu(arch: str) -> GpuTarget:
    """Return the target of the present GPU if it has the architecture, else of a preset.

    Args:
        arch: such as `sm_90`; "" names the present GPU.

    Raises:
        SpecError: the architecture has no preset, or no GPU is present.
    """
    present = present_gpu()
    if arch and (present is None or present.cpu != arch):
        return cuda_target(arch)
    if present is None:
        raise SpecError(
            f"cannot use target cuda because no GPU is present; expected {listed(GPU_NAMES)}"
        )
    return present


def target_of(key: str) -> tuple[Target, bool]:
    """Return the target whose records have a key, and whether it is known.

    The target is this machine, or the preset of a GPU; in place of another machine, this machine
    with as many threads.

    Raises:
        RecordError: no task has such a key.
    """
    parts = key.split("/")
    if len(parts) < 3 or not THREADS.fullmatch(parts[2]):
        raise RecordError(f"cannot know the target of key {shown(key)!r}; expected that of a task")
    here = local_target(int(parts[2]))
    gpus = [gpu_target(arch, gpu) for arch, gpu in PRESETS.items()]
    for target in (here, *gpus):
        if parts[1] == target_digest(target):
            return target, True
    return here, False


def device_of(target: Target) -> str:
    """Return the back end that runs kernels of a GPU; "" if that GPU is not in this machine."""
    return DEVICE if isinstance(target, GpuTarget) and target == present_gpu() else ""
