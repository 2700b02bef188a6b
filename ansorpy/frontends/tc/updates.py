"""Statements that name a tensor again: the operators, and the start values that merge.

C(i) = 0   C(i) += A(i, k)      one reduction that starts from 0
C(i) +=! A(i, k)   C(i) = C(i) + B(i)      two values of C, each a node of its own
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ansorpy.frontends.tc.ast import Apply, Name, Statement, all_terms

UPDATES: Final = ("+=", "*=", "max=", "min=")


def start_values(statements: Sequence[Statement]) -> Mapping[str, int]:
    """Return the place of `C(i) = start` by name, for tensors whose first update absorbs it.

    The update is the second statement of the tensor. The start value merges into it unless a
    statement up to it reads the tensor, or assigns a tensor of the start value: then a move of the
    start value to the place of the update would change a result.
    """
    values: dict[str, int] = {}
    places: dict[str, list[int]] = {}
    for place, statement in enumerate(statements):
        for name in statement.targets:
            places.setdefault(name.name, []).append(place)
    for tensor, (first, *later) in places.items():
        if not later or statements[first].op != "=" or statements[later[0]].op not in UPDATES:
            continue
        start, between = statements[first], statements[first + 1 : later[0]]
        if len(start.targets) > 1 or len(statements[later[0]].targets) > 1:
            continue
        read = {one for statement in (*between, statements[later[0]]) for one in _names(statement)}
        moved = {target.name for statement in between for target in statement.targets}
        if tensor not in read | _names(start) and not moved & _names(start):
            values[tensor] = first
    return values


def _names(statement: Statement) -> set[str]:
    """Return the names that the value of a statement mentions."""
    return {term.name for term in all_terms(statement.value) if isinstance(term, Name | Apply)}
