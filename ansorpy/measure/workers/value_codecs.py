"""Readers and writers of plain values, literals, unions, tuples, sequences and mappings."""

from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any, Final

from ansorpy.errors import WireError

STRING_CHARS: Final = 16_384  # characters of a text
ITEMS: Final = 10_000  # items of a sequence or a mapping
INT_LIMIT: Final = 1 << 63  # whole numbers are smaller

Reader = Callable[[Any, "Raw"], Any]
Writer = Callable[[Any, list[bytes]], Any]


class Raw:
    """The bytes after a header, handed out in order."""

    def __init__(self, data: memoryview) -> None:
        self._data, self._at = data, 0

    def take(self, count: int) -> bytes:
        """Return the next `count` bytes."""
        if count > len(self._data) - self._at:
            raise WireError(f"{count} bytes announced, {len(self._data) - self._at} left")
        self._at += count
        return bytes(self._data[self._at - count : self._at])

    def end(self) -> None:
        """Refuse bytes that belong to no field."""
        if self._at != len(self._data):
            raise WireError(f"{len(self._data) - self._at} bytes too many")


def _checked(holds: Callable[[Any], bool], what: str) -> Reader:
    def read(data: Any, raw: Raw) -> Any:
        if not holds(data):
            raise WireError(f"expected {what}, got {data!r}"[:200])
        return data

    return read


def _is_text(data: Any) -> bool:
    """Return whether databases and logs accept the text: no NUL, no lone surrogate."""
    if type(data) is not str or len(data) > STRING_CHARS or "\0" in data:
        return False
    return data.isascii() or not any("\ud800" <= char <= "\udfff" for char in data)


def _is_count(data: Any) -> bool:
    return type(data) is int and 0 <= data < INT_LIMIT


def _is_number(data: Any) -> bool:
    return type(data) is float and isfinite(data) and data >= 0


def _read_bytes(data: Any, raw: Raw) -> bytes:
    if not _is_count(data):
        raise WireError("expected a number of bytes")
    return raw.take(data)


def _write_bytes(value: Any, out: list[bytes]) -> int:
    out.append(value)
    return len(value)


def _write_text(value: Any, out: list[bytes]) -> str:
    """Return the text without characters that its reader refuses."""
    text = str(value)[:STRING_CHARS].replace("\0", "")
    return text.encode(errors="replace").decode()


def _plainly(convert: Callable[[Any], Any]) -> Writer:
    return lambda value, out: convert(value)


PLAIN: Final[Mapping[object, tuple[Reader, Writer]]] = {
    bool: (_checked(lambda data: type(data) is bool, "a truth value"), _plainly(bool)),
    int: (_checked(_is_count, "a whole number"), _plainly(int)),
    float: (_checked(_is_number, "a finite number"), _plainly(float)),
    str: (_checked(_is_text, "a text"), _write_text),
    bytes: (_read_bytes, _write_bytes),
    type(None): (_checked(lambda data: data is None, "nothing"), _plainly(lambda value: None)),
    None: (_checked(lambda data: data is None, "nothing"), _plainly(lambda value: None)),
}


def choice(values: Mapping[Any, Any]) -> tuple[Reader, Writer]:
    """Return reader and writer of a value among `values`, by name."""
    names = {value: name for name, value in values.items()}

    def read(data: Any, raw: Raw) -> Any:
        if type(data) is not str or data not in values:
            raise WireError(f"expected one of {list(values)}")
        return values[data]

    return read, lambda value, out: names[value]


def union(members: list[tuple[Reader, Writer]], classes: list[type]) -> tuple[Reader, Writer]:
    """Return reader and writer of a union: the number of the member, then its value."""

    def read(data: Any, raw: Raw) -> Any:
        number, value = _pair(data)
        return members[number][0](value, raw)

    def _pair(data: Any) -> tuple[int, Any]:
        if type(data) is not list or len(data) != 2 or not _is_count(data[0]):
            raise WireError("expected a member of a union")
        if data[0] >= len(members):
            raise WireError(f"a union of {len(members)} has no member {data[0]}")
        return data[0], data[1]

    def write(value: Any, out: list[bytes]) -> Any:
        for number, one in enumerate(classes):
            if type(value) is one:
                return [number, members[number][1](value, out)]
        raise TypeError(f"{type(value).__name__} is none of {[one.__name__ for one in classes]}")

    return read, write


def fixed(parts: list[tuple[Reader, Writer]]) -> tuple[Reader, Writer]:
    """Return reader and writer of a tuple with one type per field."""
    readers, writers = [read for read, _ in parts], [write for _, write in parts]

    def read(data: Any, raw: Raw) -> tuple[Any, ...]:
        if type(data) is not list or len(data) != len(readers):
            raise WireError(f"expected {len(readers)} fields")
        return tuple([one(item, raw) for one, item in zip(readers, data, strict=True)])

    def write(value: Any, out: list[bytes]) -> Any:
        return [one(item, out) for one, item in zip(writers, value, strict=True)]

    return read, write


def sequence(origin: Any, part: tuple[Reader, Writer]) -> tuple[Reader, Writer]:
    """Return reader and writer of a tuple, list or frozenset of one type."""
    reader, writer = part

    def read(data: Any, raw: Raw) -> Any:
        if type(data) is not list or len(data) > ITEMS:
            raise WireError(f"expected at most {ITEMS} items")
        return origin([reader(item, raw) for item in data])

    return read, lambda value, out: [writer(item, out) for item in value]


def mapping(part: tuple[Reader, Writer]) -> tuple[Reader, Writer]:
    """Return reader and writer of a dict from texts to one type."""
    reader, writer = part

    def read(data: Any, raw: Raw) -> Any:
        if type(data) is not dict or len(data) > ITEMS or not all(map(_is_text, data)):
            raise WireError(f"expected at most {ITEMS} named items")
        return {name: reader(item, raw) for name, item in data.items()}

    return read, lambda value, out: {str(name): writer(item, out) for name, item in value.items()}
