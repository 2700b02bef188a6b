"""The CPU, caches and cores of this machine, as a Target."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import llvmlite.binding as llvm

from ansorpy.codegen.simd.matrices import has_matrices
from ansorpy.measure.granted import granted_cores
from ansorpy.target import CpuTarget

CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
_UNITS: Final = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True, slots=True)
class Host:
    """LLVM's view of the processor, caches in bytes, and the cores of this process."""

    cpu: str
    features: tuple[str, ...]
    l1_bytes: int
    l2_bytes: int
    l3_bytes: int
    cores: frozenset[int]


def local_host(caches: Path = CACHES) -> Host:
    """Ask LLVM for features, the kernel for caches, the scheduler for cores.

    Matrix registers count only if Linux lets a process use them.
    """
    present = llvm.get_host_cpu_features()
    if present.get("amx-tile") and not has_matrices():
        present = {name: on and not name.startswith("amx-") for name, on in present.items()}
    defaults = CpuTarget()
    return Host(
        cpu=llvm.get_host_cpu_name(),
        features=tuple(sorted(name for name, on in present.items() if on)),
        l1_bytes=cache_bytes(caches, 1, defaults.l1_bytes),
        l2_bytes=cache_bytes(caches, 2, defaults.l2_bytes),
        l3_bytes=cache_bytes(caches, 3, defaults.l3_bytes),
        cores=frozenset(os.sched_getaffinity(0)),
    )


def local_target(cores: int | None = None, host: Host | None = None) -> CpuTarget:
    """Return the target of kernels with `cores` threads (None: all we may use) on this machine."""
    if cores is None:
        cores = granted_cores() if host is None else len(host.cores)
    host = host or local_host()
    bits = vector_bits(host.features)
    return CpuTarget(
        cores=cores,
        vector_bits=bits,
        registers=32 if bits == 512 or "neon" in host.features else 16,
        l1_bytes=host.l1_bytes,
        l2_bytes=host.l2_bytes,
        l3_bytes=host.l3_bytes,
        features=host.features,
        cpu=host.cpu,
    )


def vector_bits(features: tuple[str, ...]) -> int:
    """Return the SIMD width: AVX-512, AVX2 with FMA, else generic 128 bits."""
    if "avx512f" in features:
        return 512
    return 256 if "avx2" in features else 128


def cache_bytes(caches: Path, level: int, default: int) -> int:
    """Return the size of the data cache of one level; `default` if the kernel does not tell."""
    for index in sorted(caches.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()
            if kind != "Instruction" and int((index / "level").read_text()) == level:
                text = (index / "size").read_text().strip()
                return int(text[:-1]) * _UNITS[text[-1]]
        except (OSError, ValueError, KeyError, IndexError):
            continue
    return default
