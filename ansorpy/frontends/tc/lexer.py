"""Source text to tokens, each with its line and column."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ansorpy.errors import SpecError, quoted
from ansorpy.te.limits import NAME

TEXT_LIMIT_BYTES: Final = 2**18
NUMBER_LIMIT: Final = 40  # characters

ASSIGNMENTS: Final = ("=", "+=!", "*=!", "max=!", "min=!", "+=", "*=", "max=", "min=")
KEYWORDS: Final = ("def", "where", "in", "with", "const")

_TOKEN: Final = re.compile(
    r"""
      (?P<space>[ \t\r\n]+ | \#[^\n]* | //[^\n]*)
    | (?P<assign>(?:\+|\*|\bmax|\bmin)=!? (?!=))
    | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:[0-9]+(?:\.(?!\.)[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<symbol>-> | \.\. | && | \|\| | << | >> | [<>=!]= | [-+*/%<>=!?:,;(){}&|^~@])
    """,
    re.VERBOSE | re.ASCII,
)


@dataclass(frozen=True, slots=True)
class At:
    """A place in a source text, counted from 1."""

    source: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.source}:{self.line}:{self.column}"

    def error(self, message: str) -> SpecError:
        """Return the error that names this place."""
        return SpecError(f"{self}: {message}")


@dataclass(frozen=True, slots=True)
class Token:
    """`kind` is name, number, assign, symbol or end."""

    kind: str
    text: str
    at: At

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else quoted(self.text)


def tokens(text: str, source: str) -> Iterator[Token]:
    """Yield the tokens of a text, then one of kind `end`.

    Raises:
        SpecError: the text is too long, or a character starts no token.
    """
    if len(text) > TEXT_LIMIT_BYTES or len(text.encode(errors="replace")) > TEXT_LIMIT_BYTES:
        raise SpecError(f"{source}: {len(text)} characters, limit {TEXT_LIMIT_BYTES} bytes")
    position, line, line_start = 0, 1, 0
    while position < len(text):
        at = At(source, line, position - line_start + 1)
        match = _TOKEN.match(text, position)
        if match is None:
            raise at.error(f"{text[position]!a} has no meaning here")
        kind, found = str(match.lastgroup), match.group()
        if kind != "space":
            yield _checked(kind, found, text[match.end() : match.end() + 1], at)
        if breaks := found.count("\n"):
            line += breaks
            line_start = position + found.rindex("\n") + 1
        position = match.end()
    yield Token("end", "", At(source, line, position - line_start + 1))


def _checked(kind: str, text: str, following: str, at: At) -> Token:
    if kind == "name" and not NAME.fullmatch(text):
        raise at.error(f"name {quoted(text)} is longer than 63 characters")
    if kind == "number":
        if len(text) > NUMBER_LIMIT:
            raise at.error(f"number of {len(text)} characters, limit {NUMBER_LIMIT}")
        if following.isalnum() or following == "_":
            raise at.error(f"{text + following!a} is neither a number nor a name")
    return Token(kind, text, at)
