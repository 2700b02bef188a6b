"""Readers of the fields of lines from outside: each returns a value, or names its expectation."""

from collections.abc import Callable
from typing import Any, Final

MAX_NAME: Final = 128  # characters of a key, a digest, a version; the width of the key's column
MAX_ITEMS: Final = 2**12  # items of one list
MAX_COUNT: Final = 2**53  # integers that JSON readers of any language keep exact

Read = Callable[[object], Any]  # returns the value of a field; ValueError names the expectation


def text(limit: int) -> Read:
    """Return the reader of a string of at most `limit` characters, all of which UTF-8 has."""

    def read(value: object) -> str:
        if not isinstance(value, str) or len(value) > limit or _has_surrogates(value):
            raise ValueError(f"text of at most {limit} characters")
        return value

    return read


def _has_surrogates(text: str) -> bool:
    return not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text)


def name(value: object) -> str:
    """Return a digest, a version or the like: printable ASCII."""
    text = value if isinstance(value, str) else "\0"
    if len(text) > MAX_NAME or not text.isascii() or not text.isprintable():
        raise ValueError(f"at most {MAX_NAME} printable ASCII characters")
    return text


def word(*known: str) -> Read:
    """Return the reader of a word among `known`."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in known:
            raise ValueError(f"one of {', '.join(known)}")
        return value

    return read


def integer(low: int, high: int) -> Read:
    """Return the reader of an integer between two limits, both included."""

    def read(value: object) -> int:
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"an integer from {low} to {high}")
        return value

    return read


whole: Final = integer(0, MAX_COUNT)


def flag(value: object) -> bool:
    """Return a truth value."""
    if value is True or value is False:
        return value
    raise ValueError("true or false")


def number(low: float, high: float) -> Read:
    """Return the reader of a number between two limits, both included, as a float."""

    def read(value: object) -> float:
        if type(value) not in (float, int) or not low <= value <= high:  # type: ignore[operator]
            raise ValueError(f"a number from {low:g} to {high:g}")
        return float(value)  # type: ignore[arg-type]

    return read


def list_of(read: Read, least: int = 0, most: int = MAX_ITEMS) -> Read:
    """Return the reader of a list whose items one reader takes."""

    def read_all(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or not least <= len(value) <= most:
            raise ValueError(f"a list of {least} to {most} items")
        return tuple(map(read, value))

    return read_all
