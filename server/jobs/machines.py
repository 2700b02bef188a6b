"""Machines of the registered workers: known targets, and living workers."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import select
from sqlalchemy.orm import Session

from ansorpy.errors import SpecError
from ansorpy.server.db.models import JobRow, WorkerRow
from ansorpy.target import (
    GPU_NAMES,
    TUNED_KINDS,
    CpuTarget,
    GpuTarget,
    Target,
    cuda_target,
    listed,
    names_of,
    parse_target,
    require_back_end,
    require_cores,
    unknown_target,
)

WORKER_ALIVE_S: Final = 30.0  # maximum age of the heartbeat of a living worker


@dataclass(frozen=True, slots=True)
class Machine:
    """Names and cores of a worker, which decide the jobs that it can run.

    A worker without a GPU runs the jobs of `estimates`: their kernels are estimated and emulated.
    """

    names: tuple[str, ...]  # digest, KIND, KIND:ARCH
    cores: int
    estimates: tuple[str, ...] = ()

    def has(self, target: str) -> bool:
        """Return whether a job for `target` ("" for any) can run on this machine."""
        return target in ("", *self.names, *self.estimates)


def workers(tx: Session, now_s: float) -> Sequence[WorkerRow]:
    """Return the living workers, oldest first."""
    query = select(WorkerRow).where(
        WorkerRow.heartbeat_s > now_s - WORKER_ALIVE_S, WorkerRow.state != "stopped"
    )
    return tx.scalars(query.order_by(WorkerRow.started_s)).all()


def targets(tx: Session, now_s: float) -> Mapping[str, Mapping[str, Any]]:
    """Return the facts of the targets of living workers, by digest."""
    return {row.target: json.loads(row.facts)["target"] for row in workers(tx, now_s)}


def served(row: WorkerRow) -> Mapping[str, Target]:
    """Return the targets that a worker makes kernels for: its processor by digest, and GPUs.

    They have the facts that decide about instructions, no others.
    """
    facts = json.loads(row.facts)
    told = facts.get("target", {})
    processor = CpuTarget(
        features=tuple(told.get("features", ())),
        vector_bits=int(told.get("vector_bits", CpuTarget().vector_bits)),
        cpu=str(told.get("cpu", "")),
    )
    archs = [name.partition(":")[2] for name in facts.get("estimates", ())]
    archs += [gpu["arch"] for gpu in facts.get("gpus", ())]
    gpus = {names_of("cuda", arch)[-1]: GpuTarget(cpu=arch) for arch in archs if arch}
    return {row.target: processor, **gpus}


def check_target(tx: Session, target: str, cores: int) -> None:
    """Raise SpecError if the target is unknown, or has fewer cores than requested.

    The message lists the known targets, or the largest number of cores.
    """
    machines = [_machine(row) for row in tx.scalars(select(WorkerRow))]
    if target:
        known = tuple(dict.fromkeys(("cpu", *_names(machines), *GPU_NAMES)))
        name = parse_target(target, known)
        require_back_end(name.kind or TUNED_KINDS[0])
        served = any(machine.has(target) for machine in machines)  # `cuda`, by a worker with a GPU
        if name.kind == "cuda" and target not in known and not served:
            _check_gpu(name.arch)
        if target not in known and not served:
            raise unknown_target(target, known)
    able = [machine.cores for machine in machines if machine.has(target)]
    if able:
        require_cores(cores, max(able), "the largest worker of this target")


def _check_gpu(arch: str) -> None:
    """Raise SpecError unless an architecture is named that has a preset."""
    if not arch:
        raise SpecError(
            f"cannot tune for cuda because no worker has a GPU; expected {listed(GPU_NAMES)}"
        )
    cuda_target(arch)


def digests_of(tx: Session, target: str) -> set[str]:
    """Return the targets that a job for `target` can have: its name, and matching digests."""
    rows = tx.scalars(select(WorkerRow))
    return {target, *(row.target for row in rows if _machine(row).has(target))}


def waiting_for(tx: Session, job: JobRow, now_s: float) -> str | None:
    """Return the missing requirement of a queued job, or None if a living worker can run it."""
    if job.state != "queued":
        return None
    alive = [_machine(row) for row in workers(tx, now_s)]
    fitting = [machine for machine in alive if machine.has(job.target)]
    if any(machine.cores >= job.cores for machine in fitting):
        return None
    target = f" for {job.target}" if job.target else ""
    cores = f" with {job.cores} cores" if fitting else ""
    return f"no live worker{target}{cores}"


def _machine(row: WorkerRow) -> Machine:
    facts = json.loads(row.facts)
    told = facts.get("target", {})
    names = names_of(str(told.get("kind", "")), str(told.get("cpu", "")))
    estimates = tuple(map(str, facts.get("estimates", ())))
    return Machine((row.target, *filter(None, names)), int(told.get("cores", 1)), estimates)


def _names(machines: Collection[Machine]) -> list[str]:
    return sorted({name for machine in machines for name in machine.names})
