"""What a miscompile is, for the table of the test."""

from collections.abc import Callable
from dataclasses import dataclass

from ansorpy.loopir.nodes import Program


def same(program: Program) -> Program:
    """Leave the program as it is: the machine code is changed instead."""
    return program


@dataclass(frozen=True)
class Mutant:
    """A wrong program. `meaning` says why it is wrong where the interpreter cannot show it."""

    name: str
    base: str
    edit: Callable[[Program], Program] = same
    text: Callable[[str], str] | None = None  # of the LLVM IR
    meaning: str = ""
    case: str = ""  # the inputs that must show it, and no others


def spelled(old: str, new: str, at: int = 0) -> Callable[[str], str]:
    """Replace occurrence number `at` of a text in LLVM IR; LookupError where there are fewer."""

    def apply(text: str) -> str:
        parts = text.split(old)
        if len(parts) <= at + 1:
            raise LookupError(f"{old!r} occurs {len(parts) - 1} times")
        return old.join(parts[: at + 1]) + new + old.join(parts[at + 1 :])

    return apply
