"""The machine of a benchmark, with its limits as measured in the same run."""

import importlib.util
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from ansorpy.measure.host import local_target
from ansorpy.measure.roofline import copy_bytes_per_s, peak_flop_per_s
from benchmarks.common import commit, today

PACKAGES: Final = (
    "ansorpy", "numpy", "numba", "llvmlite", "lightgbm", "torch", "matplotlib", "onnx",
    "onnxruntime", "openvino",
)  # fmt: skip
CACHES: Final = Path("/sys/devices/system/cpu/cpu0/cache")
LARGE_BYTES: Final = 256 << 20  # bytes; larger than the caches


def run_facts(threads: int, seed: int, **settings: object) -> dict[str, Any]:
    """Return the facts that are stored once per start of a benchmark."""
    return {
        "date": today(),
        "commit": commit(),
        "seed": seed,
        "settings": settings,
        "versions": versions(),
        "machine": machine(threads),
    }


def machine(threads: int) -> dict[str, Any]:
    """Return processor, caches and measured limits on `threads` threads."""
    target = local_target(threads)
    return {
        "cpu": target.cpu,
        "model": cpu_model(),
        "features": list(target.features),
        "vector_bits": target.vector_bits,
        "cores": len(os.sched_getaffinity(0)),
        "caches": caches(),
        "threads": threads,
        "fma_float32_flop_per_s": peak_flop_per_s(target, "float32", 8),
        "copy_bytes_per_s": copy_bytes_per_s(threads, LARGE_BYTES, 5),
        "copy_working_set_bytes": LARGE_BYTES,
        "load_1min": os.getloadavg()[0],
    }


def versions() -> dict[str, str]:
    """Return the versions of the packages that are installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def has_torch() -> bool:
    """Return whether torch can be imported, without importing it."""
    return importlib.util.find_spec("torch") is not None


def caches(folder: Path = CACHES) -> dict[str, str]:
    """Return the size of every cache of the first core, as Linux reports it."""
    found = {}
    for index in sorted(folder.glob("index*")):
        try:
            kind = (index / "type").read_text().strip()[0].lower()
            name = f"L{(index / 'level').read_text().strip()}{'' if kind == 'u' else kind}"
            found[name] = (index / "size").read_text().strip()
        except OSError:
            continue
    return found


def cpu_model() -> str:
    """Return the marketing name of the processor, "" if Linux does not report it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return ""
