"""The container of a delivered kernel: a zip of which every byte follows from its files.

Files are stored, not deflated, with fixed headers, in a fixed order: a package is accepted only if
packing its files again gives the same bytes. Every flipped bit is noticed: in a file (by its
sha256 in the manifest), in the manifest (by its checksum), and in the zip's own fields.
Reading takes time in proportion to the bytes: one walk over the local headers, no name twice.
"""

import io
import json
import os
import stat
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ansorpy.errors import PackageError

FORMAT: Final = 2  # version of the manifest
LIBRARY: Final = "libkernel.so"  # not kernel.so: beside that, `import kernel` finds no kernel.py
NAMES: Final = (  # in this order; "kernel.so" was the name of the library up to 2026-11-21
    "kernel.py", "simd.py", "constants.npz", "kernel.so", LIBRARY, "kernel.o", "kernel.h",
    "native.py", "manifest.json",
)  # fmt: skip
MANIFEST: Final = "manifest.json"
MAX_BYTES: Final = 1 << 30
MAX_MANIFEST_BYTES: Final = 1 << 24  # parsed JSON takes many times its bytes
LOCAL: Final = struct.Struct("<4s5H3I2H")  # local header of a file in a zip; the name follows
LOCAL_SIGNATURE: Final = b"PK\3\4"
STAMP: Final = (1980, 1, 1, 0, 0, 0)
UNIX: Final = 3
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
    listed = {
        name: {"sha256": sha256(data).hexdigest(), "size_bytes": len(data)}
        for name, data in content.items()
    }
    text = json.dumps({"format": FORMAT, **manifest, "files": listed}, indent=2) + "\n"
    return _zip({**content, MANIFEST: text.encode()})


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
    try:
        content = _unzip(data, place)
        manifest = json.loads(content[MANIFEST][: MAX_MANIFEST_BYTES + 1])
        if manifest["format"] != FORMAT:
            raise PackageError(f"{place}: format is not {FORMAT}, the only one that is known")
        promised = {name: facts["sha256"] for name, facts in manifest["files"].items()}
    # struct and json raise many kinds on damaged bytes; each means the same to us.
    except (
        struct.error, KeyError, ValueError, TypeError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        raise PackageError(f"{place}: not a kernel package: {error}") from error
    files = {name: body for name, body in content.items() if name != MANIFEST}
    if {name: sha256(body).hexdigest() for name, body in files.items()} != promised:
        raise PackageError(f"{place}: a file is not what its manifest says")
    if _zip(content) != data:
        raise PackageError(f"{place}: its bytes are not those that packing its files gives")
    return Package(found, manifest, content, place)


def parse_digest(text: str) -> str:
    """Return the hex digits of `sha256:...`.

    Raises:
        PackageError: it is not `sha256:` and 64 lower-case hex digits.
    """
    digits = text.removeprefix(DIGEST_PREFIX)
    if text == digits or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise PackageError(f"{text[:80]!r} is not sha256: and 64 hex digits")
    return digits


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a package file; nothing is read of a file that is too long.

    Raises:
        PackageError: it cannot be read, is no plain file, or is longer than any package.
    """
    try:
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            if not stat.S_ISREG(facts.st_mode) or facts.st_size > MAX_BYTES:
                raise PackageError(f"{path}: not a plain file of at most {MAX_BYTES} bytes")
            return file.read()
    except OSError as error:
        raise PackageError(f"{path}: {error.strerror}") from error
    except ValueError as error:  # a null byte
        raise PackageError(f"cannot read {str(path)[:80]!r}: {error}") from error


def _unzip(data: bytes, place: str) -> dict[str, bytes]:
    """Return the files of consecutive local headers, names in the order of NAMES.

    Every other field of the container is checked by packing the files again.
    """
    content: dict[str, bytes] = {}
    at = 0
    expected: tuple[str, ...] = NAMES
    while data.startswith(LOCAL_SIGNATURE, at):
        _, _, _, method, _, _, _, packed_bytes, size_bytes, name_bytes, extra_bytes = (
            LOCAL.unpack_from(data, at)
        )
        begin = at + LOCAL.size + name_bytes + extra_bytes
        name = data[at + LOCAL.size : begin - extra_bytes].decode("ascii", "replace")
        if name not in expected:
            why = ", repeated or out of order" if name in NAMES else ""
            raise PackageError(f"{place}: unexpected file {name[:80]!r}{why}")
        # Nothing is inflated: a small package cannot become a large one.
        if method != zipfile.ZIP_STORED or packed_bytes != size_bytes:
            raise PackageError(f"{place}: {name} is not stored as it is")
        at = begin + size_bytes
        content[name] = data[begin:at]
        expected = expected[expected.index(name) + 1 :]
    return content


def _zip(content: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name in NAMES:
            if name in content:
                info = zipfile.ZipInfo(name, STAMP)
                info.create_system = UNIX
                info.external_attr = 0o644 << 16
                archive.writestr(info, content[name])
    return buffer.getvalue()
