"""Zips of which every byte follows from their files: packages of kernels, bundles of models.

Files are stored, not deflated, with fixed headers, in a fixed order, and one of them, the
manifest, has the sha256 of each other file. A zip is accepted only if its headers are those that
packing its files again would give. So every flipped bit is noticed: in a file (by its sha256), in
the manifest (by its checksum), and in the zip's own fields. Reading takes time in proportion to the
bytes: one walk over the local headers, no name twice; a memory map is read without a copy.
Source of the headers: PKWARE APPNOTE.TXT, sections 4.3.7, 4.3.12 and 4.3.16.
"""

import json
import struct
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ansorpy.errors import PackageError

MAX_MANIFEST_BYTES: Final = 1 << 24  # parsed JSON takes many times its bytes
MOST_BYTES: Final = (1 << 32) - 1  # a larger zip has other headers (zip64)
LOCAL: Final = struct.Struct("<4s5H3I2H")  # local header of a file; name and extra field follow
CENTRAL: Final = struct.Struct("<4s6H3I5H2I")  # a file in the central directory; the name follows
END: Final = struct.Struct("<4s4H2IH")
LOCAL_SIGNATURE: Final = b"PK\3\4"
STORED: Final = 0
VERSION: Final = 20
DATE: Final = 1 << 5 | 1  # 1980-01-01, the first that a zip can name
UNIX: Final = 3 << 8
MODE: Final = 0o644 << 16
PADDING: Final = struct.Struct("<3H")  # extra field of Android's zipalign: id, size, alignment
PADDING_ID: Final = 0xD935

Buffer = bytes | memoryview


@dataclass(frozen=True, slots=True)
class ZipKind:
    """A kind of zip: names of its files, in order, and the manifest among them.

    `noun` is its name in messages; `format` the version that its manifest tells. Files begin at
    multiples of `align_bytes`.
    """

    noun: str
    names: tuple[str, ...]
    manifest: str
    format: int
    align_bytes: int = 1


@dataclass(frozen=True, slots=True)
class _File:
    """Facts of a file that its headers tell."""

    name: str
    size_bytes: int
    crc: int


def write_zip(
    path: Path, content: Mapping[str, Sequence[Buffer]], manifest: Mapping[str, Any], kind: ZipKind
) -> Path:
    """Write the zip of these files as a whole, in place of an earlier one; return its path.

    Args:
        content, manifest: as `packed` takes them; they may be views of the earlier zip.

    Raises:
        ValueError: the zip would be larger than 4 GiB.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    try:
        with partial.open("wb") as file:
            file.writelines(packed(content, manifest, kind))
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def packed(
    content: Mapping[str, Sequence[Buffer]], manifest: Mapping[str, Any], kind: ZipKind
) -> Iterator[Buffer]:
    """Yield the bytes of the zip of these files; the manifest gets the sha256 of each.

    Args:
        content: parts of each file; an earlier manifest among them is left out.
        manifest: its fields; digests of an earlier zip are left out.

    Raises:
        ValueError: the zip would be larger than 4 GiB.
    """
    listed = {
        name: {"sha256": _digest(parts), "size_bytes": sum(map(len, parts))}
        for name, parts in content.items()
        if name != kind.manifest
    }
    facts = {name: value for name, value in manifest.items() if name != "files"}
    text = json.dumps({"format": kind.format, **facts, "files": listed}, indent=2) + "\n"
    whole = {**content, kind.manifest: [text.encode()]}
    names = [name for name in kind.names if name in whole]
    files = [_File(name, sum(map(len, whole[name])), _crc(whole[name])) for name in names]
    headers, directory = _headers(files, kind.align_bytes)
    for header, name in zip(headers, names, strict=True):
        yield header
        yield from whole[name]
    yield directory


def opened(
    data: Buffer, place: str, kind: ZipKind, unread: Collection[str] = ()
) -> tuple[Mapping[str, Any], dict[str, memoryview]]:
    """Return the manifest and the files of a zip, after all checks that need no trust in it.

    Args:
        data: the zip; the files are views of it.
        place: the name of the zip in messages.
        unread: files that are not read, and so may be damaged.

    Raises:
        PackageError: it is not of this kind, or a bit of it is not as it was packed.
    """
    if bytes(data[: len(LOCAL_SIGNATURE)]) != LOCAL_SIGNATURE:
        raise PackageError(f"{place}: not a {kind.noun}: it is no zip")
    try:
        content, crcs = _walked(memoryview(data), place, kind)
        manifest = json.loads(bytes(content[kind.manifest][: MAX_MANIFEST_BYTES + 1]))
        if manifest["format"] != kind.format:
            raise PackageError(f"{place}: format is not {kind.format}, the only one that is known")
        promised = {
            name: (facts["sha256"], facts["size_bytes"])
            for name, facts in manifest["files"].items()
        }
    # struct and json raise many kinds on damaged bytes; each means the same to us.
    except (
        struct.error, KeyError, ValueError, TypeError, AttributeError, RecursionError
    ) as error:  # fmt: skip
        raise PackageError(f"{place}: not a {kind.noun}: {error}") from error
    found = {
        name: (promised.get(name, ("",))[0] if name in unread else _digest([body]), len(body))
        for name, body in content.items()
        if name != kind.manifest
    }
    if found != promised:
        raise PackageError(f"{place}: a file is not what its manifest says")
    files = [
        _File(name, len(body), crcs[name] if name in unread else _crc([body]))
        for name, body in content.items()
    ]
    if not _is_packed(memoryview(data), files, kind):
        raise PackageError(f"{place}: its bytes are not those that packing its files gives")
    return manifest, content


def _digest(parts: Sequence[Buffer]) -> str:
    digest = sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


def _crc(parts: Sequence[Buffer]) -> int:
    value = 0
    for part in parts:
        value = zlib.crc32(part, value)
    return value


def _headers(files: Sequence[_File], align_bytes: int) -> tuple[list[bytes], bytes]:
    """Return the header in front of each file, and the directory behind the last."""
    headers, entries = [], []
    at = 0
    for file in files:
        name = file.name.encode("ascii")
        extra = _padding(at + LOCAL.size + len(name), align_bytes)
        common = (VERSION, 0, STORED, 0, DATE, file.crc, file.size_bytes, file.size_bytes)
        if at + file.size_bytes > MOST_BYTES:
            raise ValueError(
                f"cannot pack {file.name!r} because the zip would be larger than 4 GiB"
            )
        header = LOCAL.pack(LOCAL_SIGNATURE, *common, len(name), len(extra)) + name + extra
        facts = (len(name), 0, 0, 0, 0, MODE, at)
        entries.append(CENTRAL.pack(b"PK\1\2", UNIX | VERSION, *common, *facts) + name)
        headers.append(header)
        at += len(header) + file.size_bytes
    directory = b"".join(entries)
    count = len(files)
    return headers, directory + END.pack(b"PK\5\6", 0, 0, count, count, len(directory), at, 0)


def _padding(end: int, align_bytes: int) -> bytes:
    """Return an extra field behind which the next byte is at a multiple of `align_bytes`."""
    gap = -end % align_bytes
    if not gap:
        return b""
    while gap < PADDING.size:
        gap += align_bytes
    return PADDING.pack(PADDING_ID, gap - 4, align_bytes) + bytes(gap - PADDING.size)


def _is_packed(data: memoryview, files: Sequence[_File], kind: ZipKind) -> bool:
    """Return True if `packed` writes the same headers around the files."""
    try:
        headers, directory = _headers(files, kind.align_bytes)
    except (ValueError, struct.error):
        return False
    at = 0
    for header, file in zip(headers, files, strict=True):
        if data[at : at + len(header)] != header:
            return False
        at += len(header) + file.size_bytes
    return data[at:] == directory


def _walked(
    data: memoryview, place: str, kind: ZipKind
) -> tuple[dict[str, memoryview], dict[str, int]]:
    """Return the files of consecutive local headers, in order, and the checksums they tell.

    Every other field of the container is checked by packing the files again.
    """
    content: dict[str, memoryview] = {}
    crcs: dict[str, int] = {}
    at = 0
    expected = kind.names
    while bytes(data[at : at + len(LOCAL_SIGNATURE)]) == LOCAL_SIGNATURE:
        _, _, _, method, _, _, crc, packed_bytes, size_bytes, name_bytes, extra_bytes = (
            LOCAL.unpack_from(data, at)
        )
        begin = at + LOCAL.size + name_bytes + extra_bytes
        name = bytes(data[at + LOCAL.size : begin - extra_bytes]).decode("ascii", "replace")
        if name not in expected:
            why = ", repeated or out of order" if name in kind.names else ""
            raise PackageError(f"{place}: unexpected file {name[:80]!r}{why}")
        # Nothing is inflated: a small package cannot become a large one.
        if method != STORED or packed_bytes != size_bytes:
            raise PackageError(f"{place}: {name} is not stored as it is")
        at = begin + size_bytes
        content[name], crcs[name] = data[begin:at], crc
        expected = expected[expected.index(name) + 1 :]
    return content, crcs
