"""Transfer data: features and times of measured candidates, kept for later tasks.

A record cannot tell: it holds a digest of its workload, and to derive the task again takes a
second. One small file per task, rewritten whole by rename; files that are broken, or were written
by another version, teach nothing and do no harm. Losing any of it costs nothing but time.

Source: docs/adr/0066-transfer.md.
"""

import os
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

import numpy as np

from ansorpy.cost.model import Sample
from ansorpy.cost.roofline import RooflineModel
from ansorpy.cost.transfer import TransferModel
from ansorpy.errors import RecordError
from ansorpy.events import Judged, Skipped, Warmed
from ansorpy.features import version
from ansorpy.folders import data_dir
from ansorpy.records import JsonlStore, MemoryStore, RecordStore, target_digest
from ansorpy.target import Target
from ansorpy.tuner.experience_file import decode, encode
from ansorpy.tuner.task import Task

PER_TASK: Final = 256  # candidates in a file, the most recent
TASKS: Final = 64  # files that a tuning learns from, the most recent
FILES: Final = 256  # files of all targets and versions
TAUGHT: Final = 2048  # candidates that a tuning learns from: more would take too long
SUFFIX: Final = ".experience"
NO_PROMISE: Final = (
    "other tasks rank each other worse than the analytic model ranks them (Kendall's tau {:.2f},"
    " {:.2f}): the search starts cold"
)


@dataclass(frozen=True, slots=True)
class Lesson:
    """Samples of other tasks, and a message for each file that could not be read."""

    samples: tuple[Sample, ...]
    skipped: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        """The number of tasks."""
        return len({sample.task for sample in self.samples})

    @property
    def candidates(self) -> int:
        """The number of measured candidates."""
        return sum(len(sample.costs_s) for sample in self.samples)


class Experience:
    """The transfer files of a folder. No method raises: a failure is returned as text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def beside(store: RecordStore) -> "Experience | None":
        """Return the transfer files of the data folder, or those beside a store in a file.

        For a store in memory there are none.
        """
        match store:
            case JsonlStore():
                return Experience(store.path.with_suffix(SUFFIX))
            case MemoryStore():
                return None
            case _:
                return Experience(data_dir() / "experience")

    def keep(self, target: Target, samples: Sequence[Sample]) -> str:
        """Add samples of one task to its file; return the message of a failure, "" without one."""
        if not samples:
            return ""
        path = self.folder / f"{_stem(target)}-{_digest(samples[0].task)}{SUFFIX}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            known, is_new = _known(path), not path.exists()
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_bytes(encode(_latest([*known, *samples])))
            partial.replace(path)
            if is_new:
                self._forget()
        except OSError as error:
            return f"{path}: {error.strerror}"
        return ""

    def lesson(self, target: Target, without: Collection[str]) -> Lesson:
        """Return samples of other tasks on a target, an equal share of each.

        Args:
            without: keys of the tasks whose own records are known anyway.
        """
        names = {f"{_stem(target)}-{_digest(task)}{SUFFIX}" for task in without}
        paths = [p for p in self._files(f"{_stem(target)}-*{SUFFIX}") if p.name not in names]
        found, skipped = [], []
        for path in paths[:TASKS]:
            try:
                found.append(decode(path.read_bytes()))
            except (OSError, RecordError) as error:
                skipped.append(f"{path}: {error}")
        share = max(1, TAUGHT // max(1, len(found)))
        return Lesson(tuple(s for each in found for s in thinned(each, share)), tuple(skipped))

    def _files(self, pattern: str) -> list[Path]:
        """Return files, the most recent first."""
        try:
            dated = [
                (path.stat().st_mtime_ns, path.name, path) for path in self.folder.glob(pattern)
            ]
        except OSError:  # another process is at work: it will be there next time
            return []
        return [path for *_, path in sorted(dated, reverse=True)]

    def _forget(self) -> None:
        for path in self._files("*")[FILES:]:
            path.unlink(missing_ok=True)


def thinned(samples: Sequence[Sample], most: int) -> Iterator[Sample]:
    """Yield at most so many candidates, evenly from first to last: a search narrows."""
    count = sum(len(sample.costs_s) for sample in samples)
    chosen = np.linspace(0, count - 1, min(most, count)).round().astype(np.int64)
    start = 0
    for sample in samples:
        stop = start + len(sample.costs_s)
        mine = chosen[(chosen >= start) & (chosen < stop)] - start
        if len(mine):
            yield Sample(sample.task, sample.batch[mine], sample.costs_s[mine])
        start = stop


def _latest(samples: Sequence[Sample]) -> list[Sample]:
    """Return the newest samples, PER_TASK candidates at most."""
    kept: list[Sample] = []
    left = PER_TASK
    for sample in reversed(samples):
        batch, costs_s = sample.batch[max(0, len(sample.batch) - left) :], sample.costs_s
        if len(batch):
            kept.append(Sample(sample.task, batch, costs_s[len(costs_s) - len(batch) :]))
        left -= len(batch)
        if left == 0:
            break
    return kept[::-1]


def _known(path: Path) -> list[Sample]:
    try:
        return decode(path.read_bytes())
    except (FileNotFoundError, RecordError):
        return []


def _stem(target: Target) -> str:
    return f"{target_digest(target)}-{target.cores}-{version()}"


def _digest(task: str) -> str:
    return sha256(task.encode()).hexdigest()[:32]


class Transfer:
    """Between the experience of a machine and the prior of a tuning's model.

    Args:
        experience: the files that are read and added to; None: no files.
        warm: whether to learn from it.
    """

    def __init__(
        self, experience: Experience | None, target: Target, seed: int, warm: bool
    ) -> None:
        self.prior = TransferModel(RooflineModel(target), seed)
        self._experience, self._target, self._warm = experience, target, warm
        self._told: dict[str, bool] = {}

    def warm_up(
        self, tasks: Sequence[Task], clock: Callable[[], float] = time.monotonic
    ) -> Iterator[Warmed | Skipped]:
        """Let the prior learn from other tasks than these."""
        if self._experience is None or not self._warm:
            return
        begin_s = clock()
        lesson = self._experience.lesson(self._target, [task.key for task in tasks])
        self.prior.learn(lesson.samples)
        if lesson.skipped:
            yield Skipped(lesson.skipped)
        promise = self.prior.promise
        if promise is not None and not self.prior.trained:
            yield Skipped((NO_PROMISE.format(promise.kendall, promise.roofline),))
        if self.prior.trained:
            yield Warmed(lesson.candidates, lesson.tasks, clock() - begin_s)

    def after(self, task: Task, samples: Sequence[Sample]) -> Iterator[Judged | Skipped]:
        """Yield the verdict of a learned round on the prior; store the round for later tunings."""
        found = self.prior.judgements.get(task.key)
        if found is not None and self._told.get(task.key) is not found.kept:
            self._told[task.key] = found.kept
            yield Judged(task.name, found.candidates, found.kendall, found.roofline, found.kept)
        if self._experience is not None:
            wrong = self._experience.keep(self._target, samples)
            if wrong:
                yield Skipped((wrong,))
