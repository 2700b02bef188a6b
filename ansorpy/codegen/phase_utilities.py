"""Facts about a phase for the printers and the runtime: its tasks, the buffers that it touches."""

from typing import Final

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Const, reads, variables
from ansorpy.expr.intervals import bounds
from ansorpy.loopir.nodes import Phase, Prefetch, Program, Scope, Stmt, Tile
from ansorpy.loopir.rewrite import stmt_exprs, walk_stmt
from ansorpy.loopir.tasks import task_count
from ansorpy.te.dims import Dim

MATRICES_READY: Final = "matrices(True)"  # stands in the source of kernels that use AMX


def phase_infos(program: Program) -> tuple[PhaseInfo, ...]:
    """Return one native function per phase, named by position.

    Raises:
        BuildError: the number of tasks depends on a variable that is no dim.
    """
    return tuple(_info(f"phase{k}", phase, program) for k, phase in enumerate(program.phases))


def _info(name: str, phase: Phase, program: Program) -> PhaseInfo:
    count = task_count(phase)
    for free in variables(count) - program.ranges.keys():
        raise BuildError(f"{phase.name}: no loop binds {free!r} of {count} tasks")
    most = bounds(count, program.ranges)[1]
    return PhaseInfo(name, most, phase.ahead, sized=not isinstance(count, Const))


def stored_names(stmt: Stmt) -> frozenset[str]:
    """Return the buffers that the tiles inside a statement write."""
    return frozenset(
        name for part in walk_stmt(stmt) if isinstance(part, Tile) for name in part.store.buffers
    )


def touched_names(phase: Phase) -> set[str]:
    """Return the buffers that a phase reads, writes or prefetches."""
    names: set[str] = set()
    for part in walk_stmt(phase.body):
        if isinstance(part, Tile):
            names.update(part.store.buffers)
        elif isinstance(part, Prefetch):
            names.add(part.buffer)
        for expr in stmt_exprs(part):
            names.update(read.tensor for read in reads(expr))
    return names


def phase_dims(program: Program, phase: Phase) -> tuple[Dim, ...]:
    """Return the dims whose sizes a phase reads: all of the program, or none."""
    parts = (expr for stmt in walk_stmt(phase.body) for expr in stmt_exprs(stmt))
    mentioned = frozenset[str]().union(*map(variables, (*parts, task_count(phase))))
    return program.dims if mentioned & program.ranges.keys() else ()


def packed_names(program: Program) -> frozenset[str]:
    """Return the GLOBAL buffers that calls read as the phases ahead left them."""
    names = {buffer.name for buffer in program.buffers if buffer.scope is Scope.GLOBAL}
    made = {n for phase in program.phases if phase.ahead for n in stored_names(phase.body)}
    return frozenset(names & made & _timed_names(program))


def steady_names(program: Program) -> tuple[str, ...]:
    """Return the buffers that calls read and never write: inputs, and packed weights."""
    packed, timed = packed_names(program), _timed_names(program)
    return tuple(
        buffer.name
        for buffer in program.buffers
        if buffer.name in packed or (buffer.scope is Scope.INPUT and buffer.name in timed)
    )


def _timed_names(program: Program) -> set[str]:
    return {n for phase in program.phases if not phase.ahead for n in touched_names(phase)}


def uses_matrices(phase: Phase) -> bool:
    """Return whether a phase has matrix instructions (AMX)."""
    return any(isinstance(part, Tile) and part.matrix for part in walk_stmt(phase.body))


def streams(phase: Phase) -> bool:
    """Return whether a phase has non-temporal stores."""
    return any(isinstance(part, Tile) and part.hints.non_temporal for part in walk_stmt(phase.body))
