"""The child process of a background tuning: tune, verify, race, keep the faster bundle."""

import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from ansorpy.parent import end_with_parent
from ansorpy.tracing.answers import TUNED, KeptAnswer, kept, known
from ansorpy.tracing.work import TracedWork

NICENESS: Final = 19  # the lowest priority, where the scheduler has no idle class
ROUNDS: Final = 20  # turns of each bundle in the race
TURN_S: Final = 0.01  # seconds of a turn, at least one call
LEAST_GAIN: Final = 1.02  # times of two bundles differ by as much without a reason


def race(before: Callable[..., Any], after: Callable[..., Any]) -> float:
    """Return the time of a loaded bundle over the time of another, on the same inputs.

    They run in turns, and the least time of each counts.
    """
    inputs = _inputs(before)
    calls = [partial(one, *inputs) for one in (before, after)]
    least_s = [np.inf, np.inf]
    for _ in range(ROUNDS):
        for number, call in enumerate(calls):
            end_s = time.perf_counter() + TURN_S
            while True:
                begin_s = time.perf_counter()
                call()
                now_s = time.perf_counter()
                least_s[number] = min(least_s[number], now_s - begin_s)
                if now_s >= end_s:
                    break
    return float(least_s[0] / least_s[1])


def _inputs(loaded: Any) -> list[Any]:
    if hasattr(loaded, "sample"):
        return list(loaded.sample().values())
    rng = np.random.default_rng(0)
    return [
        np.asarray(rng.uniform(0, 1, one.shape) * (4 if one.dtype.startswith(("i", "u")) else 1))
        .astype(one.dtype)
        for one in loaded.inputs
    ]  # fmt: skip


def tune(folder: Path, trials: int) -> KeptAnswer:
    """Tune the work of a folder, and keep the faster of its first answer and the new bundle."""
    work, before = TracedWork.read(folder), known(folder)
    with TemporaryDirectory(dir=folder, prefix="new-") as place:
        made = work.compile(Path(place), trials, None)
        if before is None:
            return kept(folder, made, TUNED, trials)
        gain = race(before.open(), KeptAnswer(made, TUNED, trials).open())
        if gain >= LEAST_GAIN:
            return kept(folder, made, TUNED, trials, gain)
        copy = Path(place) / "same.zip"
        copy.write_bytes(before.path.read_bytes())
        return kept(folder, copy, TUNED, trials)


def step_aside() -> None:
    """Let this process, and processes that it starts, run on cores that have no other work.

    A call of the user so pauses the tuning on the cores that it uses, at no cost of its own
    (ADR-0215).
    """
    os.nice(NICENESS)
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def main(arguments: Sequence[str]) -> int:
    """Tune the work of the folder that the command line names; return the exit code."""
    folder, trials, parent = arguments
    end_with_parent()
    if os.getppid() != int(parent):  # it ended before
        return 1
    step_aside()
    tune(Path(folder), int(trials))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
