"""Instructions that add several products to every lane, described as tensor expressions.

An intrinsic is a small Dag. vpdpbusd with 16 lanes:

    sum[l] = into[l] + sum over q < 4 of int32(left[l, q]) * int32(right[l, q])

with `left` uint8, `right` int8, `into` int32 (its pattern), and the name of its LLVM function. Each
operand may be the same in every lane. A matrix instruction has rows as well, and sums groups of
such steps: tdpbusd with 16 rows and 16 groups

    sum[r, l] = into[r, l] + sum over g < 16, q < 4 of int32(left[r, g, q]) * int32(right[g, l, q])

The module runs no code: rules look for the pattern in a Dag, the tile pass in a loop nest, and
both find the instruction by the same description.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.te.dag import Axis, Compute, Dag, Placeholder

INTO: Final = "into"
LEFT: Final = "left"
RIGHT: Final = "right"


@dataclass(frozen=True)
class Intrinsic:
    """One instruction. `function` is LLVM's name, which takes (into, left, right) as vectors.

    The operands pass as vectors of `lanes` int32. `ways` lists sets of LLVM features; a processor
    with all features of a set has the instruction. A matrix instruction takes up to `rows` rows,
    `groups` groups of steps and `lanes` lanes; its operands are in tile registers.
    """

    name: str
    lanes: int
    steps: int
    left: str
    right: str
    into: str
    function: str
    ways: tuple[tuple[str, ...], ...]
    rows: int = 1
    groups: int = 1

    @property
    def matrices(self) -> bool:
        """True for a matrix instruction: `left` has the rows, `right` the lanes."""
        return self.rows > 1

    @cached_property
    def pattern(self) -> Dag:
        """The computation as a Dag: placeholders `into`, `left` and `right`, and the node `sum`."""
        lane, step = Axis("l", self.lanes), Axis("q", self.steps)
        row = (Axis("r", self.rows),) if self.matrices else ()
        group = (Axis("g", self.groups),) if self.matrices else ()
        axes, summed = (*row, lane), (*group, step)
        left = (*row, *group, step) if self.matrices else (lane, step)
        right = (*group, lane, step)
        shapes = {
            INTO: (axes, self.into), LEFT: (left, self.left), RIGHT: (right, self.right)
        }  # fmt: skip
        reads = {
            name: Read(name, tuple(Var(axis.name) for axis in own), dtype)
            for name, (own, dtype) in shapes.items()
        }
        product = Binary("mul", Cast(self.into, reads[LEFT]), Cast(self.into, reads[RIGHT]))
        total = Compute("sum", axes, (product,), (self.into,), summed, "sum", reads[INTO])
        inputs = (
            Placeholder(name, tuple(axis.extent for axis in own), dtype)
            for name, (own, dtype) in shapes.items()
        )
        return Dag((*inputs, total), ("sum",), self.name)

    @property
    def body(self) -> Expr:
        """The term that one step adds."""
        (total,) = self.pattern.computes
        return total.body[0]

    def on(self, features: Sequence[str]) -> bool:
        """Return if a processor with these features has the instruction."""
        return any(set(way) <= set(features) for way in self.ways)


def _dots(
    name: str, steps: int, dtypes: tuple[str, str, str], prefix: str, feature: str,
    more: Mapping[int, tuple[tuple[str, ...], ...]],
) -> tuple[Intrinsic, ...]:  # fmt: skip
    """Return an instruction in its widths of 512, 256 and 128 bits."""
    left, right, into = dtypes
    return tuple(
        Intrinsic(
            name, bits // 32, steps, left, right, into, f"{prefix}.{bits}",
            ((feature,) if bits == 512 else (feature, "avx512vl"), *more.get(bits, ())),
        )
        for bits in (512, 256, 128)
    )  # fmt: skip


# Intel SDM volume 2: VPDPBUSD (the form that wraps, not the saturating VPDPBUSDS), VDPBF16PS.
VPDPBUSD: Final = _dots(
    "vpdpbusd", 4, ("uint8", "int8", "int32"), "llvm.x86.avx512.vpdpbusd", "avx512vnni",
    {256: (("avxvnni",),), 128: (("avxvnni",),)},
)  # fmt: skip
VDPBF16PS: Final = _dots(
    "vdpbf16ps", 2, ("bfloat16", "bfloat16", "float32"), "llvm.x86.avx512bf16.dpbf16ps",
    "avx512bf16", {},
)  # fmt: skip
# Intel SDM volume 2: TDPBSSD and its kin, TDPBF16PS. A tile has 16 rows of 64 bytes.
MATRICES: Final = tuple(
    Intrinsic(
        name, 16, steps, left, right, into, f"llvm.x86.{name}", (("amx-tile", feature),), 16, 16
    )
    for name, steps, left, right, into, feature in (
        ("tdpbssd", 4, "int8", "int8", "int32", "amx-int8"),
        ("tdpbsud", 4, "int8", "uint8", "int32", "amx-int8"),
        ("tdpbusd", 4, "uint8", "int8", "int32", "amx-int8"),
        ("tdpbuud", 4, "uint8", "uint8", "int32", "amx-int8"),
        ("tdpbf16ps", 2, "bfloat16", "bfloat16", "float32", "amx-bf16"),
    )
)  # fmt: skip
VECTORS: Final = (*VPDPBUSD, *VDPBF16PS)
INTRINSICS: Final = (*MATRICES, *VECTORS)  # the fastest first


def named(name: str) -> tuple[Intrinsic, ...]:
    """Return the widths of an instruction, the widest first; () for an unknown name."""
    return tuple(one for one in INTRINSICS if one.name == name)


def unify(pattern: Expr, expr: Expr) -> dict[str, Read] | None:
    """Return the read for every tensor of a pattern, or None if the expression differs from it.

    Dtypes of the reads are not compared: an operand may be converted for the instruction.
    """
    found: dict[str, Read] = {}
    return found if _same(pattern, expr, found) else None


def _same(pattern: Expr, expr: Expr, bound: dict[str, Read]) -> bool:
    match pattern, expr:
        case Read(tensor=name), Read():
            bound[name] = expr
            return True
        case Cast(dtype=dtype, a=a), Cast(dtype=other, a=b):
            return dtype == other and _same(a, b, bound)
        case Binary(op=op, a=a, b=b), Binary(op=other, a=c, b=d):
            return op == other and _same(a, c, bound) and _same(b, d, bound)
        case ((Const() | Var() | Call() | Select()), _):
            return pattern == expr
        case _:
            return False
