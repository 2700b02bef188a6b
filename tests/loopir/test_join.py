"""One program of several, each for a range of sizes."""

import numpy as np
import pytest

from ansorpy.errors import LoweringError
from ansorpy.expr.expr import Binary, Const, Expr, Var, substitute
from ansorpy.expr.intervals import simplify
from ansorpy.loopir.interp import run
from ansorpy.loopir.join import join_programs, packs_of
from ansorpy.loopir.nodes import (
    SIZES,
    Buffer,
    For,
    LoopKind,
    Phase,
    Program,
    Scope,
    Store,
)
from ansorpy.loopir.tasks import task_count
from ansorpy.te.dims import Dim
from tests.loopir.build import read

HIGH = 20
SCOPES = {"W": Scope.INPUT, "P": Scope.GLOBAL}
RANGES = (Dim("N", 1, 1), Dim("N", 2, 8), Dim("N", 9, HIGH))


def part(sizes: Dim, factor: float, packs: float = 2.0, parallel: bool = True) -> Program:
    """Return a program that stores `factor * packs * A` by way of a pack of the weights W."""
    i, kind = Var("i"), LoopKind.PARALLEL if parallel else LoopKind.SERIAL
    one = sizes.low == sizes.high
    extent: Expr = Const(1) if one else Const(int(sizes))
    buffers = (
        Buffer("A", "float32", (Const(HIGH),), Scope.INPUT),
        Buffer("W", "float32", (Const(1),), Scope.INPUT),
        Buffer("C", "float32", (Const(HIGH),), Scope.OUTPUT),
        Buffer("P", "float32", (Const(1),), Scope.GLOBAL),
        Buffer("T", "float32", (Const(int(sizes)),), Scope.GLOBAL),
        *([] if one else [Buffer(SIZES, "int64", (Const(1),), Scope.SIZES)]),
    )
    packed = Binary("mul", read("W", Const(0)), Const(packs, "float32"))
    scaled = Binary("mul", read("A", i), read("P", Const(0)))
    last = Binary("mul", read("T", i), Const(factor, "float32"))
    phases = (
        Phase("P", Store(("P",), (Const(0),), (packed,)), ahead=True),
        Phase("T", For("i", extent, Store(("T",), (i,), (scaled,)), kind)),
        Phase("C", For("i", extent, Store(("C",), (i,), (last,)), kind)),
    )
    return Program("f", buffers, phases, dims=() if one else (sizes,))


def joined(*parts: Program) -> Program:
    return join_programs(list(zip(RANGES, parts, strict=True)))


def result(program: Program, size: int) -> list[float]:
    given = {"A": np.arange(HIGH, dtype=np.float32), "W": np.full(1, 3, np.float32)}
    return list(run(program, given, {"~N": size})["C"])


@pytest.mark.parametrize("parallel", [True, False])
def test_a_call_runs_the_part_of_its_size(parallel: bool) -> None:
    parts = [part(sizes, k + 1.0, parallel=parallel) for k, sizes in enumerate(RANGES)]
    program = joined(*parts)
    for size in range(1, HIGH + 1):
        (own,) = (k for k, sizes in enumerate(RANGES) if sizes.low <= size <= sizes.high)
        rows = int(RANGES[own])
        assert result(program, size)[:rows] == [6.0 * (own + 1) * n for n in range(rows)]
    assert program.dims == (Dim("N", 1, HIGH),)
    assert program.buffers[-1].scope is Scope.SIZES


def test_a_phase_has_no_tasks_for_sizes_of_other_ranges() -> None:
    program = joined(*(part(sizes, 1.0) for sizes in RANGES))
    timed = [phase for phase in program.phases if not phase.ahead]
    for size in range(1, HIGH + 1):
        at = {"~N": Const(size)}
        counts = [simplify(substitute(task_count(phase), at), {}) for phase in timed]
        own = 0 if size == 1 else 1 if size < 9 else 2
        wanted = [int(RANGES[k]) if k == own else 0 for k in range(3) for _ in "TC"]
        assert counts == list(map(Const, wanted))


def test_equal_phases_ahead_are_one() -> None:
    program = joined(*(part(sizes, 1.0) for sizes in RANGES))
    assert [phase.name for phase in program.phases if phase.ahead] == ["P.range0"]
    assert [b.name for b in program.buffers if b.scope is Scope.GLOBAL] == [
        "P.range0", "T.range0", "T.range1", "T.range2",
    ]  # fmt: skip


def test_other_phases_ahead_are_kept() -> None:
    program = joined(*(part(sizes, 1.0, 1.0 + k) for k, sizes in enumerate(RANGES)))
    assert len([phase for phase in program.phases if phase.ahead]) == len(RANGES)
    for size, factor in ((1, 1.0), (5, 2.0), (HIGH, 3.0)):
        assert result(program, size)[:size] == [3.0 * factor * n for n in range(size)]


def test_packs_are_told_by_meaning() -> None:
    first, second = part(RANGES[0], 1.0), part(RANGES[2], 5.0)
    assert packs_of(first) == packs_of(second)
    assert list(packs_of(first).values()) == [4]
    assert packs_of(first).keys().isdisjoint(packs_of(part(RANGES[0], 1.0, packs=3.0)))


def test_packs_of_other_loop_names_are_equal() -> None:
    def packed(loop: str, extent: int = 4) -> Program:
        body = For(loop, Const(extent), Store(("P",), (Var(loop),), (read("W", Var(loop)),)))
        shape = (Const(4),)
        buffers = [Buffer(n, "float32", shape, s) for n, s in SCOPES.items()]
        return Program("f", tuple(buffers), (Phase("P", body, ahead=True),))

    assert packs_of(packed("C.pack:k")) == packs_of(packed("C.local.pack:k"))
    assert packs_of(packed("k")) != packs_of(packed("k", 3))


def test_ranges_that_leave_a_size_out_are_refused() -> None:
    first, _, last = (part(sizes, 1.0) for sizes in RANGES)
    with pytest.raises(LoweringError, match=r"cannot join N in 1..1 with N in 9..20"):
        join_programs([(RANGES[0], first), (RANGES[2], last)])


def test_programs_of_other_arrays_are_refused() -> None:
    first, second, last = (part(sizes, 1.0) for sizes in RANGES)
    other = Program("f", second.buffers[1:], second.phases, dims=second.dims)
    with pytest.raises(LoweringError, match="different inputs or outputs"):
        joined(first, other, last)
