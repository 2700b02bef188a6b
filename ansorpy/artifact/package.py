"""The container of a delivered kernel: a zip of which every byte follows from its files.

Files are stored, not deflated, with fixed headers, in a fixed order: so a package is accepted only
if packing what was found in it gives the very same bytes. A flipped bit is noticed wherever it
is: in a file (its sha256 in the manifest), in the manifest (its checksum), in the zip's own fields.
"""

import io
import json
import struct
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from ansorpy.errors import PackageError

FORMAT: Final = 2  # of the manifest
LIBRARY: Final = "libkernel.so"  # not kernel.so: beside that, `import kernel` finds no kernel.py
NAMES: Final = (  # in this order; "kernel.so" was the name of the library up to 2026-11-21
    "kernel.py", "constants.npz", "kernel.so", LIBRARY, "kernel.o", "kernel.h", "native.py",
    "manifest.json",
)  # fmt: skip
MANIFEST: Final = "manifest.json"
MAX_BYTES: Final = 1 << 30
STAMP: Final = (1980, 1, 1, 0, 0, 0)
UNIX: Final = 3
DIGEST_PREFIX: Final = "sha256:"


@dataclass(frozen=True, slots=True)
class Package:
    """A package whose files are what its manifest says."""

    digest: str  # sha256 of the whole, hex
    manifest: Mapping[str, Any]
    files: Mapping[str, bytes]


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
    """Return what is in a package, after every check that needs no trust in it.

    Args:
        place: what messages call it.
        digest: sha256 of the whole in hex, where it is known.

    Raises:
        PackageError: it is not one of ours, or a single bit of it is not as it was packed.
    """
    found = sha256(data).hexdigest()
    if digest is not None and found != digest:
        raise PackageError(f"{place}: sha256 is {found}, expected {digest}")
    try:
        content = _unzip(data, place)
        manifest = json.loads(content[MANIFEST])
        if manifest["format"] != FORMAT:
            raise PackageError(f"{place}: format is not {FORMAT}, the only one that is known")
        promised = {name: facts["sha256"] for name, facts in manifest["files"].items()}
    # zipfile and json raise many kinds on damaged bytes; each means the same to us.
    except (
        zipfile.BadZipFile, KeyError, ValueError, TypeError, AttributeError, NotImplementedError,
        RuntimeError, OSError, EOFError, struct.error,
    ) as error:  # fmt: skip
        raise PackageError(f"{place}: not a kernel package: {error}") from error
    files = {name: body for name, body in content.items() if name != MANIFEST}
    if {name: sha256(body).hexdigest() for name, body in files.items()} != promised:
        raise PackageError(f"{place}: a file is not what its manifest says")
    if _zip(content) != data:
        raise PackageError(f"{place}: its bytes are not those that packing its files gives")
    return Package(found, manifest, content)


def parse_digest(text: str) -> str:
    """Return the hex digits of `sha256:...`.

    Raises:
        PackageError: it is not `sha256:` and 64 lower-case hex digits.
    """
    digits = text.removeprefix(DIGEST_PREFIX)
    if text == digits or len(digits) != 64 or set(digits) - set("0123456789abcdef"):
        raise PackageError(f"{text[:80]!r} is not sha256: and 64 hex digits")
    return digits


def _unzip(data: bytes, place: str) -> dict[str, bytes]:
    if len(data) > MAX_BYTES:
        raise PackageError(f"{place}: {len(data)} bytes, limit {MAX_BYTES}")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        infos = archive.infolist()
        for info in infos:
            if info.filename not in NAMES:
                raise PackageError(f"{place}: unexpected file {info.filename[:80]!r}")
            # Nothing is inflated: a small package cannot become a large one.
            if info.compress_type != zipfile.ZIP_STORED or info.file_size > len(data):
                raise PackageError(f"{place}: {info.filename} is not stored as it is")
        return {info.filename: archive.read(info) for info in infos}


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
