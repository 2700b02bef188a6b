"""JSON text from outside, read strictly."""

import json
from typing import Any


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document.

    Refused besides malformed text: a key that is twice in one object, NaN and infinity, nesting
    that Python's parser cannot follow.

    Raises:
        ValueError: the document is refused; the message is for people.
    """
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested too deep") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice in one object")
    return found


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON; write it as a string")
