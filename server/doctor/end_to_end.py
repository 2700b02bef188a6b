"""End-to-end checks: sandbox levels, and an untuned kernel from its build to its call."""

import time
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from ansorpy.artifact import load
from ansorpy.errors import RunError
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.host import local_target
from ansorpy.measure.local import LocalPool
from ansorpy.measure.sandbox.isolation import Isolation, isolation_for
from ansorpy.measure.timing.settings import MeasureSettings
from ansorpy.server.doctor.finding import Finding
from ansorpy.server.settings import ServiceSettings
from ansorpy.tuner.race.cpu_form import CpuForm
from ansorpy.tuner.race.race import deliver, race
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tasks.task import Task

SIZE: Final = 32
TEXT: Final = "def mm(float(32,32) A, float(32,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }"
TOLERANCE: Final = 1e-4  # absolute error of a sum of products, per term


def sandbox(settings: ServiceSettings) -> Finding:
    """Report the isolation levels of this machine, and how to get the missing ones."""
    if settings.sandbox == "off":
        return Finding("sandbox", "note", "limits only: ANSORPY_SANDBOX=off")
    try:
        isolation = isolation_for(settings.sandbox)
    except RunError as error:
        return Finding("sandbox", "bad", str(error))
    active, missing = levels(isolation)
    told = f"active: {', '.join(active)}"
    if missing:
        told += f"; not here: {'; '.join(missing)}"
    return Finding("sandbox", "ok" if isolation.isolates else "note", told)


def levels(isolation: Isolation) -> tuple[list[str], list[str]]:
    """Return the available levels, and the requirements of the others."""
    version = isolation.landlock
    walls = (
        ("limits", True, ""),
        (f"landlock {version}", version > 0, "landlock (Linux 5.13 or newer)"),
        ("seccomp", isolation.seccomp, "seccomp (x86-64 or arm64)"),
        ("bubblewrap", bool(isolation.bwrap), "bubblewrap (`apt-get install bubblewrap`; in a"
         " container it also needs user namespaces)"),
    )  # fmt: skip
    active = [name for name, holds, _ in walls if holds]
    return active, [how for _, holds, how in walls if not holds]


def kernel(settings: ServiceSettings) -> list[Finding]:
    """Build, check, race, pack, load and call a kernel; prove the isolation of its processes."""
    (dag,) = parse(TEXT)
    target = local_target(1)
    task = Task.of(dag, target, rules_name("cpu", find_rules("cpu")))
    begin_s = time.monotonic()
    with (
        TemporaryDirectory() as folder,
        LocalPool(dag, target, MeasureSettings(sandbox=settings.sandbox)) as pool,
    ):
        proofs = [_proof(process, levels) for process, levels in pool.isolation().items()]
        form = CpuForm()
        raced = race(task, form, {}, pool, "doctor")
        if isinstance(raced, list):
            reasons = "; ".join(f"{failed.kind}: {failed.message}" for failed in raced)
            return [*proofs, Finding("kernel", "bad", reasons)]
        path = deliver(task, form, raced, Path(folder))
        right = _is_right(path)
    best_s = raced.record.best_s or 0.0
    library = "" if not isinstance(raced.native, str) else f"; {raced.native}"
    text = (
        f"matmul {SIZE}, untuned: built, checked, raced ({best_s * 1e6:.1f} us), packed, loaded and"
        f" called in {time.monotonic() - begin_s:.1f} s{library}"
    )
    if not right:
        return [*proofs, Finding("kernel", "bad", f"{text}; its result is wrong")]
    return [*proofs, Finding("kernel", "ok", text)]


def _proof(process: str, isolated: Mapping[str, bool] | str) -> Finding:
    if isinstance(isolated, str):
        return Finding("isolation", "bad", f"{process}: {isolated}")
    gaps = [name for name, holds in isolated.items() if not holds]
    told = f"{process}: {', '.join(name for name, holds in isolated.items() if holds)}"
    return Finding("isolation", "ok", told + (f"; not: {', '.join(gaps)}" if gaps else ""))


def _is_right(path: Path) -> bool:
    rng = np.random.default_rng(0)
    a, b = rng.random((2, SIZE, SIZE), dtype=np.float32)
    return bool(np.abs(np.asarray(load(path)(a, b)) - a @ b).max() < TOLERANCE * SIZE)
