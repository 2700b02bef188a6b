"""Use non-temporal stores for outputs that exceed the last-level cache.

C[i, l] = ...    ->    hints(non_temporal): C[i, l] = ...    if C exceeds the last-level cache

A normal store first reads the cache line that it writes to; a non-temporal store does not.
"""

from dataclasses import replace
from typing import Final

from ansorpy.expr.expr import reads
from ansorpy.loopir.nodes import Program, Scope, Stmt, Tile
from ansorpy.loopir.passes.exceeds_cache import fills
from ansorpy.loopir.rewrite import map_phases, map_stmt, walk_stmt
from ansorpy.target import Target

FEATURE: Final = "avx512f"  # with it, a vector is a whole cache line


def non_temporal_stores(program: Program, target: Target) -> Program:
    """Return the program with non-temporal stores to outputs that exceed the last-level cache.

    Needs        a tiled program.
    Keeps        the meaning.
    Not handled  outputs that are read or accumulated into, and processors whose vectors are
                 shorter than a cache line.
    """
    if FEATURE not in target.features:
        return program
    large = {
        buffer.name
        for buffer in program.buffers
        if buffer.scope is Scope.OUTPUT and fills(buffer, target.l3_bytes)
    }
    for phase in program.phases:
        for part in walk_stmt(phase.body):
            if isinstance(part, Tile):
                large -= {each.tensor for value in part.store.values for each in reads(value)}
                large -= set() if part.store.combiner is None else set(part.store.buffers)

    def change(stmt: Stmt) -> Stmt:
        if not isinstance(stmt, Tile) or not stmt.lanes or not large >= {*stmt.store.buffers}:
            return stmt
        return replace(stmt, hints=replace(stmt.hints, non_temporal=True))

    return map_phases(program, lambda body: map_stmt(body, change)) if large else program
