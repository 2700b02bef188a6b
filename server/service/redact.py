"""Redaction of error messages, so that no reply repeats strings of its request.

Messages of the engine name nodes and quote mistakes, which is right on the command line. In a reply
such strings could be secrets, scripts or megabytes. So names of nodes are replaced by their places,
and other words of the request by an ellipsis. Words of up to three letters and numbers stay, as in
`extent 70000 > 65536` (ADR-0041).
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from ansorpy.expr.dtypes import DTYPES
from ansorpy.expr.expr import BINARY
from ansorpy.expr.functions import FUNCTIONS
from ansorpy.frontends.tc.lexer import KEYWORDS
from ansorpy.frontends.tc.terms import RESERVED
from ansorpy.schedule.template import SPLIT_KEYS
from ansorpy.schedule.text import SCHEDULE_WORDS
from ansorpy.target import KINDS
from ansorpy.te.dag import COMBINERS

SHORT: Final = 3
MASK: Final = "(...)"
_WORD: Final = re.compile(r"[A-Za-z0-9_\u0080-\U0010ffff]+(?:\.\.\.)?")
_KEYS: Final = (
    "ansorpy", "name", "nodes", "outputs", "kind", "placeholder", "constant", "compute", "shape",
    "dtype", "data", "axes", "dtypes", "body", "combiner", "reduce_axes", "start", "attrs",
    "unroll", "no_split_inner", "const_axes", "layout_free", "flop", "const", "read", "output",
    "call", "cast", "select", "then", "other", "graph", "inputs", "weights", "dags",
    "ansorpy_graph",
)  # fmt: skip
VOCABULARY: Final = frozenset(
    (
        *_KEYS, *KINDS, *DTYPES, *COMBINERS, *BINARY, *FUNCTIONS, *KEYWORDS, *RESERVED,
        *SCHEDULE_WORDS, *SPLIT_KEYS, "knob", "knobs", "function", "template",
    )
)  # fmt: skip


def redacted(message: str, text: str | None, dags: Sequence[Any], names: Iterable[str]) -> str:
    """Return the message with words of the request replaced.

    Args:
        text, dags: the workload, as it was sent.
        names: further strings of the request.
    """
    own = "\n".join((text or "", json.dumps(dags, ensure_ascii=False), *names))
    places = dict(_places(dags))

    def told(match: "re.Match[str]") -> str:
        found = match.group()
        word = found.removesuffix("...")
        if found == word and (len(word) <= SHORT or word in VOCABULARY or word.isdecimal()):
            return found if found.isascii() else MASK
        if found == word and found.isascii() and not _is_word_of(word, own):
            return found
        return places.get(word, MASK)

    return _WORD.sub(told, message)


def _is_word_of(word: str, text: str) -> bool:
    # Search the text for the few words of the message, because splitting a long text is slow.
    return word in text and re.search(rf"(?<![A-Za-z0-9_]){word}(?![A-Za-z0-9_])", text) is not None


def _places(dags: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """Yield names of tasks and nodes with their places; of equal names, the first comes last."""
    for i, dag in reversed(list(enumerate(dags))):
        nodes = dag.get("nodes") if isinstance(dag, Mapping) else None
        for j, node in reversed(list(enumerate(nodes if isinstance(nodes, list) else ()))):
            if isinstance(node, Mapping) and isinstance(node.get("name"), str):
                yield node["name"], f"dags[{i}].nodes[{j}]"
        if isinstance(dag, Mapping) and isinstance(dag.get("name"), str):
            yield dag["name"], f"dags[{i}]"
