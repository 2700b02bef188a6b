"""A machine that kernels are made for, and the names by which a request asks for one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.gpus import PRESETS, Gpu

KINDS: Final = ("cpu", "cuda")  # kinds of targets with rules: sketches and explanations
TUNED_KINDS: Final = ("cpu", "cuda")  # kinds of targets with a back end: kernels
LANE_BITS: Final = 32  # bits of `vector_bits` for each lane of a GPU
LANES_OF_A_GPU: Final = 128  # threads of a block: one warp per scheduler of an SM
SUMS_OF_A_THREAD: Final = 64  # registers of 255; the rest hold operands, addresses and masks
STATIC_SHARED_BYTES: Final = 48 * 1024  # limit of ptxas for the shared memory of a text
MAX_NAME: Final = 32  # characters of the name of a target at most; LLVM's names are shorter
_NAME: Final = re.compile(
    r"(?P<digest>[0-9a-f]{16})|(?P<kind>[a-z]+)(:(?P<arch>[A-Za-z0-9_.+-]+))?"
)


@dataclass(frozen=True, slots=True)
class Target:
    """A device. Sizes in bytes, `vector_bits` the SIMD width, `cores` the threads of a kernel.

    The cores of a GPU are its streaming multiprocessors.

    Code generation and the choice of matching records depend on the features, never on a
    marketing name.
    """

    kind: Literal["cpu", "cuda"] = "cpu"
    cores: int = 1
    vector_bits: int = 512  # CUDA: 32 times the threads that a tile has at most
    registers: int = 32  # architectural vector registers; CUDA: registers of a thread for a tile
    l1_bytes: int = 32 * 1024
    l2_bytes: int = 1024 * 1024
    l3_bytes: int = 16 * 1024 * 1024  # shared by all cores
    features: tuple[str, ...] = ()  # sorted LLVM feature names, e.g. "avx512f"
    cpu: str = ""  # LLVM's name of the processor, for code generation only; "sm_90" of a GPU
    warp: int = 32  # CUDA: threads that run in lockstep
    max_threads: int = 1024  # CUDA: threads of one block
    shared_bytes: int = STATIC_SHARED_BYTES  # CUDA: shared memory of one block
    gpu: Gpu | None = None  # CUDA: facts of the device; None for derivations of sketches only

    def __post_init__(self) -> None:
        if self.gpu is not None and self.kind != "cuda":
            raise ValueError(f"a target of kind {self.kind!r} has no GPU")

    def lanes(self, dtype: str) -> int:
        """Return how many elements of `dtype` one vector register holds (at least 1).

        The lanes of a GPU are threads, whose number does not depend on the dtype: as many as there
        are elements of 32 bits.
        """
        if self.kind == "cuda":
            return max(1, self.vector_bits // LANE_BITS)
        return max(1, self.vector_bits // 8 // SIZE_BYTES[dtype])

    @property
    def host_threads(self) -> int:
        """Threads of this machine that a kernel runs on: a GPU is emulated on one."""
        return self.cores if self.kind == "cpu" else 1

    @property
    def capability(self) -> int:
        """The compute capability of a GPU as one number, 90 of "sm_90"; 0 if it is not known."""
        found = re.match(r"sm_(\d+)", self.cpu)
        return int(found[1]) if found else 0

    @property
    def names(self) -> tuple[str, ...]:
        """KIND and KIND:ARCH of this target; its digest is a third name (`records`)."""
        return names_of(self.kind, self.cpu)


@dataclass(frozen=True, slots=True)
class TargetName:
    """A target as a request names it: `cpu`, `cpu:znver4`, `cuda:sm_90`, or a digest.

    The architecture of a CPU is LLVM's name of the processor.
    """

    kind: str = ""  # "" of a digest
    arch: str = ""
    digest: str = ""


def names_of(kind: str, arch: str) -> tuple[str, ...]:
    """Return KIND, and KIND:ARCH if the architecture is known."""
    return (kind, f"{kind}:{arch}") if arch else (kind,)


GPU_NAMES: Final = tuple(name for arch in PRESETS for name in names_of("cuda", arch)[1:])


def parse_target(text: str, known: Iterable[str]) -> TargetName:
    """Read KIND[:ARCH] or a digest of 16 hex digits.

    Args:
        known: names of targets, for the message only.

    Raises:
        SpecError: the text has neither form, or no such kind exists.
    """
    found = _NAME.fullmatch(text) if len(text) <= MAX_NAME else None
    if found is None:
        raise SpecError(
            f"cannot read target {text[:MAX_NAME]!r} because it is neither KIND[:ARCH] nor a digest"
            f" of 16 hex digits; expected {listed(known)}"
        )
    name = TargetName(**{part: value or "" for part, value in found.groupdict().items()})
    if name.kind and name.kind not in KINDS:
        raise unknown_target(text, known)
    return name


def cuda_target(arch: str) -> Target:
    """Return the target of a GPU by its architecture: the preset `sm_80` or `sm_90`.

    Raises:
        SpecError: no architecture is given, or it has no preset.
    """
    gpu = PRESETS.get(arch)
    if gpu is None:
        reason = f"{arch} has no preset" if arch else "no architecture is named"
        asked = f"cuda:{arch}" if arch else "cuda"
        raise SpecError(f"cannot use target {asked} because {reason}; expected {listed(GPU_NAMES)}")
    return gpu_target(arch, gpu)


def gpu_target(arch: str, gpu: Gpu) -> Target:
    """Return the target of a GPU with these facts.

    A block takes the place of a core: lanes are threads, registers the sums of a thread, and the
    L2 cache, which scratch must fit, is shared memory.
    """
    return Target(
        "cuda",
        cores=gpu.sms,
        vector_bits=LANE_BITS * LANES_OF_A_GPU,
        registers=SUMS_OF_A_THREAD,
        l2_bytes=STATIC_SHARED_BYTES,
        cpu=arch,
        warp=gpu.warp,
        max_threads=gpu.max_threads_per_block,
        shared_bytes=STATIC_SHARED_BYTES,
        gpu=gpu,
    )


def unknown_target(text: str, known: Iterable[str]) -> SpecError:
    """Return the error of a well-formed name that no known target has."""
    return SpecError(
        f"cannot tune for {text} because no known target has that name; expected {listed(known)}"
    )


def require_back_end(kind: str) -> None:
    """Refuse a kind of target that kernels cannot be built for.

    Raises:
        SpecError: the kind has no back end.
    """
    if kind not in TUNED_KINDS:
        raise SpecError(
            f"cannot tune for {kind} because {kind} has no back end; expected {listed(TUNED_KINDS)}"
        )


def require_gpu(target: Target) -> None:
    """Refuse a target for derivations only: a GPU without its facts.

    Raises:
        SpecError: the target has no facts.
    """
    if target.gpu is None:
        raise SpecError(
            f"cannot tune for {target.names[-1]} because the facts of its GPU are missing; expected"
            f" {listed(GPU_NAMES)}"
        )


def require_cores(cores: int, most: int, place: str) -> None:
    """Refuse more threads than a machine has cores.

    Args:
        place: the machine, for the message.

    Raises:
        SpecError: names both numbers.
    """
    if cores > most:
        raise SpecError(
            f"cannot tune for {cores} cores because {place} has {most}; expected 1 to {most}"
        )


def listed(names: Iterable[str]) -> str:
    """Return `a, b or c`."""
    *most, last = names
    return f"{', '.join(most)} or {last}" if most else last
