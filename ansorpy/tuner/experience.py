"""What measured candidates looked like: features and times, kept for tasks yet to come.

A record cannot tell: it holds a digest of its workload, and to derive the task again takes a
second. One small file per task, rewritten whole by rename; files that are broken, or were written
by another version, teach nothing and do no harm. Losing any of it costs nothing but time.

Source: docs/adr/0066-transfer.md.
"""

import json
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final
from zlib import crc32

import numpy as np

from ansorpy.cost.model import Sample
from ansorpy.errors import RecordError
from ansorpy.features import NAMES, version
from ansorpy.records import JsonlStore, Store, target_digest
from ansorpy.target import Target

FORMAT: Final = 1
PER_TASK: Final = 256  # candidates in a file, the most recent
TASKS: Final = 64  # files that a tuning learns from, the most recent
FILES: Final = 256  # of all targets and versions
TAUGHT: Final = 2048  # candidates that a tuning learns from: more would take too long
SUFFIX: Final = ".experience"


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was found: samples of other tasks, and what could not be read, and why."""

    samples: tuple[Sample, ...]
    skipped: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        """How many tasks it is from."""
        return len({sample.task for sample in self.samples})

    @property
    def candidates(self) -> int:
        """How many measured candidates it holds."""
        return sum(len(sample.costs_s) for sample in self.samples)


class Experience:
    """The files of a folder. Nothing here raises: what does not work is told as text."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @staticmethod
    def beside(store: Store) -> "Experience | None":
        """Return that of a store in a file, None for a store that does not last."""
        if isinstance(store, JsonlStore):
            return Experience(store.path.with_suffix(SUFFIX))
        return None

    def keep(self, target: Target, samples: Sequence[Sample]) -> str:
        """Add samples of one task to its file; return what went wrong, "" if nothing."""
        if not samples:
            return ""
        path = self.folder / f"{_stem(target)}-{_digest(samples[0].task)}{SUFFIX}"
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            known = _known(path)
            partial = path.with_suffix(f".{os.getpid()}")
            partial.write_bytes(encode(_latest([*known, *samples])))
            partial.replace(path)
            self._forget()
        except OSError as error:
            return f"{path}: {error.strerror}"
        return ""

    def lesson(self, target: Target, without: Collection[str]) -> Lesson:
        """Return what is known of other tasks on a target, evenly from each.

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


def encode(samples: Sequence[Sample]) -> bytes:
    """Return samples of one task: a checksum, a line of JSON, little-endian numbers as they lie."""
    parts = []
    for sample in samples:
        parts += [sample.batch.astype("<f4").tobytes(), sample.costs_s.astype("<f8").tobytes()]
    body = b"".join(parts)
    header = {
        "format": FORMAT,
        "features": version(),
        "task": samples[0].task,
        "shapes": [list(sample.batch.shape[:2]) for sample in samples],
    }
    rest = json.dumps(header).encode() + b"\n" + body
    return _checksum(rest) + b"\n" + rest


def decode(content: bytes) -> list[Sample]:
    """Return the samples that `encode` was given.

    Raises:
        RecordError: it was not this that `encode` gave.
    """
    checksum, _, rest = content.partition(b"\n")
    if checksum != _checksum(rest):
        raise RecordError("broken: its checksum is another")
    head, _, body = rest.partition(b"\n")
    try:
        header = json.loads(head)
        if (header["format"], header["features"]) != (FORMAT, version()):
            raise RecordError("of another version")
        shapes = [(int(n), int(stores)) for n, stores in header["shapes"]]
        sizes = [_size_bytes(*shape) for shape in shapes if min(shape) >= 0]
        if len(sizes) != len(shapes) or len(body) != sum(sizes):
            raise RecordError(f"{len(body)} bytes are not batches of {shapes}")
        return list(_samples(str(header["task"]), shapes, body))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise RecordError(f"no experience: {type(error).__name__} {error}") from error


def _samples(task: str, shapes: Sequence[tuple[int, int]], body: bytes) -> Iterator[Sample]:
    at = 0
    for n, stores in shapes:
        batch = np.frombuffer(body, "<f4", n * stores * len(NAMES), at)
        costs_s = np.frombuffer(body, "<f8", n, at + batch.nbytes)
        if not np.isfinite(batch).all():
            raise RecordError("a feature is not finite")
        shaped = batch.reshape(n, stores, len(NAMES))
        yield Sample(task, shaped.astype(np.float32), costs_s.astype(np.float64))
        at += _size_bytes(n, stores)


def _checksum(content: bytes) -> bytes:
    return f"{crc32(content):08x}".encode()


def _size_bytes(n: int, stores: int) -> int:
    return n * (stores * len(NAMES) * 4 + 8)


def _latest(samples: Sequence[Sample]) -> list[Sample]:
    """Return the last ones, so many that PER_TASK candidates are not exceeded."""
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
