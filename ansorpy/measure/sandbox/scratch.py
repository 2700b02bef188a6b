"""A scratch folder of bounded size: a memory file system seen by one fork server and its children.

Standard library only. Root mounts it in a mount namespace of the fork server; other users need a
user namespace too, which some systems refuse: then `usage` checks the size of the folder.
"""

import ctypes
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

NEW_MOUNTS: Final = 0x0002_0000  # CLONE_NEWNS
NEW_USER: Final = 0x1000_0000  # CLONE_NEWUSER
NOSUID: Final = 2
NODEV: Final = 4
RECURSIVE: Final = 0x4000
SLAVE: Final = 1 << 19  # mounts of the machine still arrive, ours never leave
FILES: Final = 4_096


def bound(folder: str, size_bytes: int) -> bool:
    """Mount a file system of `size_bytes` on the scratch folder; return whether that worked."""
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"size={size_bytes},nr_inodes={FILES},mode=0700".encode()
    target = folder.encode()
    held = (
        _unshared(libc)
        and libc.mount(b"none", b"/", None, RECURSIVE | SLAVE, None) == 0
        and libc.mount(b"scratch", target, b"tmpfs", NOSUID | NODEV, options) == 0
    )
    if held:
        os.chdir(folder)  # the working directory was the folder below the mount
    return held


def _unshared(libc: ctypes.CDLL) -> bool:
    """Enter a mount namespace of its own."""
    user, group = os.getuid(), os.getgid()
    if user == 0:
        return bool(libc.unshare(NEW_MOUNTS) == 0)
    if libc.unshare(NEW_USER | NEW_MOUNTS):
        return False
    with suppress(OSError):
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/gid_map").write_text(f"{group} {group} 1")
        Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    return True


def empty(folder: str) -> None:
    """Remove all that a scratch folder holds, once every process that wrote there has ended."""
    make_writable(folder)
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                with suppress(OSError):
                    os.unlink(entry.path)  # noqa: PTH108 - in a fork server, between two candidates


def fill(folder: str, seeds: str) -> None:
    """Copy the files in `seeds`, which no candidate could write, into a scratch folder."""
    with suppress(OSError):  # a file that another process has not finished is no loss
        shutil.copytree(seeds, folder, symlinks=True, dirs_exist_ok=True)


def make_writable(folder: str) -> None:
    """Give folders back the mode that removing them needs; links are not followed."""
    for place, folders, _ in os.walk(folder):
        for name in folders:
            path = os.path.join(place, name)  # noqa: PTH118
            if not os.path.islink(path):  # noqa: PTH114
                os.chmod(path, 0o700)  # noqa: PTH101
