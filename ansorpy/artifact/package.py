"""The container of a delivered kernel: a zip of which every byte follows from its files."""

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Final

from ansorpy.artifact.stored_zip import ZipKind, opened, packed
from ansorpy.errors import PackageError
from ansorpy.gpus import PRESETS

FORMAT: Final = 2  # version of the manifest
LIBRARY: Final = "libkernel.so"  # not kernel.so: beside that, `import kernel` finds no kernel.py
NAMES: Final = (  # in this order; "kernel.so" was the name of the library up to 2026-11-21
    "kernel.py", "simd.py", "driver.py", "reference.py", "constants.npz", "kernel.so", LIBRARY,
    "kernel.o", "kernel.h", "native.py", "kernel.ptx",
    *(f"kernel.{arch}.cubin" for arch in PRESETS), "manifest.json",
)  # fmt: skip
MANIFEST: Final = "manifest.json"
MAX_BYTES: Final = 1 << 30
KERNEL: Final = ZipKind("kernel package", NAMES, MANIFEST, FORMAT)
DIGEST_PREFIX: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class Package:
    """A package whose files agree with its manifest."""

    digest: str  # sha256 of the whole, hex
    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]
    place: str  # the package's name in messages


def box(content: Mapping[str, bytes], manifest: Mapping[str, Any]) -> bytes:
    """Return the package of these files; the manifest gets the sha256 of each.

    Args:
        content: without the manifest.
    """
    return b"".join(packed({name: [data] for name, data in content.items()}, manifest, KERNEL))


def repacked(folder: Path) -> bytes:
    """Return the package of the files of a folder in which it was unpacked.

    Raises:
        PackageError: the manifest is no object, or a file differs from the packed one.
    """
    content = {name: read_bytes(folder / name) for name in NAMES if (folder / name).exists()}
    text = content.pop(MANIFEST)
    try:
        manifest = json.loads(text)
        listed = [*manifest.get("files", ()), *content]  # in the order of the packed manifest
        data = box({name: content[name] for name in sorted(content, key=listed.index)}, manifest)
    except (ValueError, AttributeError) as error:
        raise PackageError(f"cannot load {folder}: {MANIFEST}: {error}") from error
    if not unbox(data, folder.name).manifest == json.loads(text):
        raise PackageError(
            f"cannot load {folder} because a file differs from the packed one; expected the files"
            " of its zip"
        )
    return data


def unbox(data: bytes, place: str, digest: str | None = None) -> Package:
    """Return the contents of a package, after all checks that need no trust in it.

    Args:
        place: the name of the package in messages.
        digest: sha256 of the package in hex, if it is known.

    Raises:
        PackageError: it is not one of ours, or a single bit of it is not as it was packed.
    """
    if len(data) > MAX_BYTES:
        raise PackageError(f"{place}: {len(data)} bytes, limit {MAX_BYTES}")
    found = sha256(data).hexdigest()
    if digest is not None and found != digest:
        raise PackageError(f"{place}: sha256 is {found}, expected {digest}")
    manifest, views = opened(data, place, KERNEL)
    return Package(found, manifest, {name: bytes(body) for name, body in views.items()}, place)


def parse_digest(text: str) -> str:
    """Return the hex digits of `sha256:...`.

    Raises:
        PackageError: it is not `sha256:` and 64 lower-case hex digits.
    """
    digits = text.removeprefix(DIGEST_PREFIX)
    if text == digits or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise PackageError(f"{text[:80]!r} is not sha256: and 64 hex digits")
    return digits


def open_plain(path: Path) -> BinaryIO:
    """Open a plain file; a FIFO, a device or a folder is refused, and never waited for.

    Raises:
        PackageError: it cannot be read, or is no plain file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise PackageError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # a null byte
        raise PackageError(f"cannot read {str(path)[:80]!r}: {error}") from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise PackageError(f"cannot read {path} because it is no plain file; expected a package")
    return os.fdopen(descriptor, "rb")


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a package file; nothing is read of a file that is too long.

    Raises:
        PackageError: it cannot be read, is no plain file, or is longer than any package.
    """
    with open_plain(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise PackageError(f"{path}: not a plain file of at most {MAX_BYTES} bytes")
        return file.read()
