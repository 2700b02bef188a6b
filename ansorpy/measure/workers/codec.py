"""Serialise values as a JSON header and raw bytes, read against a type, never against a name.

    int, float, bool, str, None     themselves; numbers are finite and not negative
    bytes                           their length; the bytes follow the header in the same order
    tuple, list, frozenset          [item, ...]
    dict[str, X]                    {key: item, ...}
    Literal, Enum                   one of the values
    dataclass of the table          [field, ...] in the order of the class
    union                           [number of the member, value]

The header names no class and no function: both sides build the codec from the same annotations.
A reader accepts exactly the values of its type and raises `WireError` for everything else.
"""

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import fields
from enum import Enum
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from ansorpy.errors import WireError
from ansorpy.measure.workers.value_codecs import (
    PLAIN,
    Raw,
    Reader,
    Writer,
    choice,
    fixed,
    mapping,
    sequence,
    union,
)

HEADER_BYTES: Final = 1 << 20  # bytes of a header; as Python objects it takes at most 32 MiB

Table = Mapping[type, Callable[[Any], bool]]  # dataclasses, and whether the fields fit together
Instead = Mapping[object, object]  # a type, or (dataclass, field name), and the narrower type read


class Codec:
    """Writer and reader of the values of one type."""

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
            WireError: the bytes do not encode a value of the type.
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
        if kind in PLAIN:
            self.has_bytes |= kind is bytes
            return PLAIN[kind]
        if isinstance(kind, type) and issubclass(kind, Enum):
            return choice({one.value: one for one in kind})
        if isinstance(kind, type) and kind in self._table:
            return self._record(kind, self._table[kind])
        return self._generic(kind, get_origin(kind), get_args(kind))

    def _generic(
        self, kind: object, origin: object, args: tuple[Any, ...]
    ) -> tuple[Reader, Writer]:
        if origin is Literal:
            return choice({one: one for one in args})
        if origin in (Union, types.UnionType):
            return union([self._of(one) for one in args], [_class_of(one) for one in args])
        if origin is tuple and args[-1] is not Ellipsis:
            return fixed([self._of(one) for one in args])
        if origin in (tuple, list, frozenset):
            return sequence(origin, self._of(args[0]))
        if origin in (dict, Mapping) and args[0] is str:
            return mapping(self._of(args[1]))
        raise TypeError(f"no value of type {kind} travels")

    def _record(self, kind: type, holds: Callable[[Any], bool]) -> tuple[Reader, Writer]:
        hints = get_type_hints(kind)
        names = [one.name for one in fields(kind) if one.init]
        parts = [self._of(self._instead.get((kind, name), hints[name])) for name in names]
        read, write = fixed(parts)

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


def _class_of(kind: Any) -> type:
    """Return the class that distinguishes a member of a union from the others."""
    found = type(None) if kind is None else get_origin(kind) or kind
    return dict if found is Mapping else found
