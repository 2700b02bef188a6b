"""Drop the privileges of a child before its first candidate.

Standard library only: it runs between the fork and everything else.
"""

import ctypes
import struct
import sys
from collections.abc import Mapping
from typing import Any, Final

from ansorpy.measure.sandbox import landlock, seccomp

NO_NEW_PRIVS: Final = 38  # prctl option
CAPBSET_DROP: Final = 24  # prctl option
CAPABILITIES: Final = 64  # more than there are
CAPSET_VERSION: Final = 0x2008_0522  # _LINUX_CAPABILITY_VERSION_3
SYSTEM: Final = (
    "/usr", "/lib", "/lib32", "/lib64", "/bin", "/sbin", "/opt", "/sys", "/proc", "/dev",
    "/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives",
)  # fmt: skip

_left: Final[list[str]] = []  # folders that stay writable once the early folder does not


def confine(orders: Mapping[str, Any]) -> None:
    """Apply the isolation levels in `orders` to this process, irrevocably.

    landlock   whether files are confined; `folder` is the only writable folder, `reads`
               are folders that may be read besides the system and Python
    seccomp    whether system calls are
    programs   whether this process may start others
    binds      whether this process may choose its cores
    early      a folder that stays writable until `settle`, "" if there is none
    devices    device nodes that this process may use
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0)
    drop_capabilities()
    if orders["landlock"]:
        python = (sys.prefix, sys.base_prefix, *filter(None, sys.path))
        own = [] if orders["folder"] == "/" else [orders["folder"]]
        early = [orders["early"]] if orders["early"] else []
        kept = [*own, *orders["devices"]]
        landlock.restrict((*SYSTEM, *python, *orders["reads"]), (*kept, *early, "/dev/null"))
        _left[:] = kept if early else []
    if orders["seccomp"]:
        seccomp.restrict(orders["programs"], orders["binds"])


def is_early() -> bool:
    """Return whether the early folder can still be written."""
    return bool(_left)


def settle() -> None:
    """Make the early folder read-only, before the first candidate."""
    if _left:
        landlock.restrict(("/",), (*_left, "/dev/null"))
        _left.clear()


def drop_capabilities() -> None:
    """Drop every capability of root; for other users this does nothing."""
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(CAPABILITIES):
        libc.prctl(CAPBSET_DROP, capability, 0, 0, 0)
    header = ctypes.create_string_buffer(struct.pack("Ii", CAPSET_VERSION, 0), 8)
    libc.capset(header, ctypes.create_string_buffer(24))  # effective, permitted, inheritable: none
