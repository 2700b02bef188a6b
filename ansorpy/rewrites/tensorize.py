"""Give a sum of products the shape of an instruction: a few steps side by side.

    C[i, j] = sum over k of int32(A[i, k]) * int32(B[k, j])                    A uint8, B int8
becomes, in steps of 4,
    C_wide[k, j, q] = B[4 k + q, j]
    C[i, j] = sum over k, q of int32(A[i, 4 k + q]) * int32(C_wide[k, j, q])

A matrix instruction takes 16 rows i at a time, and groups of steps k. The Dag is the same for it:
each row, lane and group is a loop.

If the length of k is not a multiple of 4, both operands are copied with zeros behind them. If
both are int8, one operand is moved by 128, so that it is uint8, and the sum starts from a
correction: int32 arithmetic wraps, so the result is exact.
    C_wide[k, j, q] = uint8(B[4 k + q, j] + 128)
    C_sums[i] = sum over k of int32(A[i, k])
    C[i, j] = -128 * C_sums[i] + sum over k, q ...
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.expr.affine import linear
from ansorpy.expr.build import zero
from ansorpy.expr.expr import Binary, Cast, Const, Expr, Read, Select, Var, transform, variables
from ansorpy.expr.gathers import gathers
from ansorpy.rewrites.intrinsics import LEFT, RIGHT, Intrinsic, unify
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis, Compute, Node

HALF: Final = 128  # distance from the middle of int8 to the middle of uint8
STEP: Final = "q"  # the last axis of a wide operand
EIGHT_BITS: Final = ("int8", "uint8")


@dataclass(frozen=True, slots=True)
class Dot:
    """A node as steps of an instruction.

    `wide` is the operand that moves along the lanes, `narrow` the operand that does not; `moved` is
    the number added to `wide` to change its signedness. `row` is the axis of the rows of a matrix
    instruction, "" for other instructions.
    """

    intrinsic: Intrinsic
    axis: Axis  # the reduce axis that is taken in steps
    lane: str
    wide: Read
    narrow: Read
    moved: int
    row: str = ""

    @property
    def steps(self) -> int:
        """The number of products that one lane of the instruction adds."""
        return self.intrinsic.steps

    @property
    def length(self) -> int:
        """The number of instructions along the axis."""
        return -(-self.axis.extent // self.steps)

    @property
    def step(self) -> str:
        """The name of the axis within a step."""
        return f"{self.axis.name}_step"


def find_dot(node: Node, intrinsic: Intrinsic) -> tuple[Dot | None, Answer]:
    """Return a node as steps of an intrinsic, or the obstacle.

    The spatial axes are tried from the last for the lanes, the reduce axes from the longest.
    """
    if not isinstance(node, Compute) or node.combiner != "sum":
        return None, no(f"{node.name} is not a sum")
    found = unify(intrinsic.body, node.body[0]) if node.dtype == intrinsic.into else None
    if found is None:
        return None, no(f"{node.name} is not a sum of products as {intrinsic.name} computes")
    reads = (found[LEFT], found[RIGHT])
    if any(map(gathers, reads)):
        return None, no(f"{node.name} gathers: {intrinsic.name} needs operands at known distances")
    why = no(f"no two axes of {node.name} lie as {intrinsic.name} needs them")
    for axis in sorted(node.reduce_axes, key=lambda axis: -axis.extent):
        if axis.extent < intrinsic.steps or not all(
            _stands_alone(read, axis.name) for read in reads
        ):
            continue
        if intrinsic.matrices and 2 * axis.extent < intrinsic.steps * intrinsic.groups:
            why = no(f"{axis.name} of {node.name} is too short for the groups of {intrinsic.name}")
            continue
        for lane in reversed(node.axes):
            dot, last = _along(node, intrinsic, axis, lane, reads)
            why = last if lane is node.axes[-1] else why  # the expected axis
            if dot is not None:
                rows = f", rows along {dot.row}" if dot.row else ""
                return dot, yes(
                    f"{node.name} takes {axis.name} in steps of {intrinsic.steps} by"
                    f" {intrinsic.name}, lanes along {lane.name}{rows}"
                )
    return None, why


def multiplies(node: Node, intrinsic: Intrinsic) -> bool:
    """Return if an intrinsic sums products of a node's dtypes, in any layout of its operands."""
    if not isinstance(node, Compute) or node.dtype != intrinsic.into:
        return False
    found = unify(intrinsic.body, node.body[0])
    dtypes = [] if found is None else [read.dtype for read in found.values()]
    return bool(dtypes) and any(
        _moved(intrinsic, wide, narrow) is not None for wide, narrow in (dtypes, dtypes[::-1])
    )


def _along(
    node: Compute, intrinsic: Intrinsic, axis: Axis, lane: Axis, reads: Sequence[Read]
) -> tuple[Dot | None, Answer]:
    wide = [read for read in reads if lane.name in _names(read)]
    narrow = [read for read in reads if lane.name not in _names(read)]
    if len(wide) != 1 or len(narrow) != 1 or not _moves_along(wide[0], lane.name):
        return None, no(f"not one operand of {node.name} moves along {lane.name}")
    row = ""
    if intrinsic.matrices:
        if 2 * lane.extent < intrinsic.lanes:
            return None, no(
                f"{lane.name} of {node.name} is too short for the lanes of {intrinsic.name}"
            )
        rows = [each for each in node.axes if _is_row(each, wide[0], narrow[0])]
        rows = [each for each in rows if 4 * each.extent >= intrinsic.rows]
        if not rows:
            return None, no(
                f"no axis of {node.name} is long enough for the rows of {intrinsic.name}"
            )
        fullest = max(rows, key=lambda a: (min(a.extent, intrinsic.rows), node.axes.index(a)))
        row = fullest.name
    moved = _moved(intrinsic, wide[0].dtype, narrow[0].dtype)
    if moved is None:
        dtypes = f"{wide[0].dtype} and {narrow[0].dtype}"
        return None, no(f"{intrinsic.name} does not multiply {dtypes}")
    return Dot(intrinsic, axis, lane.name, wide[0], narrow[0], moved, row), yes("")


def _is_row(axis: Axis, wide: Read, narrow: Read) -> bool:
    """Return if only the narrow operand moves along an axis, by a constant distance."""
    if axis.name in _names(wide) or axis.name not in _names(narrow):
        return False
    found = [index for index in narrow.indices if axis.name in variables(index)]
    return all(linear(index) is not None for index in found)


def _names(read: Read) -> frozenset[str]:
    return frozenset(name for index in read.indices for name in variables(index))


def _stands_alone(read: Read, axis: str) -> bool:
    """Return if an axis is one whole index of a read, and occurs in no other index."""
    found = [index for index in read.indices if axis in variables(index)]
    return found == [Var(axis)]


def _moves_along(read: Read, lane: str) -> bool:
    """Return if a read moves by one element of one dimension per step along an axis."""
    found = [linear(index) for index in read.indices if lane in variables(index)]
    return len(found) == 1 and found[0] is not None and found[0][1].get(lane) == 1


def _moved(intrinsic: Intrinsic, wide: str, narrow: str) -> int | None:
    """Return the number to add to the wide operand so that the dtypes fit; None if none fits."""
    if intrinsic.matrices:
        return 0 if (narrow, wide) == (intrinsic.left, intrinsic.right) else None
    if sorted((wide, narrow)) == sorted((intrinsic.left, intrinsic.right)):
        return 0
    operands = {intrinsic.left, intrinsic.right}
    if wide != narrow or wide not in EIGHT_BITS or operands != set(EIGHT_BITS):
        return None
    return HALF if wide == "int8" else -HALF


def dotted(node: Compute, dot: Dot, nodes: Mapping[str, Node]) -> tuple[Compute, ...]:
    """Return the nodes that compute `node` in steps; the last one has its name.

    Args:
        nodes: by name; the shapes of the operands.
    """
    new = [_wide(node, dot, nodes[dot.wide.tensor])]
    wide = _read_wide(node, dot, new[0])
    narrow, copy = _narrow(node, dot, nodes[dot.narrow.tensor])
    if copy is not None:
        new.append(copy)
    start = node.start
    if dot.moved:
        sums = _sums(node, dot)
        new.append(sums)
        start = _without(node, dot, sums)

    def change(part: Expr) -> Expr | None:
        if isinstance(part, Read):
            return wide if part == dot.wide else narrow
        return None

    reduce_axes = tuple(
        Axis(axis.name, dot.length) if axis == dot.axis else axis for axis in node.reduce_axes
    )
    attrs = replace(node.attrs, no_split_inner=(*node.attrs.no_split_inner, dot.step))
    total = replace(
        node,
        body=(transform(node.body[0], change),),
        reduce_axes=(*reduce_axes, Axis(dot.step, dot.steps)),
        start=start,
        attrs=attrs,
    )
    return (*new, total)


def _order(dot: Dot, read: Read) -> list[int]:
    """Return the dimensions of the wide operand without the steps, the lanes' dimension last."""
    others = [d for d, index in enumerate(read.indices) if index != Var(dot.axis.name)]
    return sorted(others, key=lambda d: dot.lane in variables(read.indices[d]))


def _wide(node: Compute, dot: Dot, source: Node) -> Compute:
    order = _order(dot, dot.wide)
    names = {d: f"i{d}" for d in order}
    axes = (
        Axis("k", dot.length), *(Axis(names[d], source.shape[d]) for d in order),
        Axis(STEP, dot.steps),
    )  # fmt: skip
    place = Binary("add", Binary("mul", Var("k"), Const(dot.steps)), Var(STEP))
    indices: tuple[Expr, ...] = tuple(
        Var(names[d]) if d in names else place for d in range(len(dot.wide.indices))
    )
    value: Expr = replace(dot.wide, indices=indices)
    dtype = dot.wide.dtype
    if dot.moved:
        dtype = "uint8" if dot.moved > 0 else "int8"
        moved = Binary("add", Cast("int32", value), Const(dot.moved, "int32"))
        value = Cast(dtype, moved)
    return Compute(f"{node.name}_wide", axes, (_inside(dot, place, value, dtype),), (dtype,))


def _read_wide(node: Compute, dot: Dot, packed: Compute) -> Read:
    indices = [dot.wide.indices[d] for d in _order(dot, dot.wide)]
    return Read(packed.name, (Var(dot.axis.name), *indices, Var(dot.step)), packed.dtype)


def _narrow(node: Compute, dot: Dot, source: Node) -> tuple[Read, Compute | None]:
    """Return how the narrow operand is read, and its copy where it cannot be read in place."""
    step = Binary("mul", Var(dot.axis.name), Const(dot.steps))
    place: Expr = Binary("add", step, Var(dot.step))
    own = Var(dot.axis.name)
    indices = dot.narrow.indices
    whole = dot.axis.extent == dot.length * dot.steps
    if whole and indices[-1] == own and not isinstance(source, Compute):
        return replace(dot.narrow, indices=(*indices[:-1], place)), None
    others = [d for d, index in enumerate(indices) if index != own]
    extent = dot.length * dot.steps
    axes = (*(Axis(f"i{d}", source.shape[d]) for d in others), Axis("k", extent))
    inner = tuple(Var(f"i{d}") if d in others else Var("k") for d in range(len(indices)))
    value = _inside(dot, Var("k"), replace(dot.narrow, indices=inner), dot.narrow.dtype)
    copy = Compute(f"{node.name}_narrow", axes, (value,), (dot.narrow.dtype,))
    return Read(copy.name, (*(indices[d] for d in others), place), copy.dtype), copy


def _inside(dot: Dot, place: Expr, value: Expr, dtype: str) -> Expr:
    """Return a value with zeros behind the end of the axis."""
    if dot.axis.extent == dot.length * dot.steps:
        return value
    return Select(Binary("lt", place, Const(dot.axis.extent)), value, zero(dtype))


def _sums(node: Compute, dot: Dot) -> Compute:
    """Return the sums of the narrow operand over the reduce axes of the node."""
    names = _names(dot.narrow)
    axes = tuple(axis for axis in node.axes if axis.name in names)
    value = Cast(node.dtype, dot.narrow)
    return Compute(f"{node.name}_sums", axes, (value,), node.dtypes, node.reduce_axes, "sum")


def _without(node: Compute, dot: Dot, sums: Compute) -> Expr:
    """Return the start value that subtracts the effect of moving the wide operand."""
    read = Read(sums.name, tuple(Var(axis.name) for axis in sums.axes), node.dtype)
    start = Const(0, node.dtype) if node.start is None else node.start
    return Binary("sub", start, Binary("mul", Const(dot.moved, node.dtype), read))
