"""JSON bodies, parsed strictly: a refusal names the place in the text, or the field."""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from math import isfinite
from typing import Any, Final, TypeVar

from pydantic import BaseModel, ValidationError

from ansorpy.server.http.validation import (
    MAX_PLACE,
    InvalidBodyError,
    known_names,
    mistakes,
)
from ansorpy.server.schemas.problem import Mistake

MAX_DIGITS: Final = 40  # digits of one number
MAX_KEYS: Final = 1024  # keys of one object
MAX_WAY: Final = 8  # keys and numbers of the place of a refused value

Model = TypeVar("Model", bound=BaseModel)

# The field `expected` of a mistake in the syntax, by the beginning of a message of Python's parser.
_SYNTAX: Final = {
    "Expecting value": "a value: an object, a list, a string, a number, true, false or null",
    "Expecting ','": "a comma, or the end of the object or list",
    "Expecting ':'": "a colon after the key",
    "Expecting property name": "a key in double quotes",
    "Illegal trailing comma": "no comma before the end of the object or list",
    "Extra data": "the end of the body",
    "Unterminated string": "a double quote at the end of this string",
    "Invalid control character": "an escape in place of a control character",
    "Invalid \\": "an escape of JSON",
}
# The field `expected` of a mistake, by its code.
_EXPECTED: Final = {
    "json_invalid": "one JSON object in UTF-8",
    "json_too_deep": "an object of few levels",
    "json_key_twice": "each key once",
    "json_not_finite": "finite numbers",
    "json_number_too_long": f"at most {MAX_DIGITS} digits",
    "json_too_many_keys": f"at most {MAX_KEYS} keys",
}


def parse(model: type[Model], body: bytes) -> Model:
    """Return the model of a JSON body.

    Duplicate keys, NaN, infinity, numbers of more than MAX_DIGITS digits, objects of more than
    MAX_KEYS keys and bytes that are not UTF-8 are errors, as are values that do not fit the model.

    Raises:
        InvalidBodyError: names the line and column of a mistake in the syntax, else the field.
    """
    decoder = _Decoder()
    found = decoder.decoded(body)
    if decoder.first is not None:
        refused, place = _find(found, decoder.first, known_names(model))
        raise _malformed(place or "body", refused.code)
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise InvalidBodyError(mistakes(error.errors(include_input=False), model)) from None


@dataclass(frozen=True, slots=True)
class _Refused:
    """A value that is JSON by its syntax and is not accepted; `key` occurs twice in it."""

    code: str
    key: str = ""


class _Decoder:
    """Decode a document with a `_Refused` in place of each value that is not accepted.

    Attributes:
        first: the first refused value in the order of parsing; None: all were accepted.
    """

    def __init__(self) -> None:
        self.first: _Refused | None = None

    def decoded(self, body: bytes) -> Any:
        """Return the document.

        Raises:
            InvalidBodyError: the body is not JSON in UTF-8; names the place.
        """
        try:
            return json.loads(
                body.decode("utf-8"),
                object_pairs_hook=self._object,
                parse_constant=lambda _: self._refuse("json_not_finite"),
                parse_int=self._int,
                parse_float=self._float,
            )
        except RecursionError:
            raise _malformed("body", "json_too_deep") from None
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno} of the body"
            raise _malformed(place, "json_invalid", _expected_syntax(error)) from None
        except UnicodeDecodeError as error:
            line, begin = body.count(b"\n", 0, error.start) + 1, body.rfind(b"\n", 0, error.start)
            place = f"line {line}, byte {error.start - begin} of the body"
            raise _malformed(place, "json_invalid", "UTF-8") from None

    def _refuse(self, code: str, key: str = "") -> _Refused:
        refused = _Refused(code, key)
        self.first = self.first or refused
        return refused

    def _object(self, pairs: list[tuple[str, Any]]) -> Any:
        if len(pairs) > MAX_KEYS:
            return self._refuse("json_too_many_keys")
        found: dict[str, Any] = {}
        for key, value in pairs:
            if key in found:
                return self._refuse("json_key_twice", key)
            found[key] = value
        return found

    def _int(self, text: str) -> Any:
        return self._refuse("json_number_too_long") if len(text) > MAX_DIGITS else int(text)

    def _float(self, text: str) -> Any:
        value = float(text)
        return value if isfinite(value) else self._refuse("json_not_finite")


def _malformed(place: str, code: str, expected: str = "") -> InvalidBodyError:
    expected = expected or _EXPECTED[code]
    return InvalidBodyError([Mistake(place=place, code=code, expected=expected)])


def _expected_syntax(error: json.JSONDecodeError) -> str:
    """Return the expected text at the place of a mistake; Python's message may quote the body."""
    if not error.doc[: error.pos].strip():
        return _EXPECTED["json_invalid"]
    found = (told for begin, told in _SYNTAX.items() if error.msg.startswith(begin))
    return next(found, _EXPECTED["json_invalid"])


def _find(document: Any, wanted: _Refused, names: Collection[str]) -> tuple[_Refused, str]:
    """Return the first refused value of a document and its place.

    A value within a refused object has no place: then another refused value is returned.

    Args:
        wanted: the first refused value in the order of parsing.
        names: of all fields.
    """
    refused = list(_refusals(document, (), names))
    first = refused[0] if refused else (wanted, "")
    return next((one for one in refused if one[0] is wanted), first)


def _refusals(
    value: Any, way: tuple[str, ...], names: Collection[str]
) -> Iterator[tuple[_Refused, str]]:
    """Yield the refused values of a document, at most MAX_WAY levels deep, and their places.

    Keys that are no field names are text of the request: the place has `?` instead.
    """
    if isinstance(value, _Refused):
        key = (_shown(value.key, names),) if value.key else ()
        yield value, ".".join((*way, *key))[:MAX_PLACE]
    elif len(way) < MAX_WAY and isinstance(value, dict):
        for key, one in value.items():
            yield from _refusals(one, (*way, _shown(key, names)), names)
    elif len(way) < MAX_WAY and isinstance(value, list):
        for number, one in enumerate(value):
            yield from _refusals(one, (*way, str(number)), names)


def _shown(key: str, names: Collection[str]) -> str:
    return key if key in names else "?"
