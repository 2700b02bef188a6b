"""Damaged kernel packages: random mutations of a good one, and zips crafted against the reader.

    python -m tests.artifact.mutations --count 4000 [kernel.zip]

says in one JSON line how many were accepted, and which exceptions other than PackageError came.
"""

import argparse
import io
import json
import struct
import sys
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from ansorpy.artifact import unbox
from ansorpy.artifact.npz import STAMP
from ansorpy.artifact.package import MANIFEST, box
from ansorpy.frontends.tc.text import parse
from tests.artifact.test_pack import MM, packed

LONGEST: Final = 64  # bytes of one mutation


def mutated(data: bytes, rng: np.random.Generator) -> bytes:
    """Return other bytes than `data`: one to three random edits."""
    changed = data
    while changed == data:
        for _ in range(int(rng.integers(1, 4))):
            edit = EDITS[int(rng.integers(len(EDITS)))]
            at, size = int(rng.integers(len(changed) + 1)), int(rng.integers(1, LONGEST))
            changed = edit(changed, at, size, rng)
    return changed


def _flip(data: bytes, at: int, _size: int, rng: np.random.Generator) -> bytes:
    at = min(at, len(data) - 1)
    return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]


def _overwrite(data: bytes, at: int, size: int, rng: np.random.Generator) -> bytes:
    return (data[:at] + rng.bytes(size) + data[at + size :])[: len(data)]


def _insert(data: bytes, at: int, size: int, rng: np.random.Generator) -> bytes:
    return data[:at] + rng.bytes(size) + data[at:]


def _drop(data: bytes, at: int, size: int, _rng: np.random.Generator) -> bytes:
    return data[:at] + data[at + size :] or data[:1]


def _repeat(data: bytes, at: int, size: int, _rng: np.random.Generator) -> bytes:
    return data[: at + size] + data[at:]


def _cut(data: bytes, at: int, _size: int, _rng: np.random.Generator) -> bytes:
    return data[: max(at, 1)]


Edit = Callable[[bytes, int, int, np.random.Generator], bytes]
EDITS: Final[tuple[Edit, ...]] = (_flip, _overwrite, _insert, _drop, _repeat, _cut)


def crafted(data: bytes) -> Mapping[str, bytes]:
    """Return zips that a lenient reader would take, or would take long to read, by name."""
    package = unbox(data, "good")
    content = {name: body for name, body in package.files.items() if name != MANIFEST}
    central, end = data.rindex(b"PK\1\2"), data.rindex(b"PK\5\6")
    return {
        "prefix": b"#!/bin/sh\n" + data,
        "suffix": data + b"PK\5\6",
        "comment": data[:-2] + b"\5\0hello",
        "two archives": data + data,
        "link": _zipped(package.files, mode=0o120777),
        "traversal": _zipped({"../kernel.py": b"", **package.files}),
        "absolute": _zipped({"/tmp/kernel.py": b"", **package.files}),
        "repeated": _repeated(package.files),
        "deflated": _zipped(package.files, kind=zipfile.ZIP_DEFLATED),
        "lzma": _zipped(package.files, kind=zipfile.ZIP_LZMA),
        "reversed": _zipped(dict(reversed(list(package.files.items())))),
        "extra file": _zipped({**package.files, "evil.py": b"raise SystemExit"}),
        "no manifest": _zipped(content),
        "deep manifest": _zipped({**content, MANIFEST: b"[" * 200_000}),
        "long number": _zipped({**content, MANIFEST: b'{"format": ' + b"9" * 100_000 + b"}"}),
        "60,000 central entries": _with_entries(data, central, end, 60_000),
        "size beyond the end": data[:18] + struct.pack("<II", 1 << 31, 1 << 31) + data[26:],
    }


def resealed(data: bytes, rng: np.random.Generator) -> bytes:
    """Return a self-consistent package with one field of its manifest gone or of another kind."""
    package = unbox(data, "good")
    manifest = json.loads(json.dumps(dict(package.manifest)))
    found = list(places(manifest))
    place, name = found[int(rng.integers(len(found)))]
    odd = ODD[int(rng.integers(len(ODD)))]
    if odd == "gone":
        del place[name]
    else:
        place[name] = odd
    return box(package.files, manifest)


ODD: Final[tuple[Any, ...]] = (
    "gone",
    None,
    -1,
    1 << 62,
    1e308,
    "",
    "\0",
    [],
    {},
    [[]],
    True,
    "x" * 10_000,
)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (container, key) of a JSON value but those that `box` writes."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for name, inner in pairs:
        if name not in ("files", "format"):
            yield value, name
            if isinstance(inner, dict | list):
                yield from places(inner)


def _zipped(files: Mapping[str, bytes], mode: int = 0o644, kind: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", kind) as archive:
        for name, body in files.items():
            info = zipfile.ZipInfo(name, STAMP)
            info.create_system, info.external_attr = 3, mode << 16
            archive.writestr(info, body, kind)
    return buffer.getvalue()


def _repeated(files: Mapping[str, bytes]) -> bytes:
    other = {name.replace("kernel.py", "kernel.pz"): body for name, body in files.items()}
    return _zipped({**files, **other}).replace(b"kernel.pz", b"kernel.py")


def _with_entries(data: bytes, central: int, end: int, count: int) -> bytes:
    entries = data[central:end] * count
    total = min(count, 0xFFFF)
    tail = struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, total, total, len(entries), central, 0)
    return data[:central] + entries + tail


def main() -> None:
    """Mutate a number of packages, and print the results."""
    parser = argparse.ArgumentParser(description="Mutate a kernel package; count what is accepted.")
    parser.add_argument(
        "path", type=Path, nargs="?", help="a kernel package; one is made if absent"
    )
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        path = options.path or packed(parse(MM)[0], Path(folder))[0]
        data = path.read_bytes()
    rng = np.random.default_rng(options.seed)
    tried = [mutated(data, rng) for _ in range(options.count)]
    ends = Counter(end_of(each) for each in (*tried, *crafted(data).values()))
    sys.stdout.write(json.dumps({"package": sha256(data).hexdigest()[:12], **ends}) + "\n")


def end_of(data: bytes) -> str:
    """Return "accepted", or the name of the exception that reading the package raised."""
    try:
        unbox(data, "p")
    except Exception as error:  # noqa: BLE001 - the kinds are counted
        return type(error).__name__
    return "accepted"


if __name__ == "__main__":
    main()
