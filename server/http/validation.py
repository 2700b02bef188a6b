"""Validation errors of requests: place, kind and expected value of each mistake.

Texts are derived from the schema alone. Messages of pydantic are not used, because they may quote
values of the request.
"""

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import isclass
from typing import Any, Final

from pydantic import BaseModel

from ansorpy.errors import AnsorError
from ansorpy.server.schemas.problem import Mistake
from ansorpy.target import listed

MAX_MISTAKES: Final = 20
MAX_PLACE: Final = 80
MAX_SENT: Final = 64  # characters of an unknown field that are compared with the known fields
MAPPINGS: Final = ("bind", "weights", "shapes")  # fields whose keys come from the request
UNKNOWN: Final = "extra_forbidden"

# Expected value by pydantic's error type; {names} are keys of the error's `ctx`.
_EXPECTED: Final[Mapping[str, str]] = {
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than": "a number below {lt}",
    "less_than_equal": "a number of at most {le}",
    "finite_number": "a finite number",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a string",
    "string_too_short": "at least {min_length} characters",
    "string_too_long": "at most {max_length} characters",
    "string_pattern_mismatch": "a string that matches {pattern}",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "literal_error": "{expected}",
    "missing": "a value",
    "value_error": "{error}",  # raised by a validator of this package
}
_REASONS: Final = {
    UNKNOWN: "no such field exists",
    "missing": "it is missing",
    "json_invalid": "it is not JSON",
    "json_too_deep": "it is nested too deep",
    "json_key_twice": "a key occurs twice",
    "json_not_finite": "NaN and infinity are not JSON",
    "json_number_too_long": "a number has too many digits",
    "json_too_many_keys": "an object has too many keys",
}
_OTHER: Final = "a value as /docs describes it"


class InvalidBodyError(AnsorError):
    """A request does not match the schema of its operation."""

    def __init__(self, mistakes: Sequence[Mistake]) -> None:
        super().__init__(summary(mistakes))
        self.mistakes = mistakes


def mistakes(errors: Sequence[Any], model: type[BaseModel] | None = None) -> list[Mistake]:
    """Return the mistakes of pydantic errors; a place contains field names and numbers only.

    Args:
        model: the model of the body, to suggest fields instead of an unknown one.
    """
    return [
        Mistake(
            place=".".join(_place(error["loc"], error["type"]))[:MAX_PLACE],
            code=error["type"],
            expected=_expected(error, model),
        )
        for error in errors[:MAX_MISTAKES]
    ]


def summary(mistakes: Sequence[Mistake]) -> str:
    """Return a sentence about the first mistake, and the number of further ones."""
    first, *more = mistakes
    reason = _REASONS.get(first.code, "its value does not fit")
    place = first.place or "the request"
    if first.code == UNKNOWN:
        place = f"a field of {first.place.removesuffix('?').rstrip('.') or 'the request'}"
    also = f" (errors lists {len(more)} more)" if more else ""
    return f"cannot take {place} because {reason}; expected {first.expected}{also}"


def to_ascii(text: str) -> str:
    """Return the text with control characters and characters beyond ASCII escaped."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in escaped)


def _place(parts: Sequence[int | str], kind: str) -> list[str]:
    # Unknown fields, and the keys of mappings, are text of the request: show `?` instead.
    known = list(parts)
    if kind == UNKNOWN and known:
        known[-1] = "?"
    mapping = next((i for i, part in enumerate(known) if part in MAPPINGS), None)
    if mapping is not None and len(known) > mapping + 1:
        known[mapping + 1] = "?"
    return [to_ascii(str(part)) for part in known]


def _expected(error: Any, model: type[BaseModel] | None) -> str:
    if error["type"] != UNKNOWN or model is None:
        return _EXPECTED.get(error["type"], _OTHER).format_map(error.get("ctx", {}))
    fields = _fields(model, error["loc"][:-1])
    near = get_close_matches(str(error["loc"][-1])[:MAX_SENT], fields, 1)
    return listed(fields) + (f"; the nearest is {near[0]}" if near else "")


def _fields(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Return the field names of the model at `path` within a model."""
    for part in path:
        inner = model.model_fields[str(part)].annotation
        assert isclass(inner)
        assert issubclass(inner, BaseModel)
        model = inner
    return list(model.model_fields)
