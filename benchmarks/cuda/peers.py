"""Other libraries on the same card: torch with cuBLAS and cuDNN, Inductor, Triton, if there.

A peer is captured as a CUDA graph and replayed as own kernels are. TF32 is off.
"""

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from ansorpy.measure.backend import TimedCall
from ansorpy.measure.verify.inputs import random_inputs
from ansorpy.te.dag import Dag

FLUSH_BYTES: Final = 256 << 20  # more than twice the L2 cache of every card
WARM_UP: Final = 3  # calls before a capture: libraries choose algorithms and allocate
NAMES: Final = ("torch", "inductor", "triton")


@dataclass(frozen=True, slots=True)
class Peer:
    """A peer as a call on the card, or the reason why it is missing."""

    name: str
    call: TimedCall | None
    missing: str = ""


def peers_of(operator: str, dag: Dag, emulated: bool) -> Iterator[Peer]:
    """Yield every peer of an operator."""
    for name in NAMES:
        if name == "triton" and not operator.startswith("matmul"):
            continue
        if emulated:
            yield Peer(name, None, "no peer runs on the emulated driver")
            continue
        try:
            yield Peer(name, _call(name, operator, dag))
        except Exception as error:  # noqa: BLE001 - a peer may fail in any way; its row says so
            yield Peer(name, None, f"{type(error).__name__}: {error}"[:300])


def _call(name: str, operator: str, dag: Dag) -> TimedCall:
    torch = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise RuntimeError("this torch finds no GPU")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    arrays = random_inputs(dag, np.random.default_rng(0))
    inputs = [torch.from_numpy(array).cuda() for array in arrays.values()]
    function = form(torch, operator)
    if name == "inductor":
        function = torch.compile(function, mode="max-autotune-no-cudagraphs", dynamic=False)
    elif name == "triton":
        function = importlib.import_module("benchmarks.cuda.triton_matmul").matmul
    return TorchCall(torch, lambda: function(*inputs))


def form(torch: Any, operator: str) -> Callable[..., Any]:
    """Return an operator of the harness as a function of torch, inputs in the order of its Dag."""
    functional = torch.nn.functional
    convolutions: Mapping[str, Callable[..., Any]] = {
        "conv2d grouped": lambda x, w: functional.conv2d(x, w, padding=1, groups=32),
        "depthwise": lambda x, w: functional.conv2d(x, w[:, None], padding=1, groups=len(w)),
        "conv2d nhwc": lambda x, w: functional.conv2d(
            x.permute(0, 3, 1, 2), w.permute(3, 2, 0, 1), padding=1
        ),
        "conv2d bias relu": lambda x, w, b: torch.relu(functional.conv2d(x, w, b, padding=1)),
    }
    if operator in convolutions:
        return convolutions[operator]
    rows: Mapping[str, Callable[..., Any]] = {
        "matmul": lambda a, b: a @ b,
        "softmax": lambda x: torch.softmax(x, 1),
        "layer norm": lambda x, g, b: functional.layer_norm(x, (x.shape[1],), g, b, 1e-5),
        "rms norm": lambda x, g: x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5) * g,
        "row sum": lambda x: x.sum(1),
        "column sum": lambda x: x.sum(0),
        "chain": lambda x, g, b: x + functional.silu(torch.tanh(x * g + b)),
        "max pool": lambda x: functional.max_pool2d(x, 3, 2, 1),
        "conv2d": lambda x, w: functional.conv2d(x, w, padding=1),
    }
    return next(made for start, made in rows.items() if operator.startswith(start))


class TorchCall:
    """A function of torch as a graph, timed by events; `cold` overwrites the L2 cache before."""

    def __init__(self, torch: Any, function: Callable[[], Any], flush: bool = False) -> None:
        self._torch, self._function = torch, function
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                function()
        stream.synchronize()
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._result = function()
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda") if flush else None

    def __call__(self) -> None:
        """Run the function once."""
        self._graph.replay()
        self._torch.cuda.synchronize()

    def seconds(self, loops: int) -> float:
        """Return the seconds of `loops` replays, flushes left out."""
        if self._flush is None:
            return self._between(loops)
        total = 0.0
        for turn in range(loops):
            self._flush.fill_(turn % 256)
            total += self._between(1)
        return total

    def cold(self) -> "TorchCall":
        """Return the function with the L2 cache overwritten before every timed replay."""
        return TorchCall(self._torch, self._function, flush=True)

    def _between(self, loops: int) -> float:
        first, last = (self._torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        for _ in range(loops):
            self._graph.replay()
        last.record()
        last.synchronize()
        return float(first.elapsed_time(last)) * 1e-3
