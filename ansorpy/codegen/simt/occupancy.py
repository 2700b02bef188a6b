"""Blocks of a kernel that fit a streaming multiprocessor at once."""

from dataclasses import dataclass

from ansorpy.gpus import Gpu


@dataclass(frozen=True, slots=True)
class GpuOccupancy:
    """Resident blocks of one SM, and the resource that bounds them; 0 blocks cannot be launched."""

    blocks_per_sm: int
    warps_per_sm: int
    share: float  # resident threads of the most that an SM can hold, from 0 to 1
    bound_by: str  # "registers", "shared", "threads" or "blocks"


def occupancy(gpu: Gpu, threads: int, registers: int, shared_bytes: int) -> GpuOccupancy:
    """Return the occupancy of a kernel.

    Args:
        threads: of a block.
        registers: of a thread.
        shared_bytes: of a block, without those that the driver keeps.

    Source: occupancy calculator of Nsight Compute.
    """
    if registers < 1 or threads < 1:
        raise ValueError(f"a block of {threads} threads with {registers} registers each")
    warps = -(-threads // gpu.warp)
    limits = {
        "registers": _by_registers(gpu, warps, registers),
        "shared": _by_shared(gpu, shared_bytes),
        "threads": _by_threads(gpu, threads, warps),
        "blocks": gpu.max_blocks_per_sm,
    }
    bound_by = min(limits, key=lambda name: limits[name])
    blocks = limits[bound_by]
    share = blocks * warps * gpu.warp / gpu.max_threads_per_sm
    return GpuOccupancy(blocks, blocks * warps, share, bound_by)


def _by_registers(gpu: Gpu, warps: int, registers: int) -> int:
    if registers > gpu.registers_per_thread:
        return 0
    of_warp = _up(registers * gpu.warp, gpu.registers_per_allocation)
    # Each scheduler has registers of its own, and a warp lies within one.
    per_scheduler = gpu.registers_per_sm // gpu.schedulers_per_sm // of_warp
    return per_scheduler * gpu.schedulers_per_sm // warps


def _by_shared(gpu: Gpu, shared_bytes: int) -> int:
    if shared_bytes > gpu.shared_bytes_per_block:
        return 0
    held = _up(shared_bytes + gpu.shared_bytes_reserved, gpu.shared_bytes_per_allocation)
    return gpu.shared_bytes_per_sm // held


def _by_threads(gpu: Gpu, threads: int, warps: int) -> int:
    if threads > gpu.max_threads_per_block:
        return 0
    return gpu.max_threads_per_sm // gpu.warp // warps


def _up(count: int, step: int) -> int:
    return -(-count // step) * step
