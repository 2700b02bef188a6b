"""One fresh process of the speed benchmark: a delivered kernel, NumPy and torch in turns.

    python -m benchmarks.contest WORKLOAD ZIP --threads 1 --visits 15

Started by `benchmarks.speed`, which sets the thread counts of the libraries. Prints one JSON
object: seconds per call by contestant, one per visit, and the median FMA peak around them.
"""

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from ansorpy.artifact.load import unpack
from ansorpy.measure.cores import slot_cores
from ansorpy.measure.host import local_target
from ansorpy.measure.roofline import peak_flop_per_s
from ansorpy.measure.timing.interleave import interleave
from ansorpy.measure.timing.sampling import SamplingOptions
from ansorpy.measure.verify.guard_pages import aligned_empty
from ansorpy.target import Target
from benchmarks.machine import has_torch
from benchmarks.rivals import NUMPY, Array, torch_call

OURS: Final = "ansorpy"
CALLED: Final = "ansorpy, fresh output"
PAUSE_S: Final = 0.03  # seconds; threads of BLAS and OpenMP spin for a while after a call
PEAK_SAMPLES: Final = 25  # samples of some milliseconds: at least one must be undisturbed
SEGMENTS: Final = 3  # parts of the visits; clocks drift: the FMA peak is measured around each
TOLERANCE: Final = 1e-3  # relative to the largest value; a larger difference is a wrong result


def runner_of(path: Path, folder: Path) -> Any:
    """Return the RUNNER of a kernel zip, unpacked into `folder`."""
    unpack(path, folder)
    spec = importlib.util.spec_from_file_location("delivered_kernel", folder / "kernel.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.RUNNER


def aligned(array: Array) -> Array:
    """Return a copy that starts at a multiple of 64 bytes."""
    fresh = aligned_empty(array.size, array.dtype).reshape(array.shape)
    fresh[...] = array
    return fresh


def held_call(runner: Any, inputs: list[Array]) -> Callable[[], Array]:
    """Return a call of the timed phases that writes into the same output each time."""
    arrays = dict(runner.constants)
    arrays |= {tensor.name: array for tensor, array in zip(runner.inputs, inputs, strict=True)}
    for tensor in runner.tensors.values():
        if tensor.name not in arrays:
            arrays[tensor.name] = aligned(np.zeros(tensor.shape, tensor.dtype))
    order = [arrays[name] for name in runner.tensors]
    runner.ahead(*order)
    output: Array = arrays[runner.outputs[0].name]
    launch = runner.launch

    def call() -> Array:
        launch(*order)
        return output

    return call


def contestants(workload: str, runner: Any, threads: int) -> dict[str, Callable[[], Array]]:
    """Return the calls, all on the same arrays. NumPy first: BLAS starts its threads there."""
    base = workload.removesuffix("_packed")
    rng = np.random.default_rng(0)
    inputs = [aligned(array) for array in runner.random_inputs(rng)]
    given = {tensor.name: array for tensor, array in zip(runner.inputs, inputs, strict=True)}
    calls: dict[str, Callable[[], Array]] = {"numpy": NUMPY[base](given)}
    calls["numpy"]()
    if has_torch():
        calls["torch"] = torch_call(base, given, threads)
    return {**calls, OURS: held_call(runner, inputs), CALLED: runner.prepare(*inputs)}


def differences(calls: dict[str, Callable[[], Array]]) -> dict[str, float]:
    """Return the difference of each contestant from our result, relative to its largest value.

    Raises:
        SystemExit: a contestant has a wrong result.
    """
    wanted = np.array(calls[OURS](), np.float64)
    found = {}
    for name, call in calls.items():
        got = np.asarray(call(), np.float64)
        found[name] = float(np.abs(got.reshape(wanted.shape) - wanted).max() / np.abs(wanted).max())
        if not found[name] <= TOLERANCE:
            raise SystemExit(f"{name} is {found[name]:.3g} away from {OURS}: limit {TOLERANCE}")
    return found


def timed(
    calls: dict[str, Callable[[], Array]], visits: int, target: Target
) -> tuple[dict[str, list[float]], list[float]]:
    """Return seconds per call and visit by contestant, and the FMA peaks around the segments."""
    times_s: dict[str, list[float]] = {name: [] for name in calls}
    peaks = [peak_flop_per_s(target, "float32", PEAK_SAMPLES)]
    pause_s = PAUSE_S if target.cores > 1 else 0.0
    for _ in range(SEGMENTS):
        each = -(-visits // SEGMENTS)
        segment = interleave(calls, each, SamplingOptions(), lambda *_: time.sleep(pause_s))
        for name, found in segment.items():
            times_s[name] += found
        peaks.append(peak_flop_per_s(target, "float32", PEAK_SAMPLES))
    return times_s, peaks


def main() -> None:
    """Time all contestants in turns; print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workload")
    parser.add_argument("zip", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--visits", type=int, default=15)
    args = parser.parse_args()
    os.sched_setaffinity(0, slot_cores(args.threads))
    target = local_target(args.threads)
    with tempfile.TemporaryDirectory(prefix="ansorpy-contest-") as folder:
        runner = runner_of(args.zip, Path(folder))
        calls = contestants(args.workload, runner, args.threads)
        away = differences(calls)
        times_s, peaks = timed(calls, args.visits, target)
    answer = {"times_s": times_s, "away": away, "fma_flop_per_s": median(peaks)}
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
