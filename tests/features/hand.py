"""Plans written by hand: matmul 512 with relu in the SSRSRS structure, and Ansor's test case."""

from ansorpy.expr.build import add, ceildiv, least, mul, product, sub
from ansorpy.expr.expr import Binary, Expr
from ansorpy.loopir.nodes import Alloc, LoopKind, Scope, Seq
from ansorpy.plan.plan import Plan, Size
from ansorpy.state.state import State
from ansorpy.te.dag import Axis, Compute, Dag, Placeholder
from tests.loopir.build import buffer, c, f32, loops, program, read, store, v

F32 = "float32"


def dag(n: int = 512) -> Dag:
    axes = Axis("i", n), Axis("j", n)
    total = Compute("C", axes, (f32(0.0),), (F32,), (Axis("k", n),), "sum")
    return Dag((Placeholder("A", (n, n)), Placeholder("B", (n, n)), total), ("C",))


def tiled_plan(n: int = 512, lanes: int = 16, unroll: tuple[int, ...] = (0, 16, 64)) -> Plan:
    """i0 j0 (parallel) i1 j1 | C: init, k0 i2 j2 k1 i3 j3 | relu over the tile of C."""
    names = {a: [f"C.{a}.{p}" for p in (1, 2, 3)] for a in "ij"}
    sizes = [
        Size(names[a][p - 1], "tile", n, f"C.{a}", p, lanes if (a, p) == ("j", 3) else 1)
        for a in "ij" for p in (1, 2, 3)
    ]  # fmt: skip
    sizes += [Size("C.k.1", "tile", n, "C.k", 1), Size("C.unroll", "unroll", values=unroll)]
    whole = c(n)
    base: dict[str, Expr] = {}
    extent: dict[str, Expr] = {}
    for a in "ij":
        outside: Expr = c(0)
        for p in range(4):
            stride = product(tuple(names[a][p:]), {})
            left = ceildiv(sub(whole, outside), stride)
            extent[f"{a}{p}"] = left if p == 0 else least(v(names[a][p - 1]), left)
            outside = add(outside, mul(v(f"{a}{p}"), stride))
            base[f"{a}{p}"] = outside
    extent["k0"] = ceildiv(whole, v("C.k.1"))
    k0 = mul(v("k0"), v("C.k.1"))
    extent["k1"] = least(v("C.k.1"), sub(whole, k0))
    shape = tuple(product(tuple(names[axis][1:]), {}) for axis in "ij")
    tile = buffer("C", *shape, scope=Scope.LOCAL)
    i, j, k = base["i3"], base["j3"], add(k0, v("k1"))
    inner = (sub(i, base["i1"]), sub(j, base["j1"]))
    product_ = Binary("mul", read("A", i, k), read("B", k, j))
    two = [("i2", LoopKind.SERIAL), ("j2", LoopKind.SERIAL)]
    three = [("i3", LoopKind.UNROLL), ("j3", LoopKind.VECTOR)]

    def heads(*which: tuple[str, LoopKind]) -> list[tuple[str, Expr, LoopKind]]:
        return [(var, extent[var], kind) for var, kind in which]

    init = loops(store("C", inner, f32(0.0)), *heads(*two, *three))
    k_loop = ("k0", LoopKind.SERIAL), ("k1", LoopKind.SERIAL)
    update = loops(store("C", inner, product_, "sum"), *heads(k_loop[0], *two, k_loop[1], *three))
    ru = [
        ("r0", product(tuple(names["i"][1:]), {}), LoopKind.SERIAL),
        ("r1", product(tuple(names["j"][1:]), {}), LoopKind.VECTOR),
    ]
    relu = loops(
        store(
            "D", (add(base["i1"], v("r0")), add(base["j1"], v("r1"))),
            Binary("max", read("C", v("r0"), v("r1")), f32(0.0)),
        ), *ru,
    )  # fmt: skip
    body = loops(
        Alloc(tile, Seq((init, update, relu))),
        *heads(("i0", LoopKind.PARALLEL), ("j0", LoopKind.PARALLEL)),
        *heads(("i1", LoopKind.SERIAL), ("j1", LoopKind.SERIAL)),
    )
    buffers = buffer("A", n, n), buffer("B", n, n), buffer("D", n, n, scope=Scope.OUTPUT)
    # A register tile of at most 28 accumulators.
    registers = mul(v("C.i.3"), ceildiv(v("C.j.3"), c(lanes)))
    condition = Binary("le", registers, c(28))
    return Plan(State.naive(dag(n)), (), tuple(sizes), program(buffers, body), (condition,))


def golden_plan() -> Plan:
    """Ansor's own feature test: i by I, j by J, order i.0 par, j.0 par, k unroll, j.1 vec, i.1."""
    n = c(512)
    i_size, j_size = v("I"), v("J")
    i = add(mul(v("i0"), i_size), v("i1"))
    j = add(mul(v("j0"), j_size), v("j1"))
    value = Binary("mul", read("A", i, v("k")), read("B", v("k"), j))
    body = loops(
        store("C", (i, j), value, "sum"),
        ("i0", ceildiv(n, i_size), LoopKind.PARALLEL),
        ("j0", ceildiv(n, j_size), LoopKind.PARALLEL),
        ("k", n, LoopKind.UNROLL), ("j1", j_size, LoopKind.VECTOR), ("i1", i_size, LoopKind.SERIAL),
    )  # fmt: skip
    buffers = buffer("A", n, n), buffer("B", n, n), buffer("C", n, n, scope=Scope.OUTPUT)
    sizes = (Size("I", "tile", 512, "C.i", 1), Size("J", "tile", 512, "C.j", 1))
    return Plan(State.naive(dag()), (), sizes, program(buffers, body))


def toy_plan(extents: tuple[int, ...], parts: int = 1, multiple_of: int = 1) -> Plan:
    """A plan with tile sizes only and an empty program."""
    sizes = tuple(
        Size(f"a{n}.{p}", "tile", extent, f"a{n}", p, multiple_of if p == parts else 1)
        for n, extent in enumerate(extents) for p in range(1, parts + 1)
    )  # fmt: skip
    return Plan(State.naive(dag()), (), sizes, program(()))
