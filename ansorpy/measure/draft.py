"""A row on its way to the process that binds it: the plan goes along as bytes made once."""

import pickle
from dataclasses import dataclass
from functools import lru_cache

from ansorpy.loopir.nodes import Program
from ansorpy.plan.bind import bind
from ansorpy.plan.plan import Plan
from ansorpy.plan.remember import per_plan
from ansorpy.target import Target
from ansorpy.te.dag import Dag

_packed = per_plan(pickle.dumps)


@dataclass(frozen=True, slots=True)
class Draft:
    """A candidate that is not bound yet. `meaning` is that of its program."""

    plan: bytes
    row: tuple[int, ...]
    meaning: Dag | None


def drafted(plan: Plan, row: tuple[int, ...]) -> Draft:
    """Return a row of a plan, ready to be sent."""
    return Draft(_packed(plan), row, plan.program.meaning)


def bound(what: Program | Draft, target: Target) -> Program:
    """Return the program of a draft; a program is one already.

    Raises:
        LoweringError: the row cannot become loops.
    """
    return bind(_unpacked(what.plan), what.row, target) if isinstance(what, Draft) else what


@lru_cache(maxsize=256)
def _unpacked(packed: bytes) -> Plan:
    plan: Plan = pickle.loads(packed)
    return plan
