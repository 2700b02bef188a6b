"""Options that were removed: each is refused by its name, with the reason, wherever it is given.

A stored request of an earlier version that names one is read without it.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

from ansorpy.errors import SpecError

REMOVED: Final[Mapping[str, str]] = MappingProxyType(
    {"transfer": "it was removed: no search that started from other tasks was faster"}
)


def check_removed(names: Iterable[str]) -> None:
    """Refuse the names of options that were removed.

    Raises:
        SpecError: names the option and the reason.
    """
    for name in names:
        if name in REMOVED:
            raise SpecError(f"cannot tune with {name} because {REMOVED[name]}; expected no {name}")
