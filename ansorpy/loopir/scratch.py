"""Scratch of the threads of a block: allocations in shared memory."""

from collections import Counter

from ansorpy.loopir.nodes import Alloc, Buffer, Scope, Stmt
from ansorpy.loopir.rewrite import walk_stmt


def scratch_of(body: Stmt) -> list[Buffer]:
    """Return the buffers that a body allocates in shared memory."""
    return [one for one in _allocated(body) if one.scope is Scope.LOCAL]


def scratch_by_name(body: Stmt) -> dict[str, Buffer]:
    """Return the buffers in shared memory by name, without names of several allocations.

    A name of several allocations may stand for registers in one of them.
    """
    count = Counter(one.name for one in _allocated(body))
    return {one.name: one for one in scratch_of(body) if count[one.name] == 1}


def _allocated(body: Stmt) -> list[Buffer]:
    return [part.buffer for part in walk_stmt(body) if isinstance(part, Alloc)]
