"""Phases to machine code, each for itself: what candidates share is compiled once (ADR-0076)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import copysign
from typing import Final

from ansorpy.codegen.llvm_ir import Places, object_bytes, phase_text
from ansorpy.expr.expr import Const, Read, walk
from ansorpy.loopir.nodes import Phase, Prefetch, Program, Tile
from ansorpy.loopir.rewrite import stmt_exprs, walk_stmt
from ansorpy.target import Target

KEPT: Final = 64  # phases of one process: the last that were asked for


@dataclass(frozen=True, slots=True)
class PhaseObject:
    """An object file that defines `void symbol(int64_t *buffers, int64_t task)`.

    Other code, or another target, has another symbol: any of them go into one process.
    """

    symbol: str
    code: bytes


@dataclass(frozen=True, slots=True)
class _Alone:
    """A phase with all that its code depends on; equal ones have the same code.

    `zeros` are the signs of its zeros: -0.0 is equal to 0.0 elsewhere.
    """

    phase: Phase
    places: Places
    target: Target
    zeros: tuple[float, ...]


def phase_objects(program: Program, target: Target) -> tuple[PhaseObject, ...]:
    """Return the object of every phase, in order.

    Raises:
        BuildError: a phase has no code here, or LLVM refuses it.
    """
    return tuple(_object(alone) for alone in _alone(program, target))


@lru_cache(maxsize=KEPT)
def _object(alone: _Alone) -> PhaseObject:
    text = phase_text(alone.phase, alone.places, alone.target)
    symbol = f"phase_{sha256(f'{alone.target} {text}'.encode()).hexdigest()[:32]}"
    named = text.replace("@phase(", f"@{symbol}(", 1)
    return PhaseObject(symbol, object_bytes(named, alone.target))


def _alone(program: Program, target: Target) -> Iterator[_Alone]:
    """Yield every phase with the buffers that it touches, by their numbers among all."""
    for phase in program.phases:
        names: set[str] = set()
        zeros = []
        for part in walk_stmt(phase.body):
            if isinstance(part, Tile):
                names.update(part.store.buffers)
            elif isinstance(part, Prefetch):
                names.add(part.buffer)
            for one in (one for expr in stmt_exprs(part) for one in walk(expr)):
                if isinstance(one, Read):
                    names.add(one.tensor)
                elif isinstance(one, Const) and isinstance(one.value, float) and not one.value:
                    zeros.append(copysign(1.0, one.value))
        numbered = enumerate(program.buffers)
        places = tuple((k, buffer) for k, buffer in numbered if buffer.name in names)
        yield _Alone(phase, places, target, tuple(zeros))
