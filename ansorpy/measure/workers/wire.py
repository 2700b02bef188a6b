"""Values as data: a JSON header and raw bytes, read against a type and never against a name.

    int, float, bool, str, None     themselves; numbers are finite and not negative
    bytes                           their length; the bytes follow the header in the same order
    tuple, list, frozenset          [item, ...]
    dict[str, X]                    {key: item, ...}
    Literal, Enum                   one of the values
    dataclass of the table          [field, ...] in the order of the class
    union                           [number of the member, value]

The header names no class and no function: both sides build the codec from the same annotations.
A reader accepts exactly what its type describes and raises `WireError` for everything else.
"""

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from math import isfinite
from typing import Any, Final, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ansorpy.errors import WireError

HEADER_BYTES: Final = 1 << 20  # of one value; JSON this long is at most 32 MiB of Python objects
STRING_CHARS: Final = 16_384
ITEMS: Final = 10_000  # per sequence
INT_LIMIT: Final = 1 << 63

Table = Mapping[type, Callable[[Any], bool]]  # dataclasses, and whether the fields fit together
Instead = Mapping[object, object]  # a type, or (dataclass, field name), and the narrower type read
Reader = Callable[[Any, "Raw"], Any]
Writer = Callable[[Any, list[bytes]], Any]
T = TypeVar("T")


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


class Codec:
    """Writes and reads values of one type."""

    def __init__(self, kind: object, table: Table, instead: Instead) -> None:
        self._table, self._instead = table, instead
        self.has_bytes = False
        self._read, self._write = self._of(kind)

    def encode(self, value: object) -> tuple[bytes, bytes]:
        """Return the header and the raw bytes of a value.

        Raises:
            WireError: the value is not of the type, or too large.
        """
        parts: list[bytes] = []
        try:
            header = json.dumps(self._write(value, parts), allow_nan=False).encode()
        except (ValueError, TypeError, RecursionError) as error:
            raise WireError(f"cannot send {type(value).__name__}: {error}") from error
        if len(header) > HEADER_BYTES:
            raise WireError(f"header of {len(header)} bytes; expected at most {HEADER_BYTES}")
        return header, b"".join(parts)

    def decode(self, header: bytes, raw: memoryview) -> Any:
        """Return the value.

        Raises:
            WireError: the bytes are no such value.
        """
        if len(header) > HEADER_BYTES:
            raise WireError(f"header of {len(header)} bytes; expected at most {HEADER_BYTES}")
        rest = Raw(raw)
        try:
            value = self._read(json.loads(header), rest)
        except (ValueError, RecursionError, MemoryError) as error:  # json's own
            raise WireError(f"not JSON: {error}"[:200]) from error
        rest.end()
        return value

    def _of(self, kind: object) -> tuple[Reader, Writer]:
        kind = self._instead.get(kind, kind)
        if kind in _PLAIN:
            self.has_bytes |= kind is bytes
            return _PLAIN[kind]
        if isinstance(kind, type) and issubclass(kind, Enum):
            return _choice({one.value: one for one in kind})
        if isinstance(kind, type) and kind in self._table:
            return self._record(kind, self._table[kind])
        return self._generic(kind, get_origin(kind), get_args(kind))

    def _generic(
        self, kind: object, origin: object, args: tuple[Any, ...]
    ) -> tuple[Reader, Writer]:
        if origin is Literal:
            return _choice({one: one for one in args})
        if origin in (Union, types.UnionType):
            return _union([self._of(one) for one in args], [_held(one) for one in args])
        if origin is tuple and args[-1] is not Ellipsis:
            return _fixed([self._of(one) for one in args])
        if origin in (tuple, list, frozenset):
            return _sequence(origin, self._of(args[0]))
        if origin in (dict, Mapping) and args[0] is str:
            return _mapping(self._of(args[1]))
        raise TypeError(f"no value of type {kind} travels")

    def _record(self, kind: type, holds: Callable[[Any], bool]) -> tuple[Reader, Writer]:
        hints = get_type_hints(kind)
        names = [one.name for one in fields(kind)]
        parts = [self._of(self._instead.get((kind, name), hints[name])) for name in names]
        read, write = _fixed(parts)

        def read_record(data: Any, raw: Raw) -> Any:
            value = kind(*read(data, raw))
            if not holds(value):
                raise WireError(f"{kind.__name__} with impossible fields")
            return value

        def write_record(value: Any, out: list[bytes]) -> Any:
            if type(value) is not kind:
                raise TypeError(f"{type(value).__name__} is no {kind.__name__}")
            return write(tuple(getattr(value, name) for name in names), out)

        return read_record, write_record


def _held(kind: Any) -> type:
    """Return the class by which a member of a union is told from the others."""
    held = type(None) if kind is None else get_origin(kind) or kind
    return dict if held is Mapping else held


def _checked(holds: Callable[[Any], bool], what: str) -> Reader:
    def read(data: Any, raw: Raw) -> Any:
        if not holds(data):
            raise WireError(f"expected {what}, got {data!r}"[:200])
        return data

    return read


def _is_text(data: Any) -> bool:
    """Return whether every database and every log takes the text: no NUL, no lone surrogate."""
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
    """Return a text that its reader accepts."""
    text = str(value)[:STRING_CHARS].replace("\0", "")
    return text.encode(errors="replace").decode()


def _plainly(convert: Callable[[Any], Any]) -> Writer:
    return lambda value, out: convert(value)


_PLAIN: Final[Mapping[object, tuple[Reader, Writer]]] = {
    bool: (_checked(lambda data: type(data) is bool, "a truth value"), _plainly(bool)),
    int: (_checked(_is_count, "a whole number"), _plainly(int)),
    float: (_checked(_is_number, "a finite number"), _plainly(float)),
    str: (_checked(_is_text, "a text"), _write_text),
    bytes: (_read_bytes, _write_bytes),
    type(None): (_checked(lambda data: data is None, "nothing"), _plainly(lambda value: None)),
    None: (_checked(lambda data: data is None, "nothing"), _plainly(lambda value: None)),
}


def _choice(values: Mapping[Any, Any]) -> tuple[Reader, Writer]:
    names = {value: name for name, value in values.items()}

    def read(data: Any, raw: Raw) -> Any:
        if type(data) is not str or data not in values:
            raise WireError(f"expected one of {list(values)}")
        return values[data]

    return read, lambda value, out: names[value]


def _union(members: list[tuple[Reader, Writer]], classes: list[type]) -> tuple[Reader, Writer]:
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


def _fixed(parts: list[tuple[Reader, Writer]]) -> tuple[Reader, Writer]:
    readers, writers = [read for read, _ in parts], [write for _, write in parts]

    def read(data: Any, raw: Raw) -> tuple[Any, ...]:
        if type(data) is not list or len(data) != len(readers):
            raise WireError(f"expected {len(readers)} fields")
        return tuple([one(item, raw) for one, item in zip(readers, data, strict=True)])

    def write(value: Any, out: list[bytes]) -> Any:
        return [one(item, out) for one, item in zip(writers, value, strict=True)]

    return read, write


def _sequence(origin: Any, part: tuple[Reader, Writer]) -> tuple[Reader, Writer]:
    reader, writer = part

    def read(data: Any, raw: Raw) -> Any:
        if type(data) is not list or len(data) > ITEMS:
            raise WireError(f"expected at most {ITEMS} items")
        return origin([reader(item, raw) for item in data])

    return read, lambda value, out: [writer(item, out) for item in value]


def _mapping(part: tuple[Reader, Writer]) -> tuple[Reader, Writer]:
    reader, writer = part

    def read(data: Any, raw: Raw) -> Any:
        if type(data) is not dict or len(data) > ITEMS or not all(map(_is_text, data)):
            raise WireError(f"expected at most {ITEMS} named items")
        return {name: reader(item, raw) for name, item in data.items()}

    return read, lambda value, out: {str(name): writer(item, out) for name, item in value.items()}
