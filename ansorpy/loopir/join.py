"""Join programs for ranges of a dim to one program, whose phases run for the sizes of their range.

phase C of N in 1..8, phase C of N in 9..64
    ->  phase C.range0, without tasks unless N <= 8;  phase C.range1, ... unless N >= 9 and N <= 64

A phase ahead runs for all sizes; equal ones, as packs of the same weights, are one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Const, Expr
from ansorpy.expr.products import conjunction
from ansorpy.loopir.nodes import Buffer, Phase, Program, Scope, Stmt
from ansorpy.loopir.rewrite import number_loops, rename_buffers, stores
from ansorpy.loopir.tasks import guarded
from ansorpy.te.dims import Dim

Ahead: TypeAlias = tuple[Stmt, tuple[Buffer, ...]]  # the meaning of a phase ahead


def join_programs(parts: Sequence[tuple[Dim, Program]]) -> Program:
    """Return the program that runs, for each call, the part whose range has its size.

    Args:
        parts: tiled programs of the same inputs and outputs with the range of each, from the least
            sizes to the largest; a part of a single size need not mention the dim.

    Raises:
        LoweringError: the ranges do not follow each other, or arrays of the caller differ.
    """
    _check(parts)
    joined = _Joined()
    first = parts[0][0]
    whole = Dim(first.name, first.low, parts[-1][0].high, first.step)
    for number, (sizes, program) in enumerate(parts):
        joined.add(number, program, _guard(sizes, whole))
    last = parts[-1][1]
    dims = tuple(whole if dim.name == whole.name else dim for dim in last.dims)
    given = [buffer for buffer in last.buffers if buffer.scope is not Scope.GLOBAL]
    buffers = (*given[:-1], *joined.buffers, given[-1])  # the sizes come last
    return replace(last, buffers=buffers, phases=tuple(joined.phases), dims=dims)


def packs_of(program: Program) -> Mapping[Ahead, int]:
    """Return the bytes of the results of phases ahead; equal ones are shared by joined programs."""
    joined = _Joined()
    joined.add(0, program, None)
    sizes = {buffer.name: buffer.size_bytes for buffer in joined.buffers}
    return {key: sum(sizes[name] for name in names.values()) for key, names in joined.ahead.items()}


@dataclass
class _Joined:
    """The buffers between phases, and the phases, of the parts so far."""

    buffers: list[Buffer] = field(default_factory=list)
    phases: list[Phase] = field(default_factory=list)
    # The buffers that phases ahead write, by the meaning of these phases (`_ahead_key`).
    ahead: dict[Ahead, Mapping[str, str]] = field(default_factory=dict)

    def add(self, number: int, program: Program, guard: Expr | None) -> None:
        """Add the phases of a part, which run if the guard holds, with names of their own."""
        own = {b.name: b for b in program.buffers if b.scope is Scope.GLOBAL}
        names: dict[str, str] = {}  # buffers that this part shares with an earlier one
        phases = []
        for phase in program.phases:
            written = [n for one in stores(phase.body) for n in one.buffers if n in own]
            written = list(dict.fromkeys(written))
            if phase.ahead:
                key = _ahead_key(rename_buffers(phase.body, names), [own[n] for n in written])
                known = self.ahead.get(key)
                if known is not None:
                    names |= zip(written, known.values(), strict=True)
                    continue
                marked = {n: f"{n}.range{number}" for n in written}
                self.ahead[key] = marked
            phases.append(phase)
        kept = [buffer for name, buffer in own.items() if name not in names]
        names |= {buffer.name: f"{buffer.name}.range{number}" for buffer in kept}
        self.buffers += (replace(buffer, name=names[buffer.name]) for buffer in kept)
        for phase in phases:
            body = rename_buffers(phase.body, names)
            made = replace(phase, name=f"{phase.name}.range{number}", body=body)
            if guard is not None and not phase.ahead:
                made = guarded(made, guard)
            self.phases.append(made)


def _ahead_key(body: Stmt, written: Sequence[Buffer]) -> Ahead:
    """Return the meaning of a phase ahead: its body and its results, named by position.

    Loops are named by position, too: they have the names of their stages, which differ by sketch.
    """
    names = {buffer.name: f"~{k}" for k, buffer in enumerate(written)}
    results = tuple(replace(buffer, name=names[buffer.name]) for buffer in written)
    return number_loops(rename_buffers(body, names)), results


def _guard(sizes: Dim, whole: Dim) -> Expr | None:
    """Return the condition that a size of `whole` is one of `sizes`; None if each is."""
    tests: list[Expr] = []
    if sizes.low > whole.low:
        tests.append(Binary("ge", whole.var, Const(sizes.counts[0])))
    if sizes.high < whole.high:
        tests.append(Binary("le", whole.var, Const(sizes.counts[1])))
    return conjunction(tests) if tests else None


def _check(parts: Sequence[tuple[Dim, Program]]) -> None:
    for (sizes, program), (after, following) in pairwise(parts):
        if (sizes.name, sizes.step, sizes.high + sizes.step) != (after.name, after.step, after.low):
            raise LoweringError(f"cannot join {sizes} with {after}; expected sizes that follow")
        if _arrays(program) != _arrays(following):
            raise LoweringError("cannot join programs with different inputs or outputs")


def _arrays(program: Program) -> list[tuple[str, str, Scope]]:
    scopes = (Scope.INPUT, Scope.OUTPUT, Scope.CONSTANT)
    return [(b.name, b.dtype, b.scope) for b in program.buffers if b.scope in scopes]
