"""Frames between client, fork server and child, and functions by name. Standard library only."""

import importlib
import json
import os
import struct
from collections.abc import Callable
from typing import Any, Final

HEADER: Final = struct.Struct("<II")  # header bytes, blob bytes
CALL: Final = struct.Struct("<16sI")  # number of the call, blob bytes
ANSWER: Final = struct.Struct("<16sII")  # number of the call, bytes of header and of raw part
NUMBER_BYTES: Final = 16
FRAME_HEADER_BYTES: Final = 1 << 18  # bytes of a reply header: excerpt and note, as JSON


def read_exactly(fd: int, count: int) -> bytearray:
    """Return `count` bytes; EOFError if the other side closed first."""
    data = bytearray(count)
    view = memoryview(data)
    while view:
        got = os.readv(fd, [view])
        if not got:
            raise EOFError
        view = view[got:]
    return data


def write_all(fd: int, *parts: bytes | bytearray) -> None:
    """Write every byte."""
    for part in parts:
        view = memoryview(part)
        while view:
            view = view[os.write(fd, view) :]


def send(fd: int, header: dict[str, Any], blob: bytes | bytearray = b"") -> None:
    """Write one frame."""
    text = json.dumps(header).encode()
    write_all(fd, HEADER.pack(len(text), len(blob)) + text, blob)


def receive(fd: int, limit_bytes: int | None = None) -> tuple[dict[str, Any], bytearray]:
    """Read one frame; ConnectionError if it is larger than `limit_bytes`."""
    text, blob = HEADER.unpack(read_exactly(fd, HEADER.size))
    if limit_bytes is not None and (text > FRAME_HEADER_BYTES or blob > limit_bytes):
        raise ConnectionError(f"frame of {text} + {blob} bytes")
    return json.loads(read_exactly(fd, text)), read_exactly(fd, blob)


def find(name: str) -> Callable[..., Any]:
    """Return the function called "package.module:function"."""
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]
