"""Processor features that a delivered kernel was made for."""

from collections.abc import Sequence
from typing import Final

from ansorpy.codegen.phase_utilities import MATRICES_READY
from ansorpy.target import CpuTarget, Target, expected

# By SIMD width in bits: the features that explicit vectors are compiled to.
_WIDTHS: Final = {
    512: ("avx2", "avx512bw", "avx512dq", "avx512f", "avx512vl", "fma"),
    256: ("avx2", "fma"),
    128: ("neon", "sse2"),
}
# By text of the source: instructions that a kernel names one by one.
_INSTRUCTIONS: Final = {
    "llvm.x86.avx512bf16.": "avx512bf16",
    "llvm.x86.avx512.vpdpbusd": "avx512vnni",
    "llvm.x86.avx512.vpdpwssd": "avx512vnni",
    "llvm.x86.avx512.vpermi2var.qi": "avx512vbmi",
    "llvm.x86.avx512.mask.cvtneps2bf16": "avx512bf16",
    "llvm.x86.avx512fp16.": "avx512fp16",
    MATRICES_READY: "amx-tile",
    "llvm.x86.tdpbf16ps": "amx-bf16",
    "llvm.x86.tdpbs": "amx-int8",
    "llvm.x86.tdpbu": "amx-int8",
}


def needed_features(source: str, target: Target) -> tuple[str, ...]:
    """Return the sorted LLVM feature names without which `source` is not the kernel we measured.

    A kernel for wide vectors would still compile elsewhere, but to other and slower code than the
    verified and timed one: so it is refused there. Features of the tuning machine that the kernel
    does not use (crypto, virtualisation) are not among them.
    """
    by_width = set(_WIDTHS[expected(target, CpuTarget).vector_bits]).intersection(target.features)
    by_name = {feature for text, feature in _INSTRUCTIONS.items() if text in source}
    return tuple(sorted(by_width | by_name))


def lacking(needed: Sequence[str], present: Sequence[str]) -> tuple[str, ...]:
    """Return the needed features that are not present, in order."""
    there = set(present)
    return tuple(name for name in needed if name not in there)
