"""Validation errors of requests: place, kind and expected value of each mistake.

Texts are derived from the schema alone. Messages of pydantic are not used, because they may quote
values of the request.
"""

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from inspect import isclass
from typing import Any, Final

from pydantic import BaseModel

from ansorpy.errors import AnsorError, ShapeError
from ansorpy.server.jobs.errors import FieldError
from ansorpy.server.schemas.base import DIGEST_PATTERN, NAME_PATTERN
from ansorpy.server.schemas.job import RULES
from ansorpy.server.schemas.problem import Mistake
from ansorpy.target import listed
from ansorpy.tuner.options.networks import WEIGHT_PATTERN
from ansorpy.tuner.options.removed import REMOVED
from ansorpy.tuner.options.tune_options import ALLOW_PATTERN, RULE_PATTERN

MAX_MISTAKES: Final = 20
MAX_PLACE: Final = 80
MAX_SENT: Final = 64  # characters of an unknown field that are compared with the known fields
# Fields whose keys come from the request.
MAPPINGS: Final = ("bind", "weights", "shapes", "network_targets_s", "task_targets_s")
UNKNOWN: Final = "extra_forbidden"

# Expected value by the regular expression of a field.
_PATTERNS: Final[Mapping[str, str]] = {
    NAME_PATTERN: "a name: a letter or _, then at most 62 letters, digits or _",
    DIGEST_PATTERN: "64 hexadecimal digits in lower case",
    WEIGHT_PATTERN: "TASK or NETWORK/TASK: names of letters, digits and _",
    RULE_PATTERN: "the name of a rule: at most 40 letters",
    ALLOW_PATTERN: "the name of rules: at most 40 letters, digits, _ and -",
    "^[0-9a-f]{32}$": "32 hexadecimal digits in lower case",
}

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
    "string_unicode": "a string of Unicode characters",
    "string_pattern_mismatch": "a string that matches {pattern}",
    "list_type": "a list",
    "dict_type": "an object",
    "model_type": "an object",
    "too_short": "at least {min_length} entries",
    "too_long": "at most {max_length} entries",
    "literal_error": "{expected}",
    "missing": "a value",
    "value_error": "{error}",  # raised by a validator of this package
    **dict.fromkeys(RULES, "{expected}"),
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
    "too_long": "it is too long",
    "too_short": "it is too short",
    **RULES,
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
            place=_place(error),
            code=error["type"],
            expected=_expected(error, model),
        )
        for error in errors[:MAX_MISTAKES]
    ]


def summary(mistakes: Sequence[Mistake]) -> str:
    """Return a sentence about the first mistake, and the number of further ones."""
    first, *more = mistakes
    removed = REMOVED.get(first.place.rpartition(".")[2], "") if first.code == UNKNOWN else ""
    reason = removed or _REASONS.get(first.code, "its value does not fit")
    place = first.place or "the request"
    if (first.code == UNKNOWN and not removed) or first.place == "?":
        place = f"a field of {first.place.removesuffix('?').rstrip('.') or 'the request'}"
    also = f" (errors lists {len(more)} more)" if more else ""
    return f"cannot take {place} because {reason}; expected {first.expected}{also}"


def to_ascii(text: str) -> str:
    """Return the text with control characters and characters beyond ASCII escaped."""
    escaped = text.encode("ascii", "backslashreplace").decode()
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in escaped)


def mistake_of(error: ShapeError) -> Mistake:
    """Return the mistake of a document within a body, at `dags.0.nodes.2`."""
    place = to_ascii(re.sub(r"\[(\d+)\]", r".\1", error.place))[:MAX_PLACE]
    return Mistake(place=place, code=error.code, expected=to_ascii(error.expected))


def mistake_of_field(error: FieldError, detail: str) -> Mistake:
    """Return the mistake of a field that breaks a rule; within a text at its line and column."""
    place = re.match(r"text:\d+:\d+", detail)
    _, known, expected = detail.rpartition("; expected ")
    return Mistake(
        place=place[0] if place else error.place,
        code="spec",
        expected=to_ascii(expected) if known else _OTHER,
    )


def _place(error: Any) -> str:
    if error["type"] in RULES:
        return str(error["ctx"]["place"])
    # Unknown fields, and the keys of mappings, are text of the request: show `?` instead. The name
    # of an option that was removed is known.
    known = list(error["loc"])
    if known and known[-1] == "[key]":
        known.pop()
    if error["type"] == UNKNOWN and known and known[-1] not in REMOVED:
        known[-1] = "?"
    mapping = next((i for i, part in enumerate(known) if part in MAPPINGS), None)
    if mapping is not None and len(known) > mapping + 1:
        known[mapping + 1] = "?"
        if known[mapping] == "bind":  # its values have kinds, no parts
            del known[mapping + 2 :]
    return ".".join(to_ascii(str(part)) for part in known)[:MAX_PLACE]


def _expected(error: Any, model: type[BaseModel] | None) -> str:
    ctx = error.get("ctx", {})
    if error["type"] == "string_pattern_mismatch" and ctx["pattern"] in _PATTERNS:
        return _PATTERNS[ctx["pattern"]]
    if error["type"] != UNKNOWN or model is None:
        return _EXPECTED.get(error["type"], _OTHER).format_map(ctx)
    *path, sent = error["loc"]
    if sent in REMOVED:
        return f"no {sent}"
    near = _nearest(str(sent)[:MAX_SENT], model, path)
    return listed(_fields(model, path)) + (f"; the nearest is {near}" if near else "")


def _nearest(sent: str, model: type[BaseModel], path: Sequence[int | str]) -> str:
    """Return the known field whose name is nearest to an unknown one, "" if none is near.

    A field of the same object comes first, then one of the whole body: `budget.trials`.
    """
    here = {name: name for name in _fields(model, path)}
    every = {name.rpartition(".")[2]: name for name in reversed(_all_fields(model))}
    for known in (here, every):
        for name in get_close_matches(sent, known, 1):
            return known[name]
    return ""


def known_names(model: type[BaseModel]) -> frozenset[str]:
    """Return the names of the fields of a model, of the inner ones too."""
    return frozenset(name.rpartition(".")[2] for name in _all_fields(model))


def _all_fields(model: type[BaseModel], prefix: str = "") -> list[str]:
    """Return the names of all fields of a model, outer ones first: `budget.trials`."""
    found = [prefix + name for name in model.model_fields]
    for name, field in model.model_fields.items():
        if isclass(field.annotation) and issubclass(field.annotation, BaseModel):
            found += _all_fields(field.annotation, f"{prefix}{name}.")
    return found


def _fields(model: type[BaseModel], path: Sequence[int | str]) -> list[str]:
    """Return the field names of the model at `path` within a model."""
    for part in path:
        inner = model.model_fields[str(part)].annotation
        assert isclass(inner)
        assert issubclass(inner, BaseModel)
        model = inner
    return list(model.model_fields)
