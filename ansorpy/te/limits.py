"""Limits of a request; all sizes are compared as Python ints, before any allocation."""

import re
from dataclasses import dataclass
from typing import Final

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class DagLimits:
    """Upper limits, all inclusive."""

    nodes: int = 512
    definitions: int = 128  # definitions of one text
    rank: int = 8  # spatial axes, and reduce axes, of one node
    extent: int = 2**31 - 1
    elements: int = 2**31  # elements of one tensor
    bytes: int = 2**34  # bytes of all tensors together
    points: int = 2**40  # iterations of one node
    terms: int = 2**11  # parts of the expressions of one node
    all_terms: int = 2**14  # parts of all expressions
    depth: int = 64  # nesting of one expression
    constant_bytes: int = 2**24  # bytes of all constant tensors together
    unrolled: int = 2**12  # copies of a body that the attributes of one node ask for
    text_bytes: int = 2**20  # bytes of a source text or a JSON document
    flop: int = 2**62


LIMITS: Final = DagLimits()
