"""Plans written by hand: matmul 512 with relu in the SSRSRS structure, and Ansor's test case."""

from ansorpy.expr.build import add, ceildiv, least, mul, product, sub
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var
from ansorpy.loopir.nodes import (
    Alloc,
    Buffer,
    For,
    LoopKind,
    Phase,
    Program,
    Scope,
    Seq,
    Stmt,
    Store,
)  # fmt: skip
from ansorpy.plan.plan import Plan, Size
from ansorpy.state.state import State
from ansorpy.te.dag import Axis, Compute, Dag, Placeholder

F32 = "float32"


def dag(n: int = 512) -> Dag:
    c = Compute(
        "C", (Axis("i", n), Axis("j", n)), (Const(0.0, F32),), (F32,), (Axis("k", n),), "sum"
    )
    return Dag((Placeholder("A", (n, n)), Placeholder("B", (n, n)), c), ("C",))


def loops(body: Stmt, *heads: tuple[str, Expr, LoopKind]) -> Stmt:
    for var, extent, kind in reversed(heads):
        body = For(var, extent, body, kind)
    return body


def tiled_plan(n: int = 512, lanes: int = 16, unroll: tuple[int, ...] = (0, 16, 64)) -> Plan:
    """i0 j0 (parallel) i1 j1 | C: init, k0 i2 j2 k1 i3 j3 | relu over the tile of C."""
    names = {a: [f"C.{a}.{p}" for p in (1, 2, 3)] for a in "ij"}
    sizes = [
        Size(names[a][p - 1], "tile", n, f"C.{a}", p, lanes if (a, p) == ("j", 3) else 1)
        for a in "ij" for p in (1, 2, 3)
    ]  # fmt: skip
    sizes += [Size("C.k.1", "tile", n, "C.k", 1), Size("C.unroll", "unroll", values=unroll)]
    whole = Const(n)
    base: dict[str, Expr] = {}
    extent: dict[str, Expr] = {}
    for a in "ij":
        outside: Expr = Const(0)
        for p in range(4):
            stride = product(tuple(names[a][p:]), {})
            left = ceildiv(sub(whole, outside), stride)
            extent[f"{a}{p}"] = left if p == 0 else least(Var(names[a][p - 1]), left)
            outside = add(outside, mul(Var(f"{a}{p}"), stride))
            base[f"{a}{p}"] = outside
    extent["k0"] = ceildiv(whole, Var("C.k.1"))
    k0 = mul(Var("k0"), Var("C.k.1"))
    extent["k1"] = least(Var("C.k.1"), sub(whole, k0))
    shape = tuple(product(tuple(names[axis][1:]), {}) for axis in "ij")
    tile = Buffer("C", F32, shape, Scope.LOCAL)
    i, j, k = base["i3"], base["j3"], add(k0, Var("k1"))
    inner = (sub(i, base["i1"]), sub(j, base["j1"]))
    product_ = Binary("mul", Read("A", (i, k), F32), Read("B", (k, j), F32))
    two = [("i2", LoopKind.SERIAL), ("j2", LoopKind.SERIAL)]
    three = [("i3", LoopKind.UNROLL), ("j3", LoopKind.VECTOR)]

    def heads(*which: tuple[str, LoopKind]) -> list[tuple[str, Expr, LoopKind]]:
        return [(var, extent[var], kind) for var, kind in which]

    init = loops(Store(("C",), inner, (Const(0.0, F32),)), *heads(*two, *three))
    k_loop = ("k0", LoopKind.SERIAL), ("k1", LoopKind.SERIAL)
    update = loops(
        Store(("C",), inner, (product_,), "sum"), *heads(k_loop[0], *two, k_loop[1], *three)
    )
    ru = [
        ("r0", product(tuple(names["i"][1:]), {}), LoopKind.SERIAL),
        ("r1", product(tuple(names["j"][1:]), {}), LoopKind.VECTOR),
    ]
    relu = loops(
        Store(
            ("D",), (add(base["i1"], Var("r0")), add(base["j1"], Var("r1"))),
            (Binary("max", Read("C", (Var("r0"), Var("r1")), F32), Const(0.0, F32)),),
        ), *ru,
    )  # fmt: skip
    body = loops(
        Alloc(tile, Seq((init, update, relu))),
        *heads(("i0", LoopKind.PARALLEL), ("j0", LoopKind.PARALLEL)),
        *heads(("i1", LoopKind.SERIAL), ("j1", LoopKind.SERIAL)),
    )
    whole_shape = (whole, whole)
    buffers = (
        Buffer("A", F32, whole_shape, Scope.INPUT), Buffer("B", F32, whole_shape, Scope.INPUT),
        Buffer("D", F32, whole_shape, Scope.OUTPUT),
    )  # fmt: skip
    # A register tile of at most 28 accumulators.
    registers = mul(Var("C.i.3"), ceildiv(Var("C.j.3"), Const(lanes)))
    condition = Binary("le", registers, Const(28))
    return Plan(
        State.naive(dag(n)), (), tuple(sizes),
        Program("matmul", buffers, (Phase("C", body),)), (condition,),
    )  # fmt: skip


def golden_plan() -> Plan:
    """Ansor's own feature test: i by I, j by J, order i.0 par, j.0 par, k unroll, j.1 vec, i.1."""
    n = Const(512)
    i_size, j_size = Var("I"), Var("J")
    i = add(mul(Var("i0"), i_size), Var("i1"))
    j = add(mul(Var("j0"), j_size), Var("j1"))
    value = Binary("mul", Read("A", (i, Var("k")), F32), Read("B", (Var("k"), j), F32))
    body = loops(
        Store(("C",), (i, j), (value,), "sum"),
        ("i0", ceildiv(n, i_size), LoopKind.PARALLEL),
        ("j0", ceildiv(n, j_size), LoopKind.PARALLEL),
        ("k", n, LoopKind.UNROLL), ("j1", j_size, LoopKind.VECTOR), ("i1", i_size, LoopKind.SERIAL),
    )  # fmt: skip
    buffers = tuple(
        Buffer(name, F32, (n, n), Scope.OUTPUT if name == "C" else Scope.INPUT) for name in "ABC"
    )
    sizes = (Size("I", "tile", 512, "C.i", 1), Size("J", "tile", 512, "C.j", 1))
    return Plan(State.naive(dag()), (), sizes, Program("golden", buffers, (Phase("C", body),)))


def toy_plan(extents: tuple[int, ...], parts: int = 1, multiple_of: int = 1) -> Plan:
    """A plan with tile sizes only and an empty program."""
    sizes = tuple(
        Size(f"a{n}.{p}", "tile", extent, f"a{n}", p, multiple_of if p == parts else 1)
        for n, extent in enumerate(extents) for p in range(1, parts + 1)
    )  # fmt: skip
    return Plan(State.naive(dag()), (), sizes, Program("toy", (), ()))
