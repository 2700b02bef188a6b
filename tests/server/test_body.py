"""Bodies that are files: written to the disk, with limits of size, and of time by size."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import HTTPException

from ansorpy.server.access.errors import OverloadedError
from ansorpy.server.http import body


class Sent:
    """A request whose body arrives in parts, each after a wait in seconds."""

    def __init__(self, *parts: tuple[float, bytes], declared: str = "") -> None:
        self.parts = parts
        self.headers = {"content-length": declared} if declared else {}

    async def stream(self) -> AsyncIterator[bytes]:
        for wait_s, part in self.parts:
            await asyncio.sleep(wait_s)
            yield part


def spooled(sent: Sent, path: Path, limit_bytes: int = 1 << 22, limit_s: float = 60.0) -> str:
    request: Any = sent
    return asyncio.run(body.spool(request, path, limit_bytes, limit_s))


def test_a_body_becomes_a_file_with_its_digest(tmp_path: Path) -> None:
    parts = [bytes([n]) * 300_000 for n in range(10)]
    digest = spooled(Sent(*((0.0, part) for part in parts)), tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"".join(parts)
    assert digest == hashlib.sha256(b"".join(parts)).hexdigest()


@pytest.mark.parametrize("declared", ["101", "9" * 50])
def test_a_declared_length_is_refused_before_the_first_byte(tmp_path: Path, declared: str) -> None:
    with pytest.raises(HTTPException) as refusal:
        spooled(Sent(declared=declared), tmp_path / "f", limit_bytes=100)
    assert refusal.value.status_code == 413
    assert not (tmp_path / "f").exists()


def test_an_undeclared_length_is_refused_at_the_limit(tmp_path: Path) -> None:
    endless = Sent(*[(0.0, bytes(60))] * 3, declared="60")
    with pytest.raises(HTTPException) as refusal:
        spooled(endless, tmp_path / "f", limit_bytes=100)
    assert refusal.value.status_code == 413


def test_a_body_that_stops_is_a_408(tmp_path: Path) -> None:
    with pytest.raises(HTTPException) as refusal:
        spooled(Sent((0.0, b"x"), (3600.0, b"y")), tmp_path / "f", limit_s=0.05)
    assert refusal.value.status_code == 408
    assert refusal.value.detail == (
        "cannot read the body because it arrived too slowly; expected 262144 bytes a second, after"
        " the first 0 s"
    )


def test_received_bytes_earn_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(body, "FILE_BYTES_PER_S", 1 / 60)  # a byte earns a minute
    sent = Sent((0.0, b"x"), (1.0, b"y"))
    assert spooled(sent, tmp_path / "f", limit_s=0.5) == hashlib.sha256(b"xy").hexdigest()


def test_a_full_disk_is_told_as_such(tmp_path: Path) -> None:
    with pytest.raises(OverloadedError, match="No such file or directory; expected room"):
        spooled(Sent((0.0, b"x")), tmp_path / "nowhere" / "f")
