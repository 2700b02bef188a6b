"""Feature group 5: what stands around a store."""

from functools import reduce
from typing import Final

from ansorpy.features.tape import Tape, Value
from ansorpy.features.walk import Statement
from ansorpy.loopir.nodes import LoopKind

NAMES: Final = ("outer_prod", "num_loops", "auto_unroll_max_step")


def features(tape: Tape, statement: Statement) -> list[Value]:
    """Return all iterations, the number of loops that run more than once, the unroll budget."""
    # Steps that one instruction sums are none (as in `compute`).
    extents = [loop.extent for loop in statement.loops if loop.kind is not LoopKind.DOT]
    product = reduce(Value.__mul__, extents, tape.const(1))
    number = reduce(
        Value.__add__, (tape.where(extent > 1, 1, 0) for extent in extents), tape.const(0)
    )
    return [product, number, statement.unroll]
