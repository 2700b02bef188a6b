"""Instructions on products, and which of them kernels for a target have: one list for people.

`intrinsics` and `warp_products` define the instructions; others that users of other systems
know are listed as instructions that no kernel has.
"""

from dataclasses import dataclass
from typing import Final

from ansorpy.rewrites.intrinsics import INTRINSICS, Intrinsic
from ansorpy.rewrites.warp_products import PRODUCTS, SUMS
from ansorpy.target import CpuTarget, GpuTarget, Target, expected

LANE: Final = "int32"  # dtype of the lanes that widths of instructions are counted in


@dataclass(frozen=True, slots=True)
class Capability:
    """An instruction, its sum, and why kernels lack it ("": they have it).

    Args:
        in_source: kernel.py has the instruction, too, and not only the library or the PTX.
    """

    name: str
    computes: str
    lacks: str
    in_source: bool = False


# Instructions that no rule or pass uses: name and sum.
UNUSED: Final = {
    "cpu": (
        ("vpdpbssd", "int32 += int8 * int8, 4 steps"),
        ("tdpfp16ps", "float32 += float16 * float16, 2 steps"),
        ("sdot", "int32 += int8 * int8, 4 steps"),
        ("udot", "int32 += uint8 * uint8, 4 steps"),
        ("bfdot", "float32 += bfloat16 * bfloat16, 2 steps"),
    ),
    "cuda": (
        ("mma.sync f16", "float32 += float16 * float16, 16 steps"),
        ("mma.sync s8", "int32 += int8 * int8, 32 steps"),
        ("wgmma", "products of a group of four warps"),
    ),
}  # fmt: skip


def capabilities(target: Target) -> tuple[Capability, ...]:
    """Return the instructions on products for the kind of a target, those never used last."""
    if isinstance(target, GpuTarget):
        found = _of_gpu(target)
    else:
        found = _of_cpu(expected(target, CpuTarget))
    never = (
        Capability(name, computes, "no rule uses it") for name, computes in UNUSED[target.kind]
    )
    return (*found, *never)


def _of_cpu(target: CpuTarget) -> list[Capability]:
    capabilities = []
    for name in dict.fromkeys(one.name for one in INTRINSICS):
        widths = [one for one in INTRINSICS if one.name == name]
        own = [one for one in widths if one.lanes == target.lanes(LANE)]
        lacks = _lacks(own[0], target) if own else _too_narrow(widths, target)
        one = widths[0]
        computes = f"{one.into} += {one.left} * {one.right}, {one.steps} steps"
        capabilities.append(Capability(name, computes, lacks, in_source=not lacks))
    return capabilities


def _lacks(intrinsic: Intrinsic, target: CpuTarget) -> str:
    if intrinsic.on(target.features):
        return ""
    ways = (sorted(set(way) - set(target.features)) for way in intrinsic.ways)
    return "the processor lacks " + " or ".join(" and ".join(way) for way in ways)


def _too_narrow(widths: list[Intrinsic], target: CpuTarget) -> str:
    bits = sorted({one.lanes * 32 for one in widths})
    return (
        f"vectors have {target.vector_bits} bits; expected {' or '.join(map(str, bits))}, with "
        + " and ".join(widths[0].ways[0])
    )


def _of_gpu(target: GpuTarget) -> list[Capability]:
    return [
        Capability(
            f"mma.sync {one.name}",
            f"{SUMS} += {one.name} * {one.name}, {one.steps} steps",
            ""
            if target.capability >= one.arch
            else f"the architecture is older than sm_{one.arch}",
        )
        for one in PRODUCTS
    ]
