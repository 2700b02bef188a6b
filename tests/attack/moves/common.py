"""Shared parts of the moves: aims, the table, and writing to the link."""

import contextlib
import ctypes
import errno
import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from ansorpy.measure.workers.frames import ANSWER

MIB: Final = 1 << 20
# A time that no run here takes. So slow that a candidate with it never is the reference kernel:
# code that runs in the process of another candidate, during its call, can answer that call.
FORGED_S: Final = 123.456
IPC_KEY: Final = 0xA77AC
NAP_S: Final = 60.0  # much longer than any time-out of the stage


@dataclass(frozen=True)
class Aims:
    """The aims of a move, all of them outside of the sandbox."""

    outside: str  # a folder with files
    pool: str  # the folder of the pool
    driver: int
    bystander: int  # a process of the same user
    port: int
    unix: str
    abstract: str


MOVES: Final[dict[str, Callable[[Aims], object]]] = {}


def move(function: Callable[[Aims], object]) -> Callable[[Aims], object]:
    MOVES[function.__name__] = function
    return function


class LeakError(Exception):
    """A secret, on its way into the outcome."""


tried = contextlib.suppress(OSError, ValueError, ctypes.ArgumentError)
LIBC: Final = ctypes.CDLL(None, use_errno=True)


def link() -> int:
    """Return the descriptor of the link to the fork server."""
    for name in os.listdir("/proc/self/fd"):
        with tried:
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                return int(name)
    raise OSError(errno.EBADF, "no link")


def number() -> bytes:
    """Return the number of the call in progress, from the stack of `serve`."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "serve":
            found: bytes = frame.f_locals["number"]
            return found
        frame = frame.f_back
    return bytes(16)


def answer(header: bytes, raw: bytes = b"", call: bytes | None = None) -> None:
    """Write one whole answer."""
    call = number() if call is None else call
    write(ANSWER.pack(call, len(header), len(raw)) + header + raw)


def write(data: bytes) -> None:
    with tried:
        view = memoryview(data)
        while view:
            view = view[os.write(link(), view) :]


def forged(times_s: object = (FORGED_S,)) -> bytes:
    """Return the header of a good trial."""
    return json.dumps([1, [times_s, 0.0, 0.0, 0.0, False, 0.0, 1.0]]).encode()


class Evil:
    """Unpickled, it writes a file."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (f"open({self.path!r}, 'w').write('unpickled')",)
