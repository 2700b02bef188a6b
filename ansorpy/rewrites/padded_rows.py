"""Padded rows: read an operand from a copy whose rows are whole groups of 16 bytes.

A[i, k], k < 1027   ->   A_rows[i, k], k < 1032; A_rows[i, k] = select(k < 1027, A[i, k], 0)

Threads of a GPU copy such rows to shared memory 16 bytes at once, asynchronously.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Final

from ansorpy.expr.build import zero
from ansorpy.expr.coalescing import ACCESS_BYTES
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Const, Expr, Read, Select, Var, reads, transform, variables
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis, Compute, Node

# Elements of a row: a block of the product reads several groups, a block of a copy has a whole row.
LEAST, MOST = 64, 65536
REUSE: Final = 64  # reads of an element: blocks read it more than once


@dataclass(frozen=True, slots=True)
class RaggedOperand:
    """An operand of a reduction whose rows are no whole groups."""

    node: Node
    dtype: str

    @property
    def name(self) -> str:
        """The name of the copy."""
        return f"{self.node.name}_rows"

    @property
    def row(self) -> int:
        """The elements of a row of the copy."""
        wide = ACCESS_BYTES // SIZE_BYTES[self.dtype]
        return -(-self.node.shape[-1] // wide) * wide

    @property
    def copy(self) -> Compute:
        """The node of the copy; elements beyond the row are zero."""
        *outer, extent = self.node.shape
        axes = tuple(Axis(f"i{d}", n) for d, n in enumerate((*outer, self.row)))
        inside = Binary("lt", Var(axes[-1].name), Const(extent))
        taken = Read(self.node.name, tuple(Var(axis.name) for axis in axes), self.dtype)
        return Compute(self.name, axes, (Select(inside, taken, zero(self.dtype)),), (self.dtype,))


def find_operands(
    node: Node, nodes: Mapping[str, Node]
) -> tuple[tuple[RaggedOperand, ...], Answer]:
    """Return the operands of a reduction that aligned rows serve, or the obstacle.

    Args:
        nodes: all nodes by name.
    """
    if not isinstance(node, Compute) or node.combiner != "sum" or len(node.body) != 1:
        return (), no(f"{node.name} is not a sum of one value")
    rows = tuple(_operands(node, nodes))
    if not rows:
        return (), no(
            f"{node.name} reads no operand along rows of {LEAST} to {MOST} elements that are no"
            f" multiple of {ACCESS_BYTES} bytes, each element {REUSE} times or more"
        )
    return rows, yes(f"{node.name} reads rows of {', '.join(one.node.name for one in rows)}")


def with_rows(node: Compute, operands: tuple[RaggedOperand, ...]) -> Compute:
    """Return the reduction with its operands read from the copies."""
    names = {one.node.name: one.name for one in operands}

    def change(expr: Expr) -> Expr | None:
        if isinstance(expr, Read) and expr.tensor in names:
            return replace(expr, tensor=names[expr.tensor])
        return None

    return replace(node, body=tuple(transform(part, change) for part in node.body))


def _operands(node: Compute, nodes: Mapping[str, Node]) -> Iterator[RaggedOperand]:
    """Yield the operands that are read once, with an axis as the last index."""
    axes = {axis.name: axis.extent for axis in node.axes}
    taken = [read.tensor for read in dict.fromkeys(node.reads)]
    for read in dict.fromkeys(reads(node.body[0])):
        used = frozenset[str]().union(*map(variables, read.indices))
        reuse = prod(n for name, n in axes.items() if name not in used)
        operand = RaggedOperand(nodes[read.tensor], read.dtype)
        last = read.indices[-1] if read.indices else None
        if (
            taken.count(read.tensor) == 1
            and isinstance(last, Var)
            and not any(last.name in variables(index) for index in read.indices[:-1])
            and SIZE_BYTES[read.dtype] in (2, 4)
            and read.dtype != "bool"
            and LEAST <= operand.node.shape[-1] <= MOST
            and operand.row != operand.node.shape[-1]
            and reuse >= REUSE
            and len(getattr(operand.node, "dtypes", (read.dtype,))) == 1
        ):
            yield operand
