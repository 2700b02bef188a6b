"""Entry points of the installed packages, read again only after an installation."""

import os
import sys
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

GROUPS = 32  # groups that are remembered: the rules, and the replaceable parts of each kind


def points_of(group: str) -> "EntryPoints":
    """Return the entry points of a group.

    To read the files of a hundred packages takes ten milliseconds, and each submission of a job
    needs four groups. A package that is installed or removed changes its folder of the module path.
    """
    return _read(group, _folders())


def _folders() -> tuple[tuple[str, int], ...]:
    """Return the folders of the module path, each with the time of its last change."""
    found = []
    for path in sys.path:
        with suppress(OSError):
            found.append((path, os.stat(path or ".").st_mtime_ns))  # noqa: PTH116 - of every call
    return tuple(found)


@lru_cache(GROUPS)
def _read(group: str, _folders_now: tuple[tuple[str, int], ...]) -> "EntryPoints":
    from importlib.metadata import entry_points  # here: most commands need none

    return entry_points(group=group)
