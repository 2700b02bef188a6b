"""Products of matrices that the 32 threads of a warp add with one instruction: one table.

An instruction adds a product of 16 rows by `steps` and of `steps` by 8 columns to sums in float32.
A fragment is the part of a matrix in the registers of a thread: 32-bit words, of which a row of
16 bytes has four. Thread 4 r + c has the words c of row r, of the lower and of the upper half of
the steps; a word is two elements of bfloat16, or one of float32, rounded to tf32.

The module runs no code: the rule and the draw of tile sizes look for the product in a node, the
pass `warp_matrices` in a tile, and the writer has the fragments from the same description.
"""

from dataclasses import dataclass, replace
from typing import Final

from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Call, Cast, Expr, Read
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Compute, Node

ROWS: Final = 8  # rows of a matrix that a load takes, of 16 bytes each
COLUMN_LANES: Final = 4  # threads with the sums of one row, and with the words of 16 bytes
PAIR: Final = 2  # rows of a thread in one instruction, its columns, and halves of the steps
MATRICES: Final = 4  # matrices that a load takes
SUMS: Final = "float32"  # dtype of the sums
ROW_BYTES: Final = 16  # bytes of a row of a matrix


@dataclass(frozen=True, slots=True)
class WarpProduct:
    """A matrix instruction of a warp.

    Args:
        name: the format of the operands, as in "mma.sync".
        function: LLVM's name of the instruction.
        dtype: the operands' dtype in memory.
        rounds: the operands are rounded to the format as they are loaded; a product of them has to
            ask for it (`te.tf32`). Else they have the format in memory.
        turns: a load may turn a matrix over.
        arch: the least compute capability of the instruction.
    """

    name: str
    function: str
    dtype: str
    rounds: bool
    turns: bool
    arch: int

    @property
    def run(self) -> int:
        """Elements of a row of a matrix: half of the steps of an instruction."""
        return ROW_BYTES // SIZE_BYTES[self.dtype]

    @property
    def steps(self) -> int:
        """Steps of a sum that an instruction adds."""
        return PAIR * self.run

    @property
    def multiply_adds(self) -> int:
        """Multiply-adds of an instruction: 16 rows, 8 columns, the steps."""
        return PAIR * ROWS * ROWS * self.steps

    def factor(self, read: Read) -> Expr:
        """Return an operand as a factor of the product."""
        return Call(self.name, read) if self.rounds else Cast(SUMS, read)

    def of(self, a: Read, b: Read) -> Expr:
        """Return the product of two elements."""
        return Binary("mul", self.factor(a), self.factor(b))


# PTX ISA 9.0, section 9.7.14.5: mma.m16n8k16 with .bf16 and mma.m16n8k8 with .tf32.
BF16: Final = WarpProduct(
    "bf16", "llvm.nvvm.mma.m16n8k16.row.col.bf16", "bfloat16", rounds=False, turns=True, arch=80
)
TF32: Final = WarpProduct(
    "tf32", "llvm.nvvm.mma.m16n8k8.row.col.tf32", "float32", rounds=True, turns=False, arch=80
)
PRODUCTS: Final = (BF16, TF32)


def find_product(value: Expr) -> tuple[WarpProduct, Read, Read] | None:
    """Return the instruction that adds a value to sums, and its two operands; None: there is none.

    Threads and tile sizes may not fit the instruction all the same.
    """
    match value:
        case Binary(op="mul", a=Cast(a=Read() as a) | Call(a=Read() as a), b=Cast() | Call() as b):
            pass
        case _:
            return None
    if not isinstance(b.a, Read):
        return None
    for one in PRODUCTS:
        if {a.dtype, b.a.dtype} == {one.dtype} and value == one.of(a, b.a):
            return one, a, b.a
    return None


def rounded_operands(node: Node, form: str) -> tuple[Compute | None, Answer]:
    """Return a node whose operands are rounded to a format, or the obstacle.

    Holds for a sum of one product of two reads, in the dtype that the format is rounded from.
    """
    mma = next((each for each in PRODUCTS if each.rounds and each.name == form), None)
    if mma is None:
        return None, no(f"{node.name} has no products in {form}")
    if not isinstance(node, Compute):
        return None, no(f"{node.name} is an input")
    if node.combiner != "sum" or node.dtypes != (SUMS,):
        return None, no(f"{node.name} is not a sum in {SUMS}")
    match node.body[0]:
        case Binary(op="mul", a=Read() as a, b=Read() as b) if {a.dtype, b.dtype} == {mma.dtype}:
            made = replace(node, body=(mma.of(a, b),))
            return made, yes(f"{node.name} sums products of {a.tensor} and {b.tensor}")
        case _:
            return None, no(f"{node.name} is not a sum of one product of two reads")


def by_function(function: str) -> WarpProduct | None:
    """Return the instruction of a name of LLVM; None: another function."""
    return next((one for one in PRODUCTS if one.function == function), None)
