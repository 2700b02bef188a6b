"""Description of a worker's machine: target, cores and versions."""

import json
from dataclasses import asdict, dataclass
from importlib.metadata import version

from ansorpy.measure.host import local_target
from ansorpy.records import target_digest
from ansorpy.target import GPU_NAMES
from ansorpy.tuner.trust import PACKAGES


@dataclass(frozen=True, slots=True)
class WorkerDescription:
    """The machine of a worker, for its row in the database and its claims."""

    target: str = ""  # digest
    names: tuple[str, ...] = ()  # KIND, KIND:ARCH
    estimates: tuple[str, ...] = ()  # GPUs whose kernels it estimates and emulates
    cores: int | None = None
    facts: str = "{}"  # JSON


def describe() -> WorkerDescription:
    """Return the description of this machine, with the cores usable by this process."""
    target = local_target(None)
    facts = {
        "target": asdict(target),
        "versions": {name: version(name) for name in PACKAGES},
        "estimates": GPU_NAMES,
    }
    return WorkerDescription(
        target_digest(target), target.names, GPU_NAMES, target.cores, json.dumps(facts)
    )
