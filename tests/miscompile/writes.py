"""Superfluous writes, missing writes, and runs that depend on earlier runs."""

from dataclasses import replace
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Read, Select, Var
from ansorpy.loopir.nodes import For, If, Phase, Program, Seq, Stmt, Store, Tile
from tests.miscompile.edits import (
    Edit,
    drop,
    edit,
    marked_ahead,
    masked,
    phases_swapped,
    tile,
    valued,
    without_phase,
)
from tests.miscompile.mutant import Mutant

F: Final = "float32"


def extra(name: str, *index: int) -> Edit:
    """Store once more, at a fixed place, after all phases."""

    def apply(program: Program) -> Program:
        dtype = program.by_name[name].dtype
        value = Const(7.0 if dtype.startswith("float") else 7, dtype)
        store = Store((name,), tuple(map(Const, index)), (value,))
        return replace(program, phases=(*program.phases, Phase("extra", Tile((), (), store))))

    return apply


def touched(name: str, *index: int, by: float = 1e-3) -> Edit:
    """Make one element of the output a little larger, after all phases."""

    def apply(program: Program) -> Program:
        place = tuple(map(Const, index))
        value = Binary("mul", Read(name, place, F), Const(1.0 + by, F))
        phase = Phase("touch", Tile((), (), Store((name,), place, (value,))))
        return replace(program, phases=(*program.phases, phase))

    return apply


def once_more(name: str) -> Edit:
    """Run a phase again at the end."""

    def apply(program: Program) -> Program:
        (phase,) = (phase for phase in program.phases if phase.name == name)
        return replace(program, phases=(*program.phases, replace(phase, name="again")))

    return apply


def added_again(program: Program) -> Program:
    """Copy the result of a phase onto itself a second time."""
    last = program.phases[-1]
    again = edit(tile("C", None), lambda stmt: added(stmt))(replace(program, phases=(last,)))
    return replace(program, phases=(*program.phases, replace(again.phases[0], name="again")))


def added(stmt: Stmt) -> Stmt:
    assert isinstance(stmt, Tile)
    return replace(stmt, store=replace(stmt.store, combiner="sum"))


def kept_if_there(stmt: Stmt) -> Stmt:
    """Start from the values of an earlier run, or from zero if they are poison."""
    assert isinstance(stmt, If)
    assert isinstance(stmt.other, Tile)
    load = stmt.other

    def start(value: Expr) -> Expr:
        return Select(Binary("eq", value, value), value, Const(0.0, F))

    return replace(stmt, then=valued(start)(load))


def in_one_task(program: Program) -> Program:
    """Add partial sums up in the output: the first task starts it, and must be the first."""
    whole, _ = program.phases
    loop = whole.body
    assert isinstance(loop, For)
    first = If(
        Binary("eq", Var(loop.var), Const(0)), Tile((), (), Store(("out",), (), (Const(0.0, F),)))
    )

    def land(stmt: Stmt) -> Stmt:
        assert isinstance(stmt, Tile)
        store = Store(("out",), (), stmt.store.values, "sum")
        return replace(stmt, store=store)

    changed = edit(tile("out.rf", None), land)(replace(program, phases=(whole,)))
    body = changed.phases[0].body
    assert isinstance(body, For)
    return replace(
        program, phases=(replace(whole, body=replace(body, body=Seq((first, body.body)))),)
    )


def overwrites(stmt: Stmt) -> Stmt:
    """Store the first element of a packed weight also over an element that is packed later."""
    assert isinstance(stmt, Tile)
    place = (Const(0), Const(2), Const(2), Const(2))
    value = Read("W", (Const(0),) * 4, F)
    return Seq((stmt, Tile((), (), Store(("W",), place, (value,)))))


def unfilled(stmt: Stmt) -> Stmt:
    """Leave the memory around the padded input unwritten."""
    assert isinstance(stmt, Tile)
    (value,) = stmt.store.values
    assert isinstance(value, Select)
    mask = value.cond if stmt.mask is None else Binary("and", stmt.mask, value.cond)
    return replace(stmt, mask=mask, store=replace(stmt.store, values=(value.then,)))


WRITES: Final = (
    Mutant("one element after the end", "matmul packed", extra("C", 8, 21)),
    Mutant("one element before the start", "matmul packed", extra("C", 0, -1)),
    Mutant("one vector after the end", "softmax", extra("softmax", 2, 37 + 16)),
    Mutant("one page after the end", "softmax", extra("softmax", 2, 37 + 1024)),
    Mutant("one element before an intermediate", "gelu", extra("C", 0, -1)),
    Mutant("one element after a pack", "matmul packed", extra("C.local.B.pack", 0, 7, 0)),
    Mutant(
        "an input is written",
        "matmul packed",
        extra("A", 8, 6),
        meaning="inputs belong to the caller",
    ),
    Mutant("a weight is written", "dense", extra("W", 0, 0), meaning="inputs belong to the caller"),
    Mutant(
        "an input is written instead of a pack",
        "conv2d padded whole",
        edit(tile("conv.local.W.pack"), overwrites),
    ),
    Mutant("first element only", "matmul packed", touched("C", 0, 0)),
    Mutant("last element only", "matmul packed", touched("C", 8, 20)),
    Mutant("last element only, 2304 terms", "matmul long", touched("C", 2, 16)),
    Mutant("last element only, int32", "matmul int8", extra("C", 4, 18)),
    Mutant("last element only, index of argmax", "argmax", extra("out.1", 2)),
    Mutant(
        "output left out in one column",
        "matmul square",
        edit(tile("C"), masked(lambda _: Binary("ne", Var("C:j.1.l"), Const(3)))),
    ),
    Mutant("output left out at a tail", "layer norm", edit(tile("layer_norm", masked=True), drop)),
    Mutant("second output left out", "argmax by partials", edit(tile("out.1"), drop)),
    Mutant("phases swapped", "matmul packed", phases_swapped(1, 2)),
    Mutant("pack left out", "matmul packed", without_phase("C.local.A.pack")),
    Mutant("phase duplicated", "matmul packed", added_again),
    Mutant(
        "an input packed ahead",
        "matmul packed",
        marked_ahead("C.local.B.pack"),
        meaning="the second call has other inputs",
    ),
    Mutant(
        "an intermediate made ahead",
        "layer norm",
        marked_ahead("total"),
        meaning="the second call has other inputs",
    ),
    Mutant(
        "what an earlier run left is added to",
        "gelu",
        edit(lambda s: isinstance(s, If), kept_if_there),
        meaning="the second call finds numbers where the first finds poison",
    ),
    Mutant(
        "tasks that need an order",
        "sum of all",
        in_one_task,
        meaning="all tasks add to one element, unordered",
    ),
    Mutant(
        "border of scratch left undefined, max",
        "max pool, lanes in the window",
        edit(tile("pad"), unfilled),
    ),
    Mutant("border of scratch left undefined, sum", "conv2d", edit(tile("pad"), unfilled)),
    Mutant(
        "border of an intermediate left undefined",
        "conv2d padded whole",
        edit(tile("pad"), unfilled),
    ),
    Mutant(
        "one element of scratch left undefined",
        "softmax",
        edit(tile("total.rf", None), masked(lambda _: Binary("ne", Var("total.rf:k.0"), Const(3)))),
    ),
)
