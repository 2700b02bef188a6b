"""What both printers need of a phase: its tasks, and which register tiles a statement changes."""

from dataclasses import dataclass
from typing import Final

from ansorpy.codegen.kernel import PhaseInfo
from ansorpy.errors import BuildError
from ansorpy.expr.expr import Const
from ansorpy.loopir.nodes import For, LoopKind, Phase, Program, Stmt, Tile
from ansorpy.loopir.rewrite import walk_stmt

MATRICES_READY: Final = "matrices(True)"  # in the source of a kernel that has them


@dataclass(frozen=True, slots=True)
class Tasks:
    """The PARALLEL loops of a phase, outer to inner, and the body of one task."""

    loops: tuple[tuple[str, int], ...]
    body: Stmt

    @property
    def count(self) -> int:
        """How many tasks there are."""
        count = 1
        for _, extent in self.loops:
            count *= extent
        return count


def split_tasks(phase: Phase) -> Tasks:
    """Peel the leading PARALLEL loops off a phase; BuildError if an extent is no number."""
    loops, body = [], phase.body
    while isinstance(body, For) and body.kind is LoopKind.PARALLEL:
        if not isinstance(body.extent, Const):
            raise BuildError(f"{phase.name}: parallel loop {body.var} runs to {body.extent}")
        loops.append((body.var, int(body.extent.value)))
        body = body.body
    return Tasks(tuple(loops), body)


def phase_infos(program: Program) -> tuple[PhaseInfo, ...]:
    """Return one native function per phase, named by position."""
    return tuple(
        PhaseInfo(f"phase{k}", split_tasks(phase).count, phase.ahead)
        for k, phase in enumerate(program.phases)
    )


def stored_names(stmt: Stmt) -> frozenset[str]:
    """Return the buffers that the tiles inside a statement write."""
    return frozenset(
        name for part in walk_stmt(stmt) if isinstance(part, Tile) for name in part.store.buffers
    )


def uses_matrices(phase: Phase) -> bool:
    """Whether a phase has instructions on matrices."""
    return any(isinstance(part, Tile) and part.matrix for part in walk_stmt(phase.body))


def streams(phase: Phase) -> bool:
    """Whether a phase has stores that go past the caches."""
    return any(isinstance(part, Tile) and part.hints.non_temporal for part in walk_stmt(phase.body))
