"""Stored zips: any unzip reads them, files are aligned, headers follow from the files."""

import io
import struct
import zipfile
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.artifact.stored_zip import MOST_BYTES, ZipKind, _File, _headers, opened, packed
from ansorpy.errors import PackageError

PLAIN = ZipKind("plain zip", ("a.py", "b", "list.json", "c.bin"), "list.json", 1)
ALIGNED = ZipKind("aligned zip", PLAIN.names, PLAIN.manifest, 1, align_bytes=64)
PARTS = st.lists(st.binary(max_size=300), max_size=3)
CONTENT = st.dictionaries(st.sampled_from(("a.py", "b", "c.bin")), PARTS)


@given(CONTENT, st.sampled_from((PLAIN, ALIGNED)))
def test_a_zip_is_read_back_and_by_any_unzip(
    content: dict[str, Sequence[bytes]], kind: ZipKind
) -> None:
    data = b"".join(packed(content, {"n": 1}, kind))
    manifest, files = opened(data, "p", kind)
    assert manifest["n"] == 1
    whole = {name: b"".join(parts) for name, parts in content.items()}
    assert {n: bytes(body) for n, body in files.items() if n != "list.json"} == whole
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {n: archive.read(n) for n in whole} == whole
        assert archive.namelist() == [n for n in kind.names if n in whole or n == "list.json"]
        begins = [info.header_offset for info in archive.infolist()]
    for begin, name in zip(begins, files, strict=True):
        lengths = struct.unpack_from("<2H", data, begin + 26)
        at = begin + 30 + sum(lengths)
        assert at % kind.align_bytes == 0
        assert data[at : at + len(files[name])] == files[name]


@given(CONTENT)
def test_without_alignment_the_bytes_are_those_of_zipfile(
    content: dict[str, Sequence[bytes]],
) -> None:
    data = b"".join(packed(content, {}, PLAIN))
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(io.BytesIO(data)) as made,
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive,
    ):
        for name in made.namelist():
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o644 << 16
            archive.writestr(info, made.read(name))
    assert buffer.getvalue() == data


def test_every_bit_flip_is_refused_but_in_files_that_are_not_read() -> None:
    data = b"".join(packed({"a.py": [b"pass"], "c.bin": [b"0123456789"]}, {}, ALIGNED))
    begin = data.index(b"0123456789")
    for at in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            with pytest.raises(PackageError):
                opened(bytes(changed), "p", ALIGNED)
            if not begin <= at < begin + 10:
                with pytest.raises(PackageError):
                    opened(bytes(changed), "p", ALIGNED, unread=("c.bin",))
            else:
                _, files = opened(bytes(changed), "p", ALIGNED, unread=("c.bin",))
                assert bytes(files["c.bin"]) != b"0123456789"


def test_more_than_4_gib_is_refused_before_anything_is_written() -> None:
    with pytest.raises(ValueError, match=r"cannot pack 'c\.bin' because the zip would be larger"):
        _headers([_File("a.py", 9, 0), _File("c.bin", MOST_BYTES, 0)], 64)
