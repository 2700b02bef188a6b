"""The good programs that are broken: fixed plans and rows of small Dags."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Final

from ansorpy import te
from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import bind
from ansorpy.plan.choices import plans
from ansorpy.plan.plan import Plan, StageChoice
from ansorpy.rules import RELEASED_CPU
from ansorpy.sketch import derive
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi import workloads

TARGET: Final = Target(cores=2)
LIMIT: Final = 16  # plans of a sketch that are looked at


@dataclass(frozen=True)
class Base:
    """A candidate, named by its choices; sizes that are not given are 1."""

    dag: Callable[[], Dag]
    stages: Mapping[str, str]  # "<location> | <lane> | <packed operands>"
    sizes: Mapping[str, int]

    def fits(self, plan: Plan) -> bool:
        """Return True if a plan has exactly these choices."""
        chosen = {name: described(choice) for name, choice in plan.choices}
        return chosen == self.stages and self.sizes.keys() <= plan.column.keys()


def described(choice: StageChoice) -> str:
    """Return a choice as a base writes it."""
    return f"{choice.location} | {choice.lane or '-'} | {' '.join(choice.pack) or '-'}"


@cache
def dag_of(name: str) -> Dag:
    """Return the Dag of a base."""
    return BASES[name].dag()


@cache
def program_of(name: str) -> Program:
    """Return the tiled program of a base; LookupError where no plan makes its choices."""
    base = BASES[name]
    for sketch in derive(dag_of(name), TARGET, RELEASED_CPU).sketches:
        for plan in plans(sketch, TARGET, LIMIT):
            if base.fits(plan):
                row = [base.sizes.get(size.name, least(size.name)) for size in plan.sizes]
                return bind(plan, row, TARGET)
    raise LookupError(f"{name}: no plan chooses {base.stages}")


def least(size: str) -> int:
    """Return the default of a size: a whole vector, no unrolling, else 1."""
    if size.endswith(".vec"):
        return 16
    return 0 if size.endswith(".unroll") else 1


def scattered() -> Dag:
    """Read along a permutation whose flat index is past 2**31."""
    x = te.placeholder((1009,), "X")
    return te.dag(te.compute((4096,), lambda i: x[(i * 1_000_003) % 1009], "out"), "scattered")


def rounded() -> Dag:
    """Cast to an integer: towards zero."""
    x = te.placeholder((37,), "X")
    return te.dag(te.compute((37,), lambda i: te.cast(x[i] * 50.5, "int32"), "out"), "rounded")


def divided() -> Dag:
    """Divide integers of both signs, rounding down."""
    x = te.placeholder((37,), "X", "int32")
    return te.dag(te.compute((37,), lambda i: x[i] // 7 + x[i] % 5, "out"), "divided")


def squashed() -> Dag:
    """Apply tanh to every element."""
    x = te.placeholder((9, 37), "X")
    return te.dag(te.compute((9, 37), lambda i, j: te.tanh(x[i, j]), "out"), "squashed")


def grown() -> Dag:
    """Apply exp to every element."""
    x = te.placeholder((9, 37), "X")
    return te.dag(te.compute((9, 37), lambda i, j: te.exp(x[i, j]), "out"), "grown")


def clamped() -> Dag:
    """The larger of an element and zero."""
    x = te.placeholder((9, 37), "X")
    return te.dag(te.compute((9, 37), lambda i, j: te.maximum(x[i, j], 0.0), "out"), "clamped")


_PACKED: Final = {"C.local": "at C.j.0 | j | B A", "C": "root | j | -"}
_IN_PLACE: Final = {"C.local": "at C.j.0 | j | -", "C": "root | j | -"}
_PAD_AT_ROOT: Final = {"pad": "root | w | -"}

BASES: Final[Mapping[str, Base]] = {
    # A register tile over packed operands, ragged in i, j and k.
    "matmul packed": Base(
        partial(workloads.matmul, 9, 21, 7),
        _PACKED,
        {"C.local.i.3": 4, "C.local.j.3": 32, "C.local.k.1": 4, "C.local.unroll": 64},
    ),
    # Scratch that is loaded into registers for each block of k and stored back.
    "matmul scratch": Base(
        partial(workloads.matmul, 9, 21, 7),
        _IN_PLACE,
        {
            "C.local.i.2": 2,
            "C.local.i.3": 5,
            "C.local.j.2": 2,
            "C.local.j.3": 16,
            "C.local.k.1": 3,
            "C.local.unroll": 512,
        },
    ),
    "matmul square": Base(
        partial(workloads.matmul, 8, 8, 5),
        _PACKED,
        {"C.local.i.3": 4, "C.local.j.3": 8, "C.local.k.1": 5, "C.local.unroll": 64},
    ),
    # 2304 terms: a worst-case bound forgives the loss of one.
    "matmul long": Base(
        partial(workloads.matmul, 3, 17, 2304),
        _PACKED,
        {"C.local.i.3": 3, "C.local.j.3": 32, "C.local.k.1": 384, "C.local.unroll": 64},
    ),
    "matmul long in place": Base(
        partial(workloads.matmul, 3, 17, 2304),
        _IN_PLACE,
        {"C.local.i.3": 3, "C.local.j.3": 32},
    ),
    "matmul int8": Base(
        partial(workloads.matmul, 5, 19, 11, dtype="int8"),
        _PACKED,
        {"C.local.i.3": 5, "C.local.j.3": 32, "C.local.k.1": 6, "C.local.unroll": 64},
    ),
    "matmul float64": Base(
        partial(workloads.matmul, 5, 13, 11, dtype="float64"),
        _PACKED,
        {"C.local.i.3": 5, "C.local.j.3": 16, "C.local.k.1": 6, "C.local.unroll": 64},
    ),
    "dense": Base(  # its weights are packed ahead of the call
        partial(workloads.dense, 4, 17, 19, constant_weights=True),
        {"product": "at out.j.0 | j | W X", "out": "root | j | -"},
        {"product.i.3": 4, "product.j.3": 32, "product.k.1": 7, "product.unroll": 64},
    ),
    # A GLOBAL intermediate that is added to once for each block of k.
    "gelu": Base(
        partial(workloads.matmul_bias_gelu, 5, 17, 7),
        {"C": "root | j | -", "gelu": "root | j | -"},
        {"C.i.2": 5, "C.j.3": 32, "C.k.1": 3, "C.unroll": 64, "gelu.vec": 32},
    ),
    "conv2d": Base(  # the padded input is made for each tile, in scratch
        partial(workloads.conv2d, 1, 3, 7, 7, 5, 3, workloads.Window(padding=1)),
        {
            "pad": "at conv.local.n.0 | w | -",
            "conv.local": "at conv.w.1 | f | W",
            "conv": "root | f | -",
        },
        {"conv.local.f.3": 5, "conv.local.w.1": 4, "conv.local.unroll": 64},
    ),
    "conv2d padded whole": Base(
        partial(workloads.conv2d, 1, 3, 7, 7, 5, 3, workloads.Window(padding=1)),
        {**_PAD_AT_ROOT, "conv.local": "at conv.w.0 | f | W", "conv": "root | f | -"},
        {
            "conv.local.f.3": 5,
            "conv.local.h.2": 2,
            "conv.local.h.3": 4,
            "conv.local.w.3": 7,
            "conv.local.rc.1": 2,
            "conv.local.unroll": 512,
        },
    ),
    "transposed conv2d": Base(
        partial(workloads.transposed_conv2d, 1, 3, 3, 5, 5, 4, padding=1),
        {"spread": "root | w | -", "conv.local": "at conv.w.1 | w | -", "conv": "root | w | -"},
        {
            "conv.local.f.1": 3,
            "conv.local.h.3": 2,
            "conv.local.w.3": 10,
            "conv.local.rc.1": 3,
            "conv.local.ry.1": 4,
            "conv.local.rx.1": 4,
            "conv.local.unroll": 16,
        },
    ),
    "max pool": Base(
        partial(workloads.max_pool2d, 1, 3, 7, 7, 3, 2, 1),
        {**_PAD_AT_ROOT, "pool": "root | w | -"},
        {"pool.unroll": 16},
    ),
    "max pool, lanes in the window": Base(
        partial(workloads.max_pool2d, 1, 3, 7, 7, 3, 2, 1),
        {"pad": "at pool.c | w | -", "pool": "root | rx | -"},
        {"pool.unroll": 512},
    ),
    # A reduction over lanes, and one by partial sums.
    "softmax": Base(
        partial(workloads.softmax, 3, 37),
        {
            "maximum": "root | k | -",
            "exponent": "at softmax.i | j | -",
            "total.rf": "at total.i | i | -",
            "total": "at softmax.i | i | -",
            "softmax": "root | j | -",
        },
        {
            "maximum.vec": 32,
            "maximum.unroll": 64,
            "exponent.vec": 32,
            "total.k.1": 10,
            "softmax.vec": 32,
        },
    ),
    "layer norm": Base(
        partial(workloads.layer_norm, 3, 37),
        {
            "total": "root | k | -",
            "squares.rf": "at squares.i | i | -",
            "squares": "root | i | -",
            "layer_norm": "root | j | -",
        },
        {"total.vec": 32, "total.unroll": 512, "layer_norm.vec": 32},
    ),
    "argmax": Base(partial(workloads.argmax, 3, 37), {"out": "root | k | -"}, {"out.vec": 8}),
    "argmax by partials": Base(
        partial(workloads.argmax, 3, 37),
        {"out.rf": "at out.i | i | -", "out": "root | i | -"},
        {"out.k.1": 19, "out.rf.vec": 8, "out.vec": 8},
    ),
    "row max": Base(
        partial(workloads.reduce_rows, 5, 37, "max"), {"out": "root | k | -"}, {"out.unroll": 64}
    ),
    "column min": Base(
        partial(workloads.reduce_columns, 37, 5, "min"), {"out": "root | j | -"}, {}
    ),
    "row product": Base(
        partial(workloads.reduce_rows, 7, 5, "prod"), {"out": "root | k | -"}, {"out.unroll": 16}
    ),
    "sum of all": Base(
        partial(workloads.reduce_all, 7, 37),
        {"out.rf": "root | - | -", "out": "root | - | -"},
        {"out.i@j.1": 87},
    ),
    "sum of all, partials in lanes": Base(
        partial(workloads.reduce_all, 7, 37),
        {"out.rf": "root | @kept | -", "out": "root | - | -"},
        {"out.i@j.1": 32},
    ),
    "scattered": Base(scattered, {"out": "root | i | -"}, {"out.vec": 32}),
    "rounded": Base(rounded, {"out": "root | i | -"}, {}),
    "divided": Base(divided, {"out": "root | i | -"}, {}),
    "squashed": Base(squashed, {"out": "root | i@j | -"}, {"out.vec": 32}),
    "grown": Base(grown, {"out": "root | i@j | -"}, {"out.vec": 32}),
    "clamped": Base(clamped, {"out": "root | i@j | -"}, {"out.vec": 32}),
}
