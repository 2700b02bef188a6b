"""The bytes of a file of measured candidates: features and times of one task."""

import json
from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

import numpy as np

from ansorpy.cost.model import Sample
from ansorpy.errors import RecordError
from ansorpy.features import NAMES, version

FORMAT: Final = 1


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
