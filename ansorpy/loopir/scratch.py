"""Scratch of the threads of a block: allocations in shared memory."""

from ansorpy.loopir.nodes import Alloc, Buffer, Scope, Stmt
from ansorpy.loopir.rewrite import walk_stmt


def scratch_of(body: Stmt) -> list[Buffer]:
    """Return the buffers that a body allocates in shared memory."""
    found = [part.buffer for part in walk_stmt(body) if isinstance(part, Alloc)]
    return [one for one in found if one.scope is Scope.LOCAL]
