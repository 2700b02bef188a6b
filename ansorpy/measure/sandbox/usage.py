"""Memory, processes and files of a child and its descendants, summed: the kernel limits each alone.

Standard library only; the fork server calls it about twice a second while a call goes on.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Final

from ansorpy.measure.sandbox.family import Member, everyone

PROCESSES: Final = 32  # processes of a builder at most: compiler driver, linker, their helpers
BLOCK_BYTES: Final = 512  # bytes per unit of st_blocks


def excess(group: int, orders: Mapping[str, Any]) -> str:
    """Return which limit the processes of a group exceed, "" if none.

    Args:
        group: the process group of the child, which no descendant can leave.
    """
    limits, sandbox = orders["limits"], orders["sandbox"]
    # The kernel limits the address space of a child without devices.
    watched = sandbox["programs"] and not _is_alone(group)
    alone = not watched and not sandbox["devices"]
    members = [] if alone else [one for one in everyone() if one.group == group]
    if sandbox["counted"]:
        folder = sandbox["folder"]
        used = folder_bytes(folder)
        used += sum(nameless_bytes(pid, folder) for pid in {group, *(one.pid for one in members)})
        if used > limits["folder_bytes"]:
            return f"its folder holds {used} bytes; expected at most {limits['folder_bytes']}"
    return "" if alone else _crowd(members, int(limits["memory_bytes"]))


def _is_alone(child: int) -> bool:
    """Return whether a child has no descendant: nearly always, and much faster to find out.

    Orphans become children of this process, a subreaper.
    """
    ids: list[str] = []
    with suppress(OSError):
        for pid in (child, os.getpid()):
            for task in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208
                with open(f"/proc/{pid}/task/{task}/children") as file:  # noqa: PTH123
                    ids += file.read().split()
    return ids == [str(child)]


def _crowd(members: list[Member], memory_bytes: int) -> str:
    if len(members) > PROCESSES:
        return f"{len(members)} processes; expected at most {PROCESSES}"
    page = os.sysconf("SC_PAGE_SIZE")
    inherited = next(one.resident for one in everyone() if one.pid == os.getpid())
    used = page * sum(max(0, one.resident - inherited) for one in members)
    if used > memory_bytes:
        return f"{used} bytes of memory in {len(members)} processes; expected {memory_bytes}"
    return ""


def folder_bytes(folder: str) -> int:
    """Return the size of the files below a folder on its disk; links are not followed."""
    return sum(BLOCK_BYTES * one.stat(follow_symlinks=False).st_blocks for one in _below(folder))


def nameless_bytes(pid: int, folder: str) -> int:
    """Return the size of the files that a process holds open after it removed their names."""
    used, place = 0, os.stat(folder).st_dev  # noqa: PTH116
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                found = entry.stat()
                if found.st_nlink == 0 and found.st_dev == place:
                    used += BLOCK_BYTES * found.st_blocks
    return used


def _below(folder: str) -> Iterator[os.DirEntry[str]]:
    left = [folder]
    while left:
        with suppress(OSError), os.scandir(left.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    left.append(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    yield entry
