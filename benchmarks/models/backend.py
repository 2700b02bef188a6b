"""torch.compile with our backend beside Inductor and eager torch, in turns.

    python -m benchmarks.models.backend [--trials N] [--threads N] [--visits N] [NAME ...]
    python -m benchmarks.models.backend --lengths 100 [--trials N] [--threads N]

Runs in an environment with torch, torchvision, transformers and safetensors. Inductor freezes the
weights, as our backend does. The error is the largest difference to eager torch as a share of the
largest element, on an input that was not compiled for. `--lengths` compiles minilm once for all
lengths (`dynamic=True`), calls it with this many, and counts compilations. The exit code is 1 if an
error is larger than BOUND.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from statistics import geometric_mean
from typing import Any, Final
from unittest import mock

import numpy as np

from ansorpy.model.check_bounds import LEAST_BOUND
from benchmarks.common import in_turns, spread
from benchmarks.machine import machine
from benchmarks.models.ladder import SEED, minilm, tokens, vision

BOUND: Final = LEAST_BOUND  # share of the largest element
VISIT_S: Final = 1.0  # seconds of the calls of one contestant before the next one's turn
WARM_CALLS: Final = 2  # untimed calls of a visit
MOST: Final = 128  # the largest length of minilm with `--lengths`
SAMPLES: Final = 7
SAMPLE_S: Final = 0.03

Call = Callable[[], Any]
NETS: Final[Mapping[str, Callable[[], tuple[Any, tuple[Any, ...]]]]] = {
    "resnet18": vision("resnet18"), "mobilenet_v2": vision("mobilenet_v2"), "minilm": minilm,
}  # fmt: skip


def other_inputs(name: str, inputs: Sequence[Any]) -> tuple[Any, ...]:
    """Return inputs of the same shapes with other values."""
    import torch

    if name == "minilm":
        return (tokens(20_000, inputs[0].shape[1]), *inputs[1:])
    return tuple(torch.randn_like(one) for one in inputs)


def visited(call: Call) -> list[float]:
    """Return the times of calls in seconds during one visit."""
    for _ in range(WARM_CALLS):
        call()
    times, end = [], time.perf_counter() + VISIT_S
    while time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return times


def measured(name: str, trials: int, threads: int, visits: int) -> float:
    """Print the rows of a network and return its error."""
    import torch
    import torch._inductor.config as inductor

    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    module, inputs = NETS[name]()
    module.eval()
    inductor.freezing = True
    options = {"trials": trials, "cores": threads, "strict": True}
    contestants = {
        "ansorpy": torch.compile(module, backend="ansorpy", options=options, fullgraph=True),
        "inductor": torch.compile(module, fullgraph=True),
        "eager": module,
    }
    with torch.no_grad():
        first_s = {}
        for who, net in contestants.items():
            begin = time.perf_counter()
            net(*inputs)
            first_s[who] = time.perf_counter() - begin
        others = other_inputs(name, inputs)
        wanted = module(*others)
        error = float((contestants["ansorpy"](*others) - wanted).abs().max() / wanted.abs().max())
        times: dict[str, list[float]] = {who: [] for who in contestants}
        for _ in range(visits):
            for who, net in contestants.items():
                times[who] += visited(partial(net, *inputs))
    for who, all_s in times.items():
        told = spread(all_s)
        print(
            f"{name:14} {who:9} median {told.median * 1e3:8.2f} ms, least {told.least * 1e3:8.2f},"
            f" {len(all_s):5} calls, first call {first_s[who]:6.1f} s",
            flush=True,
        )
    print(f"{name:14} error {error:.1e} of the largest element, bound {BOUND:.0e}", flush=True)
    return error


def measured_lengths(count: int, trials: int, threads: int) -> float:
    """Print the times of minilm at random lengths, after one compilation; return its error."""
    import torch
    import torch._inductor.config as inductor
    from torch._dynamo.utils import counters

    from ansorpy.model import torch_backend, torch_compile

    torch.set_num_threads(threads)
    torch.manual_seed(SEED)
    module = minilm()[0].eval()
    inductor.freezing = True
    drawn = np.random.default_rng(SEED).choice(np.arange(2, MOST + 1), count, replace=False)
    inputs = [(tokens(20_000, int(n)), torch.ones(1, int(n), dtype=torch.int64)) for n in drawn]
    options = {"trials": trials, "cores": threads, "strict": True, "max_size": MOST}
    nets = {
        "ansorpy": torch.compile(module, backend="ansorpy", options=options, dynamic=True),
        "inductor": torch.compile(module, dynamic=True),
    }
    compiled = torch_compile.compile_program
    error = 0.0
    with torch.no_grad(), mock.patch.object(torch_backend, "compile_program", wraps=compiled) as to:
        for who, net in nets.items():
            graphs, begin = counters["stats"]["unique_graphs"], time.perf_counter()
            net(*inputs[0])
            first_s = time.perf_counter() - begin
            for given in inputs:
                wanted = module(*given)
                error = max(error, float((net(*given) - wanted).abs().max() / wanted.abs().max()))
            graphs = counters["stats"]["unique_graphs"] - graphs
            made = to.call_count if who == "ansorpy" else graphs
            print(f"{who:9} first call {first_s:6.1f} s, {made} compilations of {graphs} graphs")
        ratios = {}
        for given in inputs:
            calls = [partial(net, *given) for net in nets.values()]
            ours, theirs = (spread(one).median for one in in_turns(calls, SAMPLES, SAMPLE_S))
            ratios[given[0].shape[1]] = theirs / ours
    least = min(ratios, key=lambda n: ratios[n])
    print(
        f"{count} lengths: ansorpy {geometric_mean(ratios.values()):.2f} times as fast as Inductor,"
        f" at least {ratios[least]:.2f} (length {least}); error {error:.1e}"
    )
    return error


def main() -> int:
    """Run the command; return its exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETS))
    parser.add_argument("--trials", type=int, default=0, help="of all tasks of a network together")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--visits", type=int, default=8, help="of each contestant")
    parser.add_argument("--lengths", type=int, default=0, help="of calls, after one compilation")
    args = parser.parse_args()
    for name in args.names:
        if name not in NETS:
            parser.error(f"cannot measure {name!r}; expected {', '.join(NETS)}")
    facts = machine(args.threads)
    print(f"{facts['model']}, {args.threads} thread(s), load {facts['load_1min']:.1f}")
    if args.lengths:
        return int(measured_lengths(args.lengths, args.trials, args.threads) > BOUND)
    errors = [measured(name, args.trials, args.threads, args.visits) for name in args.names or NETS]
    return int(max(errors) > BOUND)


if __name__ == "__main__":
    sys.exit(main())
