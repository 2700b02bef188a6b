"""What the search knows of the machine a kernel is made for."""

from dataclasses import dataclass
from typing import Literal

from ansorpy.te.expr import SIZE_BYTES


@dataclass(frozen=True, slots=True)
class Target:
    """A device. Sizes in bytes, `vector_bits` the SIMD width, `cores` the threads of a kernel.

    The features, never a marketing name, decide what code is made and what records fit.
    """

    kind: Literal["cpu", "cuda"] = "cpu"
    cores: int = 1
    vector_bits: int = 512
    registers: int = 32  # architectural vector registers
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    l3_bytes: int = 16 * 1024 * 1024  # shared by all cores
    features: tuple[str, ...] = ()  # sorted LLVM feature names, e.g. "avx512f"
    cpu: str = ""  # LLVM's name of the processor, for code generation only
    warp: int = 32  # CUDA: threads that run in lockstep
    max_threads: int = 1024  # CUDA: threads of one block
    shared_bytes: int = 48 * 1024  # CUDA: shared memory of one block

    def lanes(self, dtype: str) -> int:
        """Return how many elements of `dtype` one vector register holds (at least 1)."""
        return max(1, self.vector_bits // 8 // SIZE_BYTES[dtype])
