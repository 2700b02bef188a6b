"""The definition of a mutant, a miscompiled program, for the table of the test."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ansorpy.loopir.nodes import Program


def same(program: Program) -> Program:
    """Leave the program as it is: the machine code is changed instead."""
    return program


@dataclass(frozen=True)
class Mutant:
    """A wrong program; `meaning` is the reason, if the interpreter cannot show the error."""

    name: str
    base: str
    edit: Callable[[Program], Program] = same
    text: Callable[[str], str] | None = None  # edit of the LLVM IR
    meaning: str = ""
    case: str = ""  # the inputs that must show it, and no others


def spelled(pattern: str, new: str, at: int | None = None) -> Callable[[str], str]:
    """Replace match number `at` of a pattern, or all matches; LookupError where there is none."""

    def apply(text: str) -> str:
        found = list(re.finditer(pattern, text, re.MULTILINE))
        if len(found) <= (at or 0):
            raise LookupError(f"{pattern!r} matches {len(found)} times")
        for match in reversed(found if at is None else [found[at]]):
            text = text[: match.start()] + match.expand(new) + text[match.end() :]
        return text

    return apply
