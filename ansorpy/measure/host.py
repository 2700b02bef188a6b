"""What this machine is: features from LLVM, caches from /sys, cores from the scheduler."""

import os
import platform
from collections.abc import Collection
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from ansorpy.target import Target

CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
CPU_QUOTA: Final = Path("/sys/fs/cgroup/cpu.max")
UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def local_target(cores: int | None = None) -> Target:
    """Return the target that describes this machine.

    Args:
        cores: threads of a kernel; None: every core this process may use.
    """
    features = tuple(sorted(name for name, on in llvm.get_host_cpu_features().items() if on))
    bits, registers = vectors(features, platform.machine())
    unknown = Target()
    return Target(
        cores=usable_core_count() if cores is None else cores,
        vector_bits=bits,
        registers=registers,
        l1_bytes=cache_bytes(1, CACHES) or unknown.l1_bytes,
        l2_bytes=cache_bytes(2, CACHES) or unknown.l2_bytes,
        features=features,
        cpu=llvm.get_host_cpu_name(),
    )


def vectors(features: Collection[str], machine: str) -> tuple[int, int]:
    """Return the width in bits and the number of vector registers."""
    if machine in ("aarch64", "arm64"):
        return 128, 32
    if "avx512f" in features and "avx512vl" in features:
        return 512, 32
    if "avx2" in features and "fma" in features:
        return 256, 16
    return 128, 16


def cache_bytes(level: int, folder: Path) -> int:
    """Return the size of one core's data cache, 0 where the system does not say."""
    for entry in sorted(folder.glob("index*")):
        if int((entry / "level").read_text()) != level:
            continue
        if (entry / "type").read_text().strip() != "Instruction":
            text = (entry / "size").read_text().strip()
            unit = UNITS.get(text[-1], 1)
            return int(text.rstrip("KMG")) * unit
    return 0


def usable_core_count(quota: Path = CPU_QUOTA) -> int:
    """Return how many cores this process may use at once: its affinity, and its group's quota."""
    cores = len(os.sched_getaffinity(0))
    if quota.exists():
        share, _, period = quota.read_text().partition(" ")
        if share != "max":
            cores = min(cores, max(1, int(share) // int(period)))
    return cores
