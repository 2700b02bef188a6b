"""The race of whole models: runtimes in processes of their own, timed in turns.

While one is timed all others are stopped, so that no spinning thread disturbs it. All have the same
cores, because other guests of a machine may load one core and not the next. Rounds alternate the
order. The figure of a contestant is the median over its visits of the median call.
"""

import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import IO, Any, Final

import numpy as np

from ansorpy.artifact.harness import widened
from ansorpy.graph.graph import Array
from ansorpy.measure.cores import slot_cores
from ansorpy.measure.other_work import busy_s, process_s, slowdown
from ansorpy.measure.timing.turn_process import TurnProcess
from ansorpy.model.contestant import Opened, RacedModel

PREPARE_S: Final = 600.0  # seconds; torch.compile takes minutes for a large model
VISIT_S: Final = 60.0  # seconds beyond the length of a visit until it counts as hung
ROUNDS: Final = 5


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant: a runtime of `model.contestant`, its file, and its module for torch.

    `opened` runs a model of this process, which no file holds, in place of that runtime.
    """

    runtime: str
    file: Path
    module: str = ""
    opened: Opened | None = None


@dataclass(frozen=True, slots=True)
class Standing:
    """The result of a contestant; times in seconds per call.

    `visits_s` has the median call of each visit, `least_s` the fastest call of all. `error` is the
    largest distance to the first contestant, as a share of its largest element. `failed` is the
    reason of a contestant without times. `slowdown` tells how much work of others slowed the
    machine down. `of_sizes_s` has the median visit of the median call at each size of dims.
    """

    runtime: str
    visits_s: tuple[float, ...] = ()
    least_s: float = 0.0
    calls: int = 0
    error: float | None = None
    failed: str = ""
    slowdown: float = 1.0
    of_sizes_s: tuple[float, ...] = ()

    @property
    def median_s(self) -> float:
        """The median visit."""
        return median(self.visits_s)


class _Here(RacedModel):
    """A contestant in this process, which stands still between its turns as others do."""

    @property
    def pid(self) -> int:
        """Id of this process."""
        return os.getpid()

    def ask(self, question: Mapping[str, object], _timeout_s: float) -> dict[str, Any]:
        """Return the answer."""
        return self.answer(question)

    def pause(self) -> None:
        """Do nothing: this process waits for the others."""


def race(
    entries: Sequence[Entry],
    every: Sequence[Mapping[str, Array]],
    threads: int,
    seconds: float,
    rounds: int = ROUNDS,
    weights: Sequence[float] = (),
) -> tuple[Standing, ...]:
    """Return the standings in the order of the entries.

    Args:
        every: an array per input of the model, at each size of its dims; times are means over
            these.
        seconds: of timing per contestant, over all rounds.
        weights: of the sizes in a time; (): all are equal.
    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ansorpy-race-")))
        log = stack.enter_context((folder / "log").open("wb"))
        failed: dict[int, str] = {}
        outputs: dict[int, list[Array]] = {}
        running: dict[int, TurnProcess | _Here] = {}
        for number, entry in enumerate(entries):
            process = stack.enter_context(_started(entry, threads, log))
            answer = process.ask(
                {**to_prepare(every, folder, f"{number}.npz"), "weights": list(weights)}, PREPARE_S
            )
            process.pause()
            if "failed" in answer:
                failed[number] = answer["failed"]
                continue
            running[number] = process
            with np.load(folder / f"{number}.npz", allow_pickle=False) as file:
                outputs[number] = [file[name] for name in file.files]
        times: dict[int, list[list[float]]] = {number: [] for number in running}
        of_sizes: dict[int, list[list[float]]] = {number: [] for number in running}
        slow: dict[int, list[float]] = {number: [] for number in running}
        cores = slot_cores(threads)
        for turn in range(rounds):
            order = list(running) if turn % 2 == 0 else list(reversed(running))
            for number in order:
                process, visit_s = running[number], seconds / rounds
                begin_s, before_s = time.monotonic(), busy_s(cores) - process_s(process.pid)
                answer = process.ask({"do": "visit", "seconds": visit_s}, visit_s + VISIT_S)
                others_s = busy_s(cores) - process_s(process.pid) - before_s
                wall_s = time.monotonic() - begin_s
                process.pause()
                if "failed" in answer:
                    failed[number] = answer["failed"]
                    del running[number]
                else:
                    times[number].append(answer["times_s"])
                    of_sizes[number].append(answer["of_sizes_s"])
                    slow[number].append(slowdown(others_s, len(cores), wall_s))
    return tuple(
        Standing(entry.runtime, failed=failed[number])
        if number in failed
        else Standing(
            entry.runtime,
            tuple(median(one) for one in times[number]),
            min(min(one) for one in times[number]),
            sum(map(len, times[number])),
            distance(outputs[number], outputs[0]) if 0 in outputs else None,
            slowdown=median(slow[number]),
            of_sizes_s=tuple(median(one) for one in zip(*of_sizes[number], strict=True)),
        )
        for number, entry in enumerate(entries)
    )


def _started(
    entry: Entry, threads: int, log: IO[bytes]
) -> AbstractContextManager[TurnProcess | _Here]:
    opened = entry.opened
    if opened is None:
        return TurnProcess(command_of(entry, threads), log)
    return nullcontext(_Here(lambda: opened))


def distance(given: Sequence[Array], wanted: Sequence[Array], dtypes: Sequence[str] = ()) -> float:
    """Return the largest difference of two results as a share of the largest wanted element.

    Infinity if shapes differ or an element is finite in one only.

    Args:
        dtypes: of the outputs, if some are bfloat16: arrays of these are uint16 bit patterns.
    """
    if dtypes:
        given, wanted = (
            [widened(one, dtype) for one, dtype in zip(arrays, dtypes, strict=False)]
            for arrays in (given, wanted)
        )
    worst = 0.0
    if len(given) != len(wanted):
        return float("inf")
    for one, other in zip(given, wanted, strict=True):
        if one.shape != other.shape:
            return float("inf")
        if not one.size:
            continue
        a, b = one.astype(np.float64), other.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        largest = float(np.max(np.abs(b), initial=0.0, where=np.isfinite(b))) or 1.0
        with np.errstate(invalid="ignore"):
            apart = np.where(same, 0.0, np.abs(a - b))
        worst = max(worst, float(np.max(np.where(np.isnan(apart), np.inf, apart))) / largest)
    return worst


def to_prepare(every: Sequence[Mapping[str, Array]], folder: Path, outputs: str) -> dict[str, Any]:
    """Return the request that a contestant runs once; write the inputs, if it is the first one.

    Args:
        every: the inputs by name, at each size; all have the same names.
        folder: for the inputs, and for the file of the outputs, `outputs`.
    """
    file = folder / "inputs.npz"
    if not file.exists():
        arrays = [array for inputs in every for array in inputs.values()]
        np.savez(file, *arrays)  # by position: a name may be a path, or a parameter of savez
    told = {"inputs": str(file), "names": list(every[0]), "outputs": str(folder / outputs)}
    return {"do": "prepare", **told}


def command_of(entry: Entry, threads: int) -> list[str]:
    """Return the command of a contestant."""
    command = [sys.executable, "-m", "ansorpy.model.contestant", entry.runtime, str(threads)]
    return [*command, str(entry.file), "--module", entry.module]
