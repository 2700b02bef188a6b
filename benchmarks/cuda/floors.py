"""Section `floors`: rates that no kernel exceeds, and the least seconds of a launch."""

from collections.abc import Mapping

from benchmarks.cuda.bench import CONTROL, Bench, control
from benchmarks.cuda.texts import Floor, copies, multiply_adds, nothing, shared_loads

MB = 1 << 20


def floors(sms: int, l2_bytes: int, emulated: bool) -> Mapping[str, Floor]:
    """Return the kernels of the section by name."""
    if emulated:
        return {
            "FFMA": multiply_adds(2, 2),
            "LDS": shared_loads(2, 2),
            "copy in L2": copies(2048),
            "copy 1 GB": copies(4096),
            "launch": nothing(),
        }
    return {
        "FFMA": multiply_adds(8 * sms, 512),
        "LDS": shared_loads(8 * sms, 512),
        # Both arrays fit a quarter of the cache.
        "copy in L2": copies(l2_bytes // 8 // 4 // 1024 * 1024),
        "copy 256 MB": copies(256 * MB // 4),
        "copy 1 GB": copies(1024 * MB // 4),
        "launch": nothing(),
    }


def travelling(sms: int, l2_bytes: int) -> Mapping[str, Floor]:
    """Return the kernels of known work that every section may need, by name."""
    more = {CONTROL: control(sms), "copy 1024": copies(1024)}
    return {**floors(sms, l2_bytes, emulated=False), **more}


def run(bench: Bench) -> None:
    """Time the kernels."""
    gpu = bench.facts.gpu
    for name, floor in floors(gpu.sms, gpu.l2_bytes, bench.emulated).items():
        call = bench.bound(bench.floor_code(floor, name))
        rates = {
            "flop": floor.flop,
            "shared_bytes": floor.shared_bytes,
            "memory_bytes": floor.memory_bytes,
        }
        work = {unit: amount for unit, amount in rates.items() if amount}
        bench.time(name, call, work)
