"""The Dags behind the golden sketch counts of TVM's auto-scheduler tests, built by hand.

A rule depends on the reads between nodes, their axes and extents only: bodies are sums of the
reads, under a `select` or an `exp` if the original has one.
"""

from collections.abc import Sequence

from ansorpy.expr.expr import Binary, Call, Const, Expr, Read, Select, Var
from ansorpy.te.dag import Attrs, Axis, Compute, Dag, Node, Placeholder

Extents = dict[str, int]
F32 = "float32"


def index(text: str | int) -> Expr:
    """ "i" is an axis, 0 a constant, "i+k" an expression of these axes."""
    if isinstance(text, int):
        return Const(text)
    return added([Var(name) for name in text.split("+")])


def added(parts: Sequence[Expr]) -> Expr:
    total, *rest = parts
    for part in rest:
        total = Binary("add", total, part)
    return total


def read(tensor: str, *indices: str | int) -> Read:
    return Read(tensor, tuple(index(i) for i in indices), F32)


def inp(name: str, *shape: int) -> Placeholder:
    return Placeholder(name, shape)


def op(
    name: str,
    axes: Extents,
    *reads: Read,
    over: Extents | None = None,
    exp: bool = False,
    branch: bool = False,
    attrs: Attrs | None = None,
) -> Compute:
    """A compute node that adds up `reads`, summed over `over`."""
    body: Expr = added(reads) if reads else Const(1.0, F32)
    if exp:
        body = Call("exp", body)
    if branch:
        first = Var(next(iter(axes)))
        body = Select(Binary("lt", first, Const(1)), body, Const(0.0, F32))
    reduced = tuple(Axis(*item) for item in (over or {}).items())
    return Compute(
        name,
        tuple(Axis(*item) for item in axes.items()),
        (body,),
        (F32,),
        reduced,
        "sum" if reduced else None,
        attrs=attrs or Attrs(),
    )


def dag(name: str, nodes: Sequence[Node], *outputs: str) -> Dag:
    return Dag(tuple(nodes), outputs or (nodes[-1].name,), name)


def matmul(n: int, m: int, k: int) -> Dag:
    c = op("C", {"i": n, "j": m}, read("A", "i", "k"), read("B", "k", "j"), over={"k": k})
    return dag("matmul", [inp("A", n, k), inp("B", k, m), c])


def matmul_relu(n: int, m: int, k: int) -> Dag:
    relu = op("D", {"i": n, "j": m}, read("C", "i", "j"))
    return dag("matmul_relu", [*matmul(n, m, k).nodes, relu])


def two_matmuls(n: int) -> Dag:
    d = op("D", {"i": n, "j": n}, read("A", "i", "k"), read("B", "k", "j"), over={"k": n})
    e = op("E", {"i": n, "j": n}, read("D", "i", "k"), read("C", "k", "j"), over={"k": n})
    return dag("two_matmuls", [inp("A", n, n), inp("B", n, n), d, inp("C", n, n), e])


def conv2d_bn_relu(size: int, ci: int, co: int, kernel: int) -> Dag:
    out = {"n": 1, "f": co, "y": size, "x": size}
    padded = {"n": 1, "c": ci, "h": size + 2, "w": size + 2}
    window = {"rc": ci, "ry": kernel, "rx": kernel}
    per_channel = ("f", 0, 0)
    nodes: list[Node] = [
        inp("Data", 1, ci, size, size),
        op("pad", padded, read("Data", "n", "c", "h+n", "w+n"), branch=True),
        inp("K", co, ci, kernel, kernel),
        op(
            "conv",
            out,
            read("pad", "n", "rc", "y+ry", "x+rx"),
            read("K", "f", "rc", "ry", "rx"),
            over=window,
        ),
        inp("b1", co, 1, 1),
        op("badd", out, read("conv", *out), read("b1", *per_channel)),
        inp("b2", co, 1, 1),
        op("bmul", out, read("badd", *out), read("b2", *per_channel)),
        inp("b3", co, 1, 1),
        op("bnadd", out, read("bmul", *out), read("b3", *per_channel)),
        op("relu", out, read("bnadd", *out)),
    ]
    return dag("conv2d_bn_relu", nodes)


def max_pool(pad: bool) -> Dag:
    out = {"n": 1, "c": 56, "y": 56, "x": 512}
    nodes: list[Node] = [inp("Data", 1, 56, 56, 512)]
    if pad:
        nodes.append(op("pad", out, read("Data", "n", "c", "y+n", "x+n"), branch=True))
    source = "pad" if pad else "Data"
    window = {"r1": 2, "r2": 2}
    nodes.append(op("pool", out, read(source, "n", "c", "y+r1", "x+r2"), over=window))
    return dag("max_pool", nodes)


def row_min(n: int, m: int) -> Dag:
    return dag("row_min", [inp("A", n, m), op("B", {"i": n}, read("A", "i", "k"), over={"k": m})])


def softmax(n: int, m: int) -> Dag:
    return dag(
        "softmax",
        [
            inp("A", n, m),
            op("mx", {"i": n}, read("A", "i", "k"), over={"k": m}),
            op("ex", {"i": n, "j": m}, read("A", "i", "j"), read("mx", "i"), exp=True),
            op("sm", {"i": n}, read("ex", "i", "k"), over={"k": m}),
            op("nm", {"i": n, "j": m}, read("ex", "i", "j"), read("sm", "i")),
        ],
    )


def softmax4d(batch: int, heads: int, n: int, m: int) -> Dag:
    rows = {"b": batch, "h": heads, "i": n}
    full = {**rows, "j": m}
    return dag(
        "softmax4d",
        [
            inp("A", batch, heads, n, m),
            op("mx", rows, read("A", "b", "h", "i", "k"), over={"k": m}),
            op("ex", full, read("A", *full), read("mx", *rows), exp=True),
            op("sm", rows, read("ex", "b", "h", "i", "k"), over={"k": m}),
            op("nm", full, read("ex", *full), read("sm", *rows)),
        ],
    )


def winograd(ci: int, co: int, tiles: int, size: int) -> Dag:
    t = 6
    grid = {"eps": t, "nu": t, "p": tiles, "ci": ci}
    gemm = {"eps": t, "nu": t, "p": tiles, "co": co}
    inverse = {"vh": 4, "vw": 4, "p": tiles, "co": co}
    both = {"ra": t, "rb": t}
    padded = {"n": 1, "h": size + 2, "w": size + 2, "c": ci}
    return dag(
        "winograd",
        [
            inp("in", 1, size, size, ci),
            op("dpad", padded, read("in", "n", "h+n", "w+n", "c"), branch=True),
            op("tile", grid, read("dpad", "p+p", "p+eps", "p+nu", "ci")),
            op("Bm", {"i": t, "j": t}, branch=True),
            op(
                "dpack",
                grid,
                read("tile", "ra", "rb", "p", "ci"),
                read("Bm", "ra", "eps"),
                read("Bm", "rb", "nu"),
                over=both,
                attrs=Attrs(const_axes=("eps", "nu", "ra", "rb")),
            ),
            inp("w", t, t, ci, co),
            op(
                "bgemm",
                gemm,
                read("dpack", "eps", "nu", "p", "k"),
                read("w", "eps", "nu", "k", "co"),
                over={"k": ci},
            ),
            op("Am", {"i": t, "j": 4}, branch=True),
            op(
                "inv",
                inverse,
                read("bgemm", "ra", "rb", "p", "co"),
                read("Am", "ra", "vh"),
                read("Am", "rb", "vw"),
                over=both,
                attrs=Attrs(const_axes=("vh", "vw", "ra", "rb")),
            ),
            op(
                "out",
                {"n": 1, "h": size, "w": size, "co": co},
                read("inv", "h+h", "w+w", "n+h+w", "co"),
            ),
        ],
    )


def total(n: int) -> Dag:
    return dag("total", [inp("A", n), op("B", {}, read("A", "k"), over={"k": n})])


GOLDEN: tuple[tuple[str, Dag, str, int], ...] = (
    ("matmul 512", matmul(512, 512, 512), "cpu", 3),
    ("matmul 512", matmul(512, 512, 512), "cuda", 1),
    ("matmul 8x8x512", matmul(8, 8, 512), "cpu", 5),
    ("matmul 8x8x1024", matmul(8, 8, 1024), "cuda", 2),
    ("two matmuls 512", two_matmuls(512), "cpu", 9),
    ("two matmuls 512", two_matmuls(512), "cuda", 1),
    ("conv2d + bn + relu", conv2d_bn_relu(56, 512, 512, 3), "cpu", 3),
    ("conv2d + bn + relu", conv2d_bn_relu(56, 512, 512, 3), "cuda", 1),
    ("max_pool pad 1", max_pool(pad=True), "cpu", 1),
    ("max_pool pad 0", max_pool(pad=False), "cuda", 1),
    ("min 10x1024", row_min(10, 1024), "cpu", 3),
    ("min 10x1024", row_min(10, 1024), "cuda", 2),
    ("softmax 1x1024", softmax(1, 1024), "cpu", 9),
    ("softmax 2x1024", softmax(2, 1024), "cuda", 4),
    ("winograd", winograd(128, 128, 49, 28), "cpu", 3),
    ("winograd", winograd(128, 128, 49, 28), "cuda", 1),
    ("zero-rank sum 128", total(128), "cpu", 3),
    ("zero-rank sum 128", total(128), "cuda", 2),
)
MORE: tuple[tuple[str, Dag, str, int], ...] = (
    ("softmax 1x12x128x128", softmax4d(1, 12, 128, 128), "cpu", 9),
    ("softmax 1x12x128x128", softmax4d(1, 12, 128, 128), "cuda", 4),
)
