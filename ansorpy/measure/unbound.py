"""Unbound candidates: a plan, encoded once, and a row; the builder binds them."""

from dataclasses import dataclass
from functools import lru_cache

from ansorpy.loopir.nodes import Program
from ansorpy.measure.values import decode, encode
from ansorpy.plan.bind import bind
from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.target import Target
from ansorpy.te.dag import Dag

PLANS = 256  # plans that one builder caches; a task has some dozens

_encoded = per_plan(encode)


@dataclass(frozen=True, slots=True)
class Unbound:
    """A candidate before binding; `meaning` is the Dag that its program computes."""

    plan: bytes
    row: tuple[int, ...]
    meaning: Dag | None


def unbound(plan: Plan, row: tuple[int, ...]) -> Unbound:
    """Return a row of a plan as a candidate that can be sent to a builder."""
    return Unbound(_encoded(plan), row, plan.program.meaning)


def bound(candidate: Program | Unbound, target: Target) -> Program:
    """Bind a candidate; return a program unchanged.

    Raises:
        LoweringError: the row cannot become loops.
    """
    if isinstance(candidate, Unbound):
        return bind(_decoded(candidate.plan), candidate.row, target)
    return candidate


@lru_cache(maxsize=PLANS)
def _decoded(encoded: bytes) -> Plan:
    plan: Plan = decode(encoded)
    return plan
