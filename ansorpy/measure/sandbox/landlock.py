"""Landlock: give up access to all files, ports and signals but the named ones.

Source: Documentation/userspace-api/landlock.rst of Linux; the system calls have one number on
every architecture, libc has no wrapper.
"""

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

CREATE: Final = 444
ADD_RULE: Final = 445
RESTRICT: Final = 446
ASK_VERSION: Final = 1
PATH_BENEATH: Final = 1

EXECUTE: Final = 1 << 0
WRITE_FILE: Final = 1 << 1
READ_FILE: Final = 1 << 2
READ_DIR: Final = 1 << 3
READS: Final = EXECUTE | READ_FILE | READ_DIR
OF_FILES: Final = EXECUTE | WRITE_FILE | READ_FILE | 1 << 14 | 1 << 15  # truncate, ioctl
FIRST: Final = (1 << 13) - 1  # all rights of version 1
LATER: Final = ((2, 1 << 13), (3, 1 << 14), (5, 1 << 15))  # version, right: refer, truncate, ioctl
TCP: Final = 0b11  # bind, connect; version 4
SCOPES: Final = 0b11  # abstract sockets, signals; version 6


class _Ruleset(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("net", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def version() -> int:
    """Return the version that the kernel has, 0 where it has none."""
    return max(0, _call(CREATE, None, 0, ASK_VERSION))


def restrict(read: Iterable[str], write: Iterable[str]) -> bool:
    """Give up every other access to files, TCP and signals to others; for good, for all children.

    Needs no_new_privs. Paths that are not there are left out.

    Returns:
        Whether it holds now.
    """
    have = version()
    if not have:
        return False
    every = FIRST | sum(right for since, right in LATER if have >= since)
    attributes = _Ruleset(every, TCP if have >= 4 else 0, SCOPES if have >= 6 else 0)
    size = 24 if have >= 6 else 16 if have >= 4 else 8
    ruleset = _call(CREATE, ctypes.byref(attributes), size, 0)
    if ruleset < 0:
        return False
    for paths, rights in ((read, READS), (write, every)):
        for path in paths:
            _allow(ruleset, path, rights & every)
    held = _call(RESTRICT, ruleset, 0, 0) == 0
    os.close(ruleset)
    return held


def _allow(ruleset: int, path: str, rights: int) -> None:
    with suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        if not os.path.isdir(path):  # noqa: PTH112 - runs in a child that imports little
            rights &= OF_FILES
        rule = _Beneath(rights, place)
        _call(ADD_RULE, ruleset, PATH_BENEATH, ctypes.byref(rule), 0)
        os.close(place)


def _call(number: int, *arguments: object) -> int:
    return int(ctypes.CDLL(None, use_errno=True).syscall(number, *arguments))
