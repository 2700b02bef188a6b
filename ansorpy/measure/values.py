"""Values of the compiler as bytes: plans, programs, kernels, exports, Dags, targets, requests.

A value is written as a table of the dataclasses and enumerations in it, each object once, as text,
then raw bytes. A reader builds dataclasses and members of enumerations of this package alone, and
calls nothing else: unlike a pickle, the bytes cannot name a function.

    int, str, bool, None      themselves
    float                     ["f", float.hex]
    dim                       ["d", name, least, largest]
    bytes                     ["b", length]; the bytes follow in the same order
    NumPy array               ["a", dtype, shape], and its bytes
    tuple, list, frozenset    ["t" | "l" | "s", item, ...]
    mapping                   ["m", key, item, ...]
    object                    ["o", place in the table of objects]

The table of objects has [number of the class, field, ...]; an object stands behind those that it
holds. A member of an enumeration has its value as its only field.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from importlib import import_module
from typing import Any, Final, TypeVar

import numpy as np

from ansorpy.errors import WireError
from ansorpy.te.dims import Dim

T = TypeVar("T")

PACKAGE: Final = "ansorpy."
LENGTH: Final = 8  # bytes of the length of the text, which comes first
_PLAIN: Final = (int, str, bool, type(None))
_SEQUENCES: Final[Mapping[type, str]] = {tuple: "t", list: "l", frozenset: "s"}
_MAKERS: Final[Mapping[str, Callable[[Any], Any]]] = {"t": tuple, "l": list, "s": frozenset}


_FOREIGN: Final[dict[str, type]] = {}  # by name: data of back ends outside of this package


def data(kind: type[T]) -> type[T]:
    """Let a dataclass of another package travel, once its module is imported; a decorator."""
    _FOREIGN[_name(kind)] = kind
    return kind


def encode(value: object) -> bytes:
    """Return a value as bytes; equal values that are built alike give equal bytes.

    Raises:
        WireError: a part of the value is no data, such as a function.
    """
    writer = _Writer()
    root = writer.write(value)
    names = [_name(one) for one in writer.classes]
    text = json.dumps([names, writer.objects, root], separators=(",", ":")).encode()
    return b"".join([len(text).to_bytes(LENGTH, "little"), text, *writer.raw])


def decode(data: bytes | bytearray | memoryview) -> Any:
    """Return the value.

    Raises:
        WireError: the bytes are no value, or name a class that is no data of this package.
    """
    view = memoryview(data)
    end = LENGTH + int.from_bytes(view[:LENGTH], "little")
    try:
        names, objects, root = json.loads(bytes(view[LENGTH:end]))
        return _Reader(names, view[end:]).read(objects, root)
    except (ValueError, TypeError, IndexError, KeyError, AttributeError) as error:
        raise WireError(f"not a value: {type(error).__name__}: {error}"[:200]) from error


class _Writer:
    def __init__(self) -> None:
        self.classes: dict[type, int] = {}
        self.objects: list[list[Any]] = []
        self.raw: list[bytes] = []
        self._places: dict[int, int] = {}  # by id of an object, which `_kept` keeps alive
        self._kept: list[object] = []

    def write(self, value: Any) -> Any:
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind in _SEQUENCES:
            items = sorted(value, key=repr) if kind is frozenset else value
            return [_SEQUENCES[kind], *map(self.write, items)]
        if kind is Dim:
            return ["d", *value.facts]
        if kind is float:
            return ["f", value.hex()]
        if kind is bytes:
            self.raw.append(value)
            return ["b", len(value)]
        if isinstance(value, Mapping):
            return ["m", *(self.write(one) for pair in value.items() for one in pair)]
        if isinstance(value, np.ndarray):
            self.raw.append(value.tobytes())
            return ["a", value.dtype.str, list(value.shape)]
        return ["o", self._place(value)]

    def _place(self, value: Any) -> int:
        known = self._places.get(id(value))
        if known is None:
            parts = [value.value] if isinstance(value, Enum) else _fields(value)
            written = [self.classes.setdefault(type(value), len(self.classes))]
            written += map(self.write, parts)
            known = self._places[id(value)] = len(self.objects)
            self.objects.append(written)
            self._kept.append(value)
        return known


class _Reader:
    def __init__(self, names: list[str], raw: memoryview) -> None:
        self._classes = [_class(name) for name in names]
        self._raw, self._at = raw, 0
        self._objects: list[Any] = []

    def read(self, objects: list[list[Any]], root: Any) -> Any:
        for number, *parts in objects:
            kind = self._classes[number]
            self._objects.append(kind(*map(self._value, parts)))
        value = self._value(root)
        if self._at != len(self._raw):
            raise WireError(f"not a value: {len(self._raw) - self._at} bytes too many")
        return value

    def _value(self, data: Any) -> Any:
        if type(data) is not list:
            return data
        tag, *rest = data
        if tag == "o":
            return self._objects[rest[0]]
        if tag == "d":
            return Dim(*rest)
        if tag == "f":
            return float.fromhex(rest[0])
        if tag == "b":
            return self._take(rest[0])
        if tag == "m":
            items = [self._value(one) for one in rest]
            return dict(zip(items[::2], items[1::2], strict=True))
        if tag == "a":
            dtype, shape = np.dtype(rest[0]), tuple(rest[1])
            data = self._take(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize)
            return np.frombuffer(data, dtype).reshape(shape)
        return _MAKERS[tag](self._value(one) for one in rest)

    def _take(self, count: int) -> bytes:
        part = bytes(self._raw[self._at : self._at + count])
        if len(part) != count:
            raise WireError(f"not a value: {count} bytes announced, {len(part)} left")
        self._at += count
        return part


def _fields(value: Any) -> list[Any]:
    kind = type(value)
    ours = kind.__module__.startswith(PACKAGE) or _name(kind) in _FOREIGN
    if not (is_dataclass(kind) and ours):
        raise WireError(f"cannot send a {kind.__qualname__}; expected data of this package")
    return [getattr(value, name) for name in _names(kind)]


@cache
def _names(kind: type) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.init)


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _class(name: str) -> Callable[..., Any]:
    """Return a dataclass or an enumeration of this package, or of a back end."""
    return _FOREIGN.get(name) or _of_package(name)


@cache
def _of_package(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    if not module.startswith(PACKAGE) or not attribute.isidentifier():
        raise WireError(f"not a value: {name!r} is no class of this package")
    found = getattr(import_module(module), attribute)
    if not (isinstance(found, type) and (is_dataclass(found) or issubclass(found, Enum))):
        raise WireError(f"not a value: {name!r} is no data")
    return found
