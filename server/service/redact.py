"""What a request is told about itself, without its own words.

The engine's messages name nodes and quote what is wrong: right for the person at the command line.
A reply of the service never repeats strings that came in (they may be secrets, scripts, or a
megabyte): names of nodes become their places, other words of the request an ellipsis. Words of up
to three letters stay, numbers too: `extent 70000 > 65536` is what one needs to know.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ansorpy.te.dag import COMBINERS
from ansorpy.te.expr import BINARY, DTYPES, FUNCTIONS
from ansorpy.te.text_lexer import KEYWORDS
from ansorpy.te.text_terms import RESERVED

SHORT: Final = 3
MASK: Final = "(...)"
_WORD: Final = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]+(?:\.\.\.)?")
_KEYS: Final = frozenset(
    "ansorpy name nodes outputs kind placeholder constant compute shape dtype data axes dtypes body"
    " combiner reduce_axes start attrs unroll no_split_inner const_axes layout_free flop const var"
    " read at output op call cast select then other inf nan".split()
)
VOCABULARY: Final = frozenset(
    (*_KEYS, *DTYPES, *COMBINERS, *BINARY, *FUNCTIONS, *KEYWORDS, *RESERVED)
)


def redacted(message: str, text: str | None, dags: Sequence[Any], names: Iterable[str]) -> str:
    """Return a message about a request in which no word of the request is left.

    Args:
        text, dags: the workload, as it came in.
        names: further strings of the request.
    """
    own = {word for part in (text or "", *strings(dags), *names) for word in _words(part)}
    own = {word for word in own if len(word) > SHORT and word not in VOCABULARY}
    places = dict(_places(dags))

    def told(match: "re.Match[str]") -> str:
        found = match.group()
        word = found.removesuffix("...")
        if word.isdecimal() or not (word in own or not found.isascii() or found != word):
            return found
        return places.get(word, MASK)

    return _WORD.sub(told, message)


def _words(text: str) -> Iterator[str]:
    return (match.group() for match in _WORD.finditer(text))


def strings(value: Any) -> Iterator[str]:
    """Yield every key and string of a JSON value; without recursion, for any nesting."""
    stack = [value]
    while stack:
        found = stack.pop()
        if isinstance(found, str):
            yield found
        elif isinstance(found, Mapping):
            stack += [*found, *found.values()]
        elif isinstance(found, list):
            stack += found


def _places(dags: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield names of tasks and nodes, the first of equals last, with where they stand."""
    for i, dag in reversed(list(enumerate(dags))):
        nodes = dag.get("nodes") if isinstance(dag, Mapping) else None
        for j, node in reversed(list(enumerate(nodes if isinstance(nodes, list) else ()))):
            if isinstance(node, Mapping) and isinstance(node.get("name"), str):
                yield node["name"], f"dags[{i}].nodes[{j}]"
        if isinstance(dag, Mapping) and isinstance(dag.get("name"), str):
            yield dag["name"], f"dags[{i}]"
