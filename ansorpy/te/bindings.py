"""Values of symbols as texts and JSON: a number, or the text of a range that each call decides.

`1..512` is every size of the range, `8..512:8` the multiples of 8, and `1..512@1..8:0.9+512:0.1`
has weights of sizes. Commands, the client and the service have this one notation.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from ansorpy.errors import SpecError, quoted
from ansorpy.te.dims import Dim, dim, plain
from ansorpy.te.size_weights import sizes_text

FORMS: Final = "1..512, 8..512:8 or 8..512:8@8:0.9+64..512:0.1"  # forms of a range, for messages
MOST_CHARS: Final = 4096  # characters of a range; 64 weights of the largest sizes have 3,000
CHARACTERS: Final = re.compile(r"[0-9.:@+e-]+", re.ASCII)

Bound = Mapping[str, float | str]


def range_parts(text: str) -> tuple[int, int, int, dict[int | str, float]]:
    """Return the ends, the step and the weights by sizes of the text of a range.

    Raises:
        ValueError: the text has another form.
    """
    sizes, at, weighted = text.partition("@")
    low, dots, ends = sizes.partition("..")
    if not dots or not CHARACTERS.fullmatch(text) or len(text) > MOST_CHARS:
        raise ValueError(text[:MOST_CHARS])
    high, colon, step = ends.partition(":")
    parts = [part.rsplit(":", 1) for part in weighted.split("+")] if at else []
    weights: dict[int | str, float] = {of: float(weight) for of, weight in parts}
    if len(weights) < len(parts):
        raise ValueError(text)
    return int(low), int(high), int(step) if colon else 1, weights


def range_of(symbol: str, text: str) -> Dim:
    """Return the dim of a symbol; characters that no identifier has become `_` in its name.

    Raises:
        SpecError: the text has another form, or the range is refused (`te.dim`).
    """
    try:
        parts = range_parts(text)
    except ValueError:
        raise SpecError(
            f"cannot bind {quoted(symbol)} to {quoted(text)} because of its form; expected a"
            f" number, or a range such as {FORMS}"
        ) from None
    return dim(re.sub(r"\W|^(?=\d)", "_", symbol, flags=re.ASCII), *parts)


def range_text(sizes: Dim) -> str:
    """Return a range as `range_parts` reads it."""
    step = f":{sizes.step}" if sizes.step > 1 else ""
    parts = "+".join(f"{sizes_text(a, b)}:{weight!r}" for a, b, weight in sizes.weights)
    return f"{sizes.low}..{sizes.high}{step}{'@' if parts else ''}{parts}"


def bound(values: Bound) -> dict[str, Any]:
    """Return values of symbols with a dim for each text.

    Raises:
        SpecError: a text is no range.
    """
    return {
        name: range_of(name, value) if isinstance(value, str) else value
        for name, value in values.items()
    }


def bound_as_json(values: Bound) -> dict[str, float | str]:
    """Return values of symbols with a text for each dim: JSON would have its largest size."""
    return {
        name: range_text(plain(value)) if isinstance(value, Dim) else value
        for name, value in values.items()
    }
