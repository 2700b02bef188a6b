"""Dags of a text: definitions in the text notation, or one Dag as JSON."""

from collections.abc import Mapping

from ansorpy.errors import SpecError
from ansorpy.frontends.json.write import loads
from ansorpy.frontends.tc.text import parse
from ansorpy.te.dag import Dag


def is_json(text: str) -> bool:
    """Return True if a text can only be a Dag as JSON: definitions begin with `def`."""
    return text.lstrip().startswith("{")


def dags_of(text: str, bind: Mapping[str, int], source: str = "text") -> tuple[Dag, ...]:
    """Return the checked Dags of a text.

    Args:
        bind: the values of sizes that definitions leave as symbols.
        source: the name of the text in messages; a file name.

    Raises:
        SpecError: names the source and the mistake.
    """
    if not is_json(text):
        return parse(text, bind, source)
    try:
        return (loads(text),)
    except SpecError as error:
        raise SpecError(f"{source}: {error}") from error
