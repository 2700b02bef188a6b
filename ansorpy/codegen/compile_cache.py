"""Compile cache of phases: a phase that several candidates share is compiled once (ADR-0039)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from math import copysign
from typing import Final

from ansorpy.codegen.llvm_ir import object_bytes, phase_text
from ansorpy.codegen.phase_utilities import phase_dims, touched_names
from ansorpy.codegen.phase_writer import Places
from ansorpy.expr.expr import Const, walk
from ansorpy.loopir.nodes import SIZES, Phase, Program
from ansorpy.loopir.rewrite import stmt_exprs, walk_stmt
from ansorpy.target import Target
from ansorpy.te.dims import Dim

KEPT: Final = 64  # objects per process, least recently used out first


@dataclass(frozen=True, slots=True)
class PhaseObject:
    """An object file that defines `void symbol(int64_t *buffers, int64_t task)`, and its counter.

    The symbol is a digest of code and target, so that objects of any phases link together.
    """

    symbol: str
    code: bytes


@dataclass(frozen=True, slots=True)
class _Alone:
    """A phase with all values that its code depends on: the key of the cache.

    `zeros` are the signs of its zeros: -0.0 and 0.0 are equal, but are different code.
    """

    phase: Phase
    places: Places
    target: Target
    zeros: tuple[float, ...]
    dims: tuple[Dim, ...] = ()


def phase_objects(program: Program, target: Target) -> tuple[PhaseObject, ...]:
    """Return the object of every phase, in order.

    Raises:
        BuildError: a phase has no code here, or LLVM refuses it.
    """
    return tuple(_object(alone) for alone in _alone(program, target))


@lru_cache(maxsize=KEPT)
def _object(alone: _Alone) -> PhaseObject:
    text = phase_text(alone.phase, alone.places, alone.target, alone.dims)
    symbol = f"phase_{sha256(f'{alone.target} {text}'.encode()).hexdigest()[:32]}"
    named = text.replace("@phase(", f"@{symbol}(", 1).replace("@phase_tasks(", f"@{symbol}_tasks(")
    return PhaseObject(symbol, object_bytes(named, alone.target))


def _alone(program: Program, target: Target) -> Iterator[_Alone]:
    """Yield every phase with the buffers that it touches, by their numbers among all."""
    for phase in program.phases:
        names, zeros = touched_names(phase), tuple(_zeros(phase))
        dims = phase_dims(program, phase)
        names |= {SIZES} if dims else set()
        numbered = enumerate(program.buffers)
        places = tuple((k, buffer) for k, buffer in numbered if buffer.name in names)
        yield _Alone(phase, places, target, zeros, dims)


def _zeros(phase: Phase) -> Iterator[float]:
    """Yield the sign of every floating-point zero of a phase."""
    for part in walk_stmt(phase.body):
        for expr in stmt_exprs(part):
            for one in walk(expr):
                if isinstance(one, Const) and isinstance(one.value, float) and not one.value:
                    yield copysign(1.0, one.value)
