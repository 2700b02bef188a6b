"""The process of one contestant: prepares a case, times calls, answers questions.

    python -m benchmarks.suite.host MODULE --cores 1

Started by `guest.Guest`, in the contestant's environment, which has numpy but not ansorpy.
Questions are JSON lines on standard input, answers JSON lines on standard output; output of
libraries goes to standard error. The process dies with its parent, also while it is stopped.
"""

import argparse
import ctypes
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.suite.cases import CASES
from benchmarks.suite.peers.common import Job, Ready, Unfit, aligned, module
from benchmarks.suite.reference import away, random_inputs

Answer = dict[str, Any]

PR_SET_PDEATHSIG = 1
MIN_SAMPLE_S = 2e-4  # seconds; shorter calls are timed in groups
MIN_SAMPLES = 3
MESSAGE_CHARS = 600


def busy_s(cores: set[int]) -> float:
    """Return the busy seconds of the cores, over all processes and the hypervisor."""
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.startswith("cpu") and name[3:].isdigit() and int(name[3:]) in cores:
            user, nice, system, _idle, _wait, irq, soft, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + soft + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def timed(call: Callable[[], object], seconds: float, warm_s: float) -> Answer:
    """Return samples in seconds per call, after a warm-up, and the share of foreign CPU."""
    loops = _warmed(call, warm_s)
    cores = os.sched_getaffinity(0)
    clock = time.perf_counter
    samples: list[float] = []
    busy, own = busy_s(cores), time.process_time()
    begin = now = clock()
    while now - begin < seconds or len(samples) < MIN_SAMPLES:
        start = clock()
        for _ in range(loops):
            call()
        now = clock()
        samples.append((now - start) / loops)
    wall_s = now - begin
    own_s = time.process_time() - own
    foreign = max(0.0, busy_s(cores) - busy - own_s) / (wall_s * len(cores))
    samples.sort()
    return {
        "median_s": samples[len(samples) // 2], "least_s": samples[0], "samples": len(samples),
        "loops": loops, "foreign": foreign, "wall_s": wall_s,
    }  # fmt: skip


def _warmed(call: Callable[[], object], warm_s: float) -> int:
    """Warm up; return the number of calls in a sample of sufficient length."""
    begin = time.perf_counter()
    fastest = float("inf")
    count = 0
    while count < 2 or time.perf_counter() - begin < warm_s:
        start = time.perf_counter()
        call()
        fastest = min(fastest, time.perf_counter() - start)
        count += 1
        if time.perf_counter() - begin > max(1.0, warm_s):
            break
    return max(1, round(MIN_SAMPLE_S / max(fastest, 1e-9)))


class Host:
    """The prepared job, and the answers to questions about it."""

    def __init__(self, name: str) -> None:
        self.peer = module(f"benchmarks.suite.peers.{name}")
        self.job: Job | None = None
        self.ready: Ready | None = None

    def answer(self, question: Mapping[str, Any]) -> Answer:
        """Return the answer; a failure of the peer is an answer too."""
        try:
            match question["do"]:
                case "prepare":
                    return self._prepare(question)
                case "time":
                    assert self.ready is not None
                    return timed(self.ready.call, question["seconds"], question["warm_s"])
                case "drop":
                    self.ready = self.job = None
                    gc.collect()
                    return {}
                case "versions":
                    return {"versions": versions(question["packages"])}
                case other:
                    return {"failed": f"no question {other!r}"}
        except Unfit as why:
            return {"unfit": str(why)}
        except Exception as error:  # noqa: BLE001 -- the border to code that is not ours
            traceback.print_exc()
            return {"failed": f"{type(error).__name__}: {error}"[:MESSAGE_CHARS]}

    def _prepare(self, question: Mapping[str, Any]) -> Answer:
        begin = time.perf_counter()
        form = CASES[question["case"]].form
        arrays = random_inputs(form, question["seed"])
        self.job = Job(
            question["case"], form, {name: aligned(array) for name, array in arrays.items()},
            question["threads"], question["variant"], Path(question["folder"]),
        )  # fmt: skip
        self.ready = self.peer.prepare(self.job)
        assert self.ready is not None
        self.ready.call()
        error = away(np.asarray(self.ready.output()), np.load(question["reference"]))
        gc.collect()
        return {
            "away": error,
            "facts": {**self.ready.facts, "ready_s": time.perf_counter() - begin},
        }


def versions(packages: list[str]) -> dict[str, str]:
    """Return the versions of the installed packages."""
    found = {}
    for name in packages:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def main() -> None:
    """Answer until standard input ends."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("module")
    parser.add_argument("--cores", type=int, nargs="+", required=True)
    args = parser.parse_args()
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    os.sched_setaffinity(0, args.cores)  # before threads start, which inherit the affinity
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    gc.disable()
    host = Host(args.module)
    for line in sys.stdin:
        answers.write(json.dumps(host.answer(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
