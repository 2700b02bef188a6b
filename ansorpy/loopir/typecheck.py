"""The dtypes of expressions of the loop IR, against the buffers in scope."""

from collections.abc import Callable, Mapping
from typing import Final

from ansorpy.errors import LoweringError
from ansorpy.expr.dtypes import DTYPES, INDEX
from ansorpy.expr.expr import OPERANDS, Expr, Read
from ansorpy.expr.typecheck import TypeCheck
from ansorpy.loopir.nodes import Buffer

# A reduction of bool by max or min is one of the loop IR's operators.
_OPERANDS: Final[Mapping[str, tuple[str, ...]]] = {**OPERANDS, "min": DTYPES, "max": DTYPES}

Find = Callable[[str], Buffer]  # a buffer by name; raises LoweringError if there is none


def index_type(expr: Expr) -> str:
    """Return "int64" or "bool" for an expression over loop variables and sizes only.

    Raises:
        LoweringError: it reads a buffer, or mixes or produces other dtypes.
    """
    found = _INDICES.dtype(expr)
    if found not in (INDEX, "bool"):
        raise LoweringError(f"{expr} is {found}, an index is {INDEX}")
    return found


def value_type(expr: Expr, find: Find) -> str:
    """Return the dtype of a value.

    Raises:
        LoweringError: operands disagree, an operation does not exist for its dtype, or a read
            has another rank or dtype than its buffer.
    """

    def buffer_dtype(read: Read) -> str:
        buffer = find(read.tensor)
        if len(read.indices) != len(buffer.shape):
            raise LoweringError(
                f"{read} has {len(read.indices)} indices, {buffer.name} has rank "
                f"{len(buffer.shape)}"
            )
        if read.output != 0:
            raise LoweringError(f"{read} is output {read.output} of a buffer, which has one")
        return buffer.dtype

    return TypeCheck(buffer_dtype, LoweringError, _OPERANDS).dtype(expr)


def _no_buffer(read: Read) -> str:
    raise LoweringError(f"{read} reads a buffer where only loop variables may stand")


_INDICES: Final = TypeCheck(_no_buffer, LoweringError, _OPERANDS)
