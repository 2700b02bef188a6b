"""What a check says."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """One check; `text` says what was found, or what is missing and how to get it.

    ok      all is well
    note    something optional is missing
    bad     ansorpy does not work as it should
    """

    name: str
    state: Literal["ok", "note", "bad"]
    text: str
