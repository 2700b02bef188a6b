"""Values of symbols as texts and JSON: a number, or the text of a range that each call decides.

`1..512` is every size of the range, `8..512:8` the multiples of 8, and `1..512@1..8:0.9+512:0.1`
has weights of sizes. `past+new` and `past+1` are sums of other symbols and numbers, and `past` is
the same number as another symbol. Commands, the client and the service have this one notation.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from ansorpy.errors import SpecError, quoted
from ansorpy.te.dims import Dim, dim, plain, sum_of
from ansorpy.te.size_weights import sizes_text

FORMS: Final = "1..512, 8..512:8, 8..512:8@8:0.9+64..512:0.1 or past+new"  # for messages
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
    return dim(identifier(symbol), *parts)


def identifier(symbol: str) -> str:
    """Return the name of the dim of a symbol."""
    return re.sub(r"\s*\+\s*|\W|^(?=\d)", "_", symbol, flags=re.ASCII)


def sum_in(symbol: str, text: str, values: Mapping[str, Any]) -> Dim | int | None:
    """Return the bound symbol, or the sum of such symbols and numbers, that a text is, else None.

    Args:
        values: numbers and dims by symbol; a term may also be the name of such a dim.

    Raises:
        SpecError: the sum is too large.
    """
    known = {one.name: one for one in values.values() if isinstance(one, Dim)} | dict(values)
    parts = [part.strip() for part in text.split("+")]
    known.pop(symbol, None)
    if not all(part in known or (part.isdecimal() and len(parts) > 1) for part in parts):
        return None
    terms = [known[part] if part in known else int(part) for part in parts]
    if not all(isinstance(term, int) for term in terms):
        return None
    dims = any(isinstance(term, Dim) for term in terms)
    if len(terms) == 1:
        return terms[0]
    return sum_of(identifier(symbol), terms) if dims else sum(terms)


def range_text(sizes: Dim) -> str:
    """Return a range as `range_parts` reads it, a sum as `sum_in` reads it."""
    if sizes.terms:
        return "+".join(map(str, sizes.terms))
    sizes = plain(sizes)
    step = f":{sizes.step}" if sizes.step > 1 else ""
    parts = "+".join(f"{sizes_text(a, b)}:{weight!r}" for a, b, weight in sizes.weights)
    return f"{sizes.low}..{sizes.high}{step}{'@' if parts else ''}{parts}"


def bound(values: Bound) -> dict[str, Any]:
    """Return values of symbols with a dim for each text.

    Raises:
        SpecError: a text is no range and no sum of other symbols.
    """
    found: dict[str, Any] = {}
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    found |= {name: value for name, value in values.items() if name not in texts}
    found |= {name: range_of(name, text) for name, text in texts.items() if ".." in text}
    for name, text in texts.items():
        if ".." not in text:
            made = sum_in(name, text, found)
            found[name] = range_of(name, text) if made is None else made
    return {name: found[name] for name in values}


def bound_as_json(values: Bound) -> dict[str, float | str]:
    """Return values of symbols with a text for each dim: JSON would have its largest size."""
    return {
        name: range_text(value) if isinstance(value, Dim) else value
        for name, value in values.items()
    }
