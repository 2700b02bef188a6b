"""The contestants, as plain data. Names are keys of the result file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

OWN: Final = "own"  # the environment that runs the suite itself
BASE: Final = "base"
HALIDE: Final = "halide"
TVM: Final = "tvm"


@dataclass(frozen=True, slots=True)
class Contestant:
    """One column of the table.

    `constant_weights`: the contestant knows weights ahead of time, as in a deployed model, and may
    pack them before it is timed. `settings` are environment variables of its process, with
    `{threads}` replaced.
    """

    name: str
    title: str
    environment: str
    module: str  # module in benchmarks.suite.peers
    packages: tuple[str, ...]  # packages with recorded versions
    variant: str = ""
    constant_weights: bool = False
    ours: bool = False
    allow: tuple[str, ...] = ()  # permitted rewrites that change rounding
    settings: Mapping[str, str] = field(default_factory=dict)


OURS: Final = "ansorpy"
OURS_RUNTIME: Final = "ansorpy_rt"
OURS_64: Final = "ansorpy_64"
OURS_64_WINOGRAD: Final = "ansorpy_64_winograd"
OURS_WINOGRAD: Final = "ansorpy_winograd"
OURS_RUNTIME_WINOGRAD: Final = "ansorpy_rt_winograd"
METASCHEDULE: Final = "metaschedule"
DUEL_TRIALS: Final = 64

_TRANSFORMS: Final = ("winograd2", "winograd4")
_XLA: Final = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen={many} intra_op_parallelism_threads={threads}"
}
_US: Final = ("ansorpy", "numpy", "numba", "llvmlite")

_ALL: Final = (
    Contestant(
        OURS, "ansorpy, weights constant", OWN, "ansorpy_peer", _US, constant_weights=True,
        ours=True,
    ),
    Contestant(OURS_RUNTIME, "ansorpy", OWN, "ansorpy_peer", _US, ours=True),
    Contestant(
        OURS_WINOGRAD, "ansorpy, weights constant, Winograd allowed", OWN, "ansorpy_peer", _US,
        constant_weights=True, ours=True, allow=_TRANSFORMS,
    ),
    Contestant(
        OURS_RUNTIME_WINOGRAD, "ansorpy, Winograd allowed", OWN, "ansorpy_peer", _US, ours=True,
        allow=_TRANSFORMS,
    ),
    Contestant(
        OURS_64, f"ansorpy, {DUEL_TRIALS} trials", OWN, "ansorpy_peer", _US, ours=True
    ),
    Contestant(
        OURS_64_WINOGRAD, f"ansorpy, {DUEL_TRIALS} trials, Winograd allowed", OWN, "ansorpy_peer",
        _US, ours=True, allow=_TRANSFORMS,
    ),
    Contestant("numpy", "NumPy", BASE, "numpy_peer", ("numpy",)),
    Contestant("torch", "torch", BASE, "torch_peer", ("torch",), "eager"),
    Contestant(
        "torch_channels_last", "torch, channels last", BASE, "torch_peer", ("torch",),
        "channels_last",
    ),
    Contestant(
        "torch_packed", "torch, weights packed", BASE, "torch_peer", ("torch",), "packed",
        constant_weights=True,
    ),
    Contestant("torch_compile", "torch.compile", BASE, "torch_peer", ("torch",), "compile"),
    Contestant(
        "ort", "ONNX Runtime, weights constant", BASE, "ort_peer", ("onnxruntime", "onnx"),
        "constant", constant_weights=True,
    ),
    Contestant(
        "ort_rt", "ONNX Runtime", BASE, "ort_peer", ("onnxruntime", "onnx"), "runtime"
    ),
    Contestant(
        "openvino", "OpenVINO, weights constant", BASE, "openvino_peer", ("openvino",),
        constant_weights=True,
    ),
    Contestant("jax", "JAX", BASE, "jax_peer", ("jax", "jaxlib"), settings=_XLA),
    Contestant("halide", "Halide", HALIDE, "halide_peer", ("halide",)),
    Contestant(
        METASCHEDULE, "MetaSchedule", TVM, "tvm_peer", ("apache-tvm", "apache-tvm-ffi")
    ),
)  # fmt: skip
CONTESTANTS: Final[Mapping[str, Contestant]] = MappingProxyType({c.name: c for c in _ALL})
PEERS: Final = tuple(c.name for c in _ALL if not c.ours)


WITH_WINOGRAD: Final[Mapping[str, str]] = MappingProxyType(
    {OURS: OURS_WINOGRAD, OURS_RUNTIME: OURS_RUNTIME_WINOGRAD}
)


def ours_against(peer: str) -> str:
    """Return our column for a peer: with constant weights if the peer has them."""
    return OURS if CONTESTANTS[peer].constant_weights else OURS_RUNTIME
