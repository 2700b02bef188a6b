"""Result of a check."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check; `text` is the finding, or the problem and its remedy; `details` are
    for `--verbose`.

    ok      the requirement is met
    note    something optional is missing
    bad     a requirement is not met
    """

    name: str
    state: Literal["ok", "note", "bad"]
    text: str
    details: str = ""
