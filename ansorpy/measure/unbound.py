"""Unbound candidates: a plan, pickled once, and a row; the builder binds them.

Pickles travel from the search to its own builders only (ADR-0091).
"""

import pickle
from dataclasses import dataclass
from functools import lru_cache

from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import bind
from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.target import Target
from ansorpy.te.dag import Dag

PLANS = 256  # plans that one builder caches; a task has some dozens

_pickled = per_plan(pickle.dumps)


@dataclass(frozen=True, slots=True)
class Unbound:
    """A candidate before binding; `meaning` is the Dag that its program computes."""

    plan: bytes
    row: tuple[int, ...]
    meaning: Dag | None


def unbound(plan: Plan, row: tuple[int, ...]) -> Unbound:
    """Return a row of a plan as a candidate that can be sent to a builder."""
    return Unbound(_pickled(plan), row, plan.program.meaning)


def bound(candidate: Program | Unbound, target: Target) -> Program:
    """Bind a candidate; return a program unchanged.

    Raises:
        LoweringError: the row cannot become loops.
    """
    if isinstance(candidate, Unbound):
        return bind(_unpickled(candidate.plan), candidate.row, target)
    return candidate


@lru_cache(maxsize=PLANS)
def _unpickled(pickled: bytes) -> Plan:
    plan: Plan = pickle.loads(pickled)
    return plan
