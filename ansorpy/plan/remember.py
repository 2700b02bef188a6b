"""Cache values per plan."""

import weakref
from collections.abc import Callable
from functools import wraps
from typing import TypeVar

from ansorpy.plan.plan import Plan

T = TypeVar("T")


def per_plan(make: Callable[[Plan], T]) -> Callable[[Plan], T]:
    """Return `make` with its answers remembered for as long as their plans live.

    By identity: a plan is immutable, and comparing or hashing two of them by value is slow.
    """
    known: dict[int, tuple[weakref.ref[Plan], T]] = {}

    @wraps(make)
    def remembered(plan: Plan) -> T:
        key = id(plan)
        found = known.get(key)
        if found is not None and found[0]() is plan:
            return found[1]
        answer = make(plan)
        known[key] = (weakref.ref(plan, lambda _: known.pop(key, None)), answer)
        return answer

    return remembered
