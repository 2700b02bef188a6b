"""Description of a worker's machine: target, cores and versions."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version

from ansorpy.codegen.simt.device.facts import DeviceFacts
from ansorpy.codegen.simt.device.present import present_gpus
from ansorpy.measure.host import local_target
from ansorpy.records import target_digest
from ansorpy.target import GPU_NAMES
from ansorpy.tuner.tasks.trust import PACKAGES


@dataclass(frozen=True, slots=True)
class WorkerDescription:
    """The machine of a worker, for its row in the database and its claims."""

    target: str = ""  # digest
    names: tuple[str, ...] = ()  # KIND, KIND:ARCH
    estimates: tuple[str, ...] = ()  # GPUs whose kernels it estimates and emulates
    cores: int | None = None
    facts: str = "{}"  # JSON


def describe(gpus: Sequence[DeviceFacts] | None = None) -> WorkerDescription:
    """Return the description of this machine, with the cores usable by this process.

    Args:
        gpus: the GPUs of the machine; None: those that the driver shows.
    """
    target = local_target(None)
    present = present_gpus() if gpus is None else gpus
    estimates = (*GPU_NAMES, *(["cuda"] if present else []))  # plain `cuda` is the present GPU
    facts = {
        "target": target.facts(),
        "versions": {name: version(name) for name in PACKAGES},
        "estimates": estimates,
        "gpus": [
            {"name": one.name, "arch": one.arch, "memory_bytes": one.memory_bytes}
            for one in present
        ],
    }
    return WorkerDescription(
        target_digest(target), target.names, estimates, target.cores, json.dumps(facts)
    )
