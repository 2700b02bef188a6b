"""Facts of NVIDIA GPUs, by architecture."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final


@dataclass(frozen=True, slots=True)
class Gpu:
    """Resources and peak rates of a GPU; an SM is a streaming multiprocessor.

    Args:
        sms: streaming multiprocessors.
        registers_per_sm: registers of 32 bits.
        registers_per_thread: largest count that the instruction set can name.
        registers_per_allocation: step in which the registers of a warp are given out.
        shared_bytes_per_sm: shared memory, the part that the driver keeps included.
        shared_bytes_per_block: largest size a kernel may ask for.
        shared_bytes_reserved: shared memory of each block that the driver keeps.
        shared_bytes_per_allocation: step in which shared memory is given out.
        max_threads_per_sm: resident threads.
        max_threads_per_block: threads of a block.
        max_blocks_per_sm: resident blocks.
        schedulers_per_sm: each issues one warp instruction per clock.
        warp: threads that issue together.
        l2_bytes: last-level cache.
        memory_bytes_per_s: peak bandwidth of the device memory.
        clock_hz: boost clock.
        ffma_per_clock: float32 multiply-adds of one SM in one clock.
        bf16_per_clock: bfloat16 multiply-adds of one SM in one clock, by the matrix instruction of
            a warp with sums in float32.
    """

    sms: int
    registers_per_sm: int
    registers_per_thread: int
    registers_per_allocation: int
    shared_bytes_per_sm: int
    shared_bytes_per_block: int
    shared_bytes_reserved: int
    shared_bytes_per_allocation: int
    max_threads_per_sm: int
    max_threads_per_block: int
    max_blocks_per_sm: int
    schedulers_per_sm: int
    warp: int
    l2_bytes: int
    memory_bytes_per_s: float
    clock_hz: float
    ffma_per_clock: int
    bf16_per_clock: int

    @property
    def peak_flop_per_s(self) -> float:
        """Float32 operations per second at the boost clock; a multiply-add counts as two."""
        return 2.0 * self.ffma_per_clock * self.sms * self.clock_hz


# Resources per SM and block: "Technical Specifications per Compute Capability", CUDA C++
# Programming Guide 13.0, columns 8.0 and 9.0. Reserved bytes and allocation steps: occupancy
# calculator of Nsight Compute. SMs, L2, bandwidth and clock: tables of the whitepapers "NVIDIA
# A100 Tensor Core GPU Architecture" (SXM4, 40 GB) and "NVIDIA H100 Tensor Core GPU Architecture"
# (SXM5); the clock of the H100 follows from the 66.9 TFLOP/s of float32 stated there. The bfloat16
# rate of the A100 follows from its 312 TFLOP/s. The bfloat16 rate of the H100 is an estimate, not
# checked on a device: mma.sync gets 63 % of the 2048 multiply-adds that wgmma gets.
_A100: Final = Gpu(
    sms=108,
    registers_per_sm=65536,
    registers_per_thread=255,
    registers_per_allocation=256,
    shared_bytes_per_sm=164 * 1024,
    shared_bytes_per_block=163 * 1024,
    shared_bytes_reserved=1024,
    shared_bytes_per_allocation=128,
    max_threads_per_sm=2048,
    max_threads_per_block=1024,
    max_blocks_per_sm=32,
    schedulers_per_sm=4,
    warp=32,
    l2_bytes=40 * 1024 * 1024,
    memory_bytes_per_s=1555e9,
    clock_hz=1410e6,
    ffma_per_clock=64,
    bf16_per_clock=1024,
)
PRESETS: Final[Mapping[str, Gpu]] = {
    "sm_80": _A100,
    "sm_90": replace(
        _A100,
        sms=132,
        shared_bytes_per_sm=228 * 1024,
        shared_bytes_per_block=227 * 1024,
        l2_bytes=50 * 1024 * 1024,
        memory_bytes_per_s=3352e9,
        clock_hz=1980e6,
        ffma_per_clock=128,
        bf16_per_clock=1280,
    ),
}
