"""Seconds that the bytes and operations of a Dag explain, however it is scheduled.

Every value is computed once, in full vectors, by the rates of `cost.roofline`; operands and results
are moved once. A kernel that takes much longer computes values again and again, or is not
vectorised.
"""

from math import prod
from typing import Final

from ansorpy.cost.roofline import SHORT_VECTORS, CycleRates, rates_of
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.expr.expr import Binary, Call, Cast, Const, Expr, Read, Select, Var
from ansorpy.target import CpuTarget, Target, expected
from ansorpy.te.analysis import access, needs_tiling
from ansorpy.te.analysis.flops import OPERATORS
from ansorpy.te.dag import Compute, Dag

CLOCK_HZ: Final = 3e9  # cycles per second; processors differ by less than the factors compared
HALVES: Final = 2.0  # units of SHORT_VECTORS per cycle
CALL_S: Final = 2e-6  # seconds of a call of almost no operations
SUSPECT: Final = 5.0  # times `explained_s`: a slower kernel recomputes values, or lacks vectors
DIVISIONS: Final = frozenset({"div", "floordiv", "mod", "pow"})


def explained_s(dag: Dag, target: Target) -> float:
    """Return the seconds of one call on a CPU."""
    rates = rates_of(target)
    cycles = sum(_cycles(node, target, rates) for node in dag.computes) / target.cores
    unit_hz = CLOCK_HZ * (HALVES if rates is SHORT_VECTORS else 1.0)
    moved = sum(prod(one.shape) * SIZE_BYTES[one.dtype] for one in dag.placeholders)
    for node in dag.computes:
        if node.name in dag.outputs:
            moved += sum(prod(node.shape) * SIZE_BYTES[dtype] for dtype in node.dtypes)
    far = rates.memory_byte if moved > target.l3_bytes else rates.l3_byte
    byte = far if moved > expected(target, CpuTarget).l2_bytes else rates.l2_byte
    cycles += moved * byte / min(target.cores, rates.memory_cores)
    return CALL_S + cycles / unit_hz


def _cycles(node: Compute, target: Target, rates: CycleRates) -> float:
    """Return the cycles of one core for all points of a node."""
    vector = sum(_of(body, node, rates) for body in node.body)
    body = node.body[0]
    if node.reduce_axes and not (isinstance(body, Binary) and body.op == "mul"):
        vector += rates.simple  # else the combination is part of a multiply-add
    # 16-bit floats are computed as float32
    return vector * node.points / min(target.lanes(node.dtype), target.lanes("float32"))


def _of(expr: Expr, node: Compute, rates: CycleRates) -> float:
    """Return the cycles of an expression for one vector of points."""
    match expr:
        case Const() | Var():
            return 0.0
        case Read():
            if needs_tiling(node):
                return 0.0  # registers hold operands that are read again
            return rates.load if node.reduce_axes or access(node, expr).inlineable else rates.gather
        case Binary(op=op, a=a, b=b):
            own = rates.divide if op in DIVISIONS else rates.simple
            return own + _of(a, node, rates) + _of(b, node, rates)
        case Call(fn=fn, a=a):
            own = rates.simple if fn in OPERATORS else rates.function
            return own + _of(a, node, rates)
        case Cast(a=a):
            return rates.simple + _of(a, node, rates)
        case Select(cond=cond, then=then, other=other):
            chosen = max(_of(then, node, rates), _of(other, node, rates))
            return rates.simple + _of(cond, node, rates) + chosen
