"""A machine that kernels are made for, and the names by which a request asks for one."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Final, Literal, Self, TypeVar, cast

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.gpus import PRESETS, Gpu

KINDS: Final = ("cpu", "cuda")  # kinds of targets with rules: sketches and explanations
TUNED_KINDS: Final = ("cpu", "cuda")  # kinds of targets with a back end: kernels
LANE_BITS: Final = 32  # bits of the fact `vector_bits` for each thread of a tile of a GPU
LANES_OF_A_GPU: Final = 128  # threads of a block: one warp per scheduler of an SM
SUMS_OF_A_THREAD: Final = 64  # registers of 255; the rest hold operands, addresses and masks
STATIC_SHARED_BYTES: Final = 48 * 1024  # limit of ptxas for the shared memory of a text
MAX_NAME: Final = 32  # characters of the name of a target at most; LLVM's names are shorter
FACT: Final = "fact"  # metadata of a field: its name in JSON, if that is another one
_NAME: Final = re.compile(
    r"(?P<digest>[0-9a-f]{16})|(?P<kind>[a-z]+)(:(?P<arch>[A-Za-z0-9_.+-]+))?"
)

T = TypeVar("T", bound="Target")


@dataclass(frozen=True, slots=True, init=False)
class Target:
    """A device: a CpuTarget or a GpuTarget. Sizes in bytes, `cores` the threads of a kernel.

    `Target("cuda", cpu="sm_90")` makes a target of the type for the kind, "cpu" unless given.
    Code generation and the choice of matching records depend on the features, never on a
    marketing name.
    """

    kind: Literal["cpu", "cuda"]
    cores: int = 1
    l1_bytes: int = 32 * 1024  # features of the cost model count caches, of kernels for a GPU too
    l3_bytes: int = 16 * 1024 * 1024  # shared by all cores
    features: tuple[str, ...] = ()  # sorted LLVM feature names, e.g. "avx512f"
    cpu: str = ""  # LLVM's name of the processor, for code generation only; "sm_90" of a GPU

    def __new__(cls, kind: str = "cpu", cores: int = 1, *more: Any, **named: Any) -> Self:
        """Return a target that is not initialised, of the type for the kind."""
        if cls is not Target:
            return object.__new__(cls)
        made: Any = _type_of(kind)
        names = [one.name for one in fields(made)]
        wrong = [*map(repr, more), *(name for name in named if name not in names)]
        if wrong:
            raise TypeError(
                f"cannot make a {made.__name__} of {wrong[0]} because its facts have other names;"
                f" expected {listed(f'{name}=' for name in names[2:])} after kind and cores"
            )
        return cast(Self, object.__new__(made))

    def __post_init__(self) -> None:
        if type(self) is not _type_of(self.kind):
            raise TypeError(f"cannot make a {type(self).__name__} of kind {self.kind!r}")

    @staticmethod
    def of_facts(facts: Mapping[str, Any]) -> "Target":
        """Return the target with these `facts`; other names are ignored, missing ones default."""
        made = _type_of(facts.get("kind", "cpu"))
        named = {one.name: one.metadata.get(FACT, one.name) for one in fields(made)}
        told = {name: facts[fact] for name, fact in named.items() if fact in facts}
        if "features" in told:
            told["features"] = tuple(told["features"])
        if "tile_threads" in told:
            told["tile_threads"] //= LANE_BITS
        if told.get("gpu"):
            told["gpu"] = Gpu(**told["gpu"])
        return made(**told)

    def facts(self) -> dict[str, Any]:
        """Return the facts under their names in JSON; facts of the other type have defaults."""
        own = asdict(self)
        told = {one.metadata.get(FACT, one.name): own[one.name] for one in fields(self)}
        if "tile_threads" in own:
            told["vector_bits"] *= LANE_BITS
        return _FACTS | told | {"features": list(self.features)}

    @property
    def timed_facts(self) -> tuple[Any, ...]:
        """The facts that influence times, but for `features`, as `records.target_digest` has them.

        Threads do not count.
        """
        raise NotImplementedError

    def lanes(self, dtype: str) -> int:
        """Return how many elements of `dtype` a vector holds, or the threads of a tile of a GPU."""
        raise NotImplementedError

    @property
    def tile_registers(self) -> int:
        """Registers for the sums of a tile: of vectors, or of a thread of a GPU."""
        raise NotImplementedError

    @property
    def scratch_bytes(self) -> int:
        """Memory that the scratch of a task must fit: L2, or shared memory of a block."""
        raise NotImplementedError

    @property
    def host_threads(self) -> int:
        """Threads of this machine that a kernel runs on."""
        raise NotImplementedError

    @property
    def names(self) -> tuple[str, ...]:
        """KIND and KIND:ARCH of this target; its digest is a third name (`records`)."""
        return names_of(self.kind, self.cpu)


@dataclass(frozen=True, slots=True)
class CpuTarget(Target):
    """A processor."""

    kind: Literal["cpu"] = "cpu"
    vector_bits: int = 512  # SIMD width
    registers: int = 32  # architectural vector registers
    l2_bytes: int = 1024 * 1024

    @property
    def timed_facts(self) -> tuple[Any, ...]:
        """Sizes of vectors and caches."""
        return (self.vector_bits, self.registers, self.l1_bytes, self.l2_bytes)

    def lanes(self, dtype: str) -> int:
        """Return how many elements of `dtype` one vector register holds (at least 1)."""
        return max(1, self.vector_bits // 8 // SIZE_BYTES[dtype])

    @property
    def tile_registers(self) -> int:
        """All vector registers."""
        return self.registers

    @property
    def scratch_bytes(self) -> int:
        """The L2 cache of a core."""
        return self.l2_bytes

    @property
    def host_threads(self) -> int:
        """The threads of a kernel."""
        return self.cores


@dataclass(frozen=True, slots=True)
class GpuTarget(Target):
    """A GPU: `cores` are its streaming multiprocessors, lanes are threads.

    A block takes the place of a core. In JSON, `tile_threads`, `thread_registers` and
    `block_bytes` have the names of the facts of a processor that they stand for.
    """

    kind: Literal["cuda"] = "cuda"
    # Most threads of a tile, registers of a thread for it, and shared memory for the scratch of a
    # block. The defaults are for derivations of sketches.
    tile_threads: int = field(default=16, metadata={FACT: "vector_bits"})
    thread_registers: int = field(default=32, metadata={FACT: "registers"})
    block_bytes: int = field(default=1024 * 1024, metadata={FACT: "l2_bytes"})
    warp: int = 32  # threads that run in lockstep
    max_threads: int = 1024  # threads of one block
    shared_bytes: int = STATIC_SHARED_BYTES  # shared memory of one block
    gpu: Gpu | None = None  # facts of the device; None for derivations of sketches only

    @property
    def timed_facts(self) -> tuple[Any, ...]:
        """The architecture and every fact, but for those that follow from it alone."""
        gpu = asdict(self.gpu) if self.gpu else {}
        gpu.pop("bf16_per_clock", None)  # follows from the architecture; old records lack it
        return (self.cpu, self.warp, self.max_threads, self.shared_bytes, gpu)

    def lanes(self, dtype: str) -> int:
        """Return the threads of a tile, whose number does not depend on the dtype (at least 1)."""
        return max(1, self.tile_threads)

    @property
    def tile_registers(self) -> int:
        """The registers of a thread for a tile."""
        return self.thread_registers

    @property
    def scratch_bytes(self) -> int:
        """The shared memory of a block for its scratch."""
        return self.block_bytes

    @property
    def host_threads(self) -> int:
        """One: a GPU is emulated on a thread."""
        return 1

    @property
    def capability(self) -> int:
        """The compute capability as one number, 90 of "sm_90"; 0 if it is not known."""
        found = re.match(r"sm_(\d+)", self.cpu)
        return int(found[1]) if found else 0


# Names of all facts in JSON, in order; facts of a GPU have these values for a processor.
_FACTS: Final[dict[str, Any]] = {
    **dict.fromkeys(("kind", "cores", "vector_bits", "registers")),
    **dict.fromkeys(("l1_bytes", "l2_bytes", "l3_bytes", "features", "cpu")),
    "warp": 32, "max_threads": 1024, "shared_bytes": STATIC_SHARED_BYTES, "gpu": None,
}  # fmt: skip


def _type_of(kind: str) -> type[CpuTarget] | type[GpuTarget]:
    return GpuTarget if kind == "cuda" else CpuTarget


def expected(target: Target, kind: type[T]) -> T:
    """Return a target of a type.

    Raises:
        TypeError: its type is another one.
    """
    if not isinstance(target, kind):
        raise TypeError(f"cannot use target {target.names[-1]}; expected a {kind.__name__}")
    return target


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


def cuda_target(arch: str) -> GpuTarget:
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


def gpu_target(arch: str, gpu: Gpu) -> GpuTarget:
    """Return the target of a GPU with these facts."""
    return GpuTarget(
        cores=gpu.sms,
        cpu=arch,
        tile_threads=LANES_OF_A_GPU,
        thread_registers=SUMS_OF_A_THREAD,
        block_bytes=STATIC_SHARED_BYTES,
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


def require_gpu(target: GpuTarget) -> None:
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
