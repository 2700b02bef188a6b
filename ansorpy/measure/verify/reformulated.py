"""Relaxed error bounds of kernels that round otherwise than their Dag: Winograd, tf32."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from ansorpy.measure.verify.accept import accept_interval
from ansorpy.measure.verify.cases import Case, Expected
from ansorpy.measure.verify.exactness import exact_on_integers
from ansorpy.measure.verify.inputs import Array, decode
from ansorpy.oracle.error_bounds import Bounded, allowed
from ansorpy.oracle.reference import evaluate_bounded
from ansorpy.te.dag import Dag


def reformulated(cases: Sequence[Case], meaning: Dag) -> tuple[Case, ...]:
    """Return cases with the same inputs and values, and the error bounds of `meaning`.

    Where nothing is known of those (a sum may overflow, a NaN of its tile reaches it), nothing
    is claimed. Bit-equality on small integers stays if `meaning` is exact on them, as products
    rounded to tf32 are; it becomes a bound too if not.
    """
    return tuple(_reformulated(case, meaning) for case in cases)


def _reformulated(case: Case, meaning: Dag) -> Case:
    numbers = {
        node.name: decode(case.inputs[node.name], node.dtype) for node in meaning.placeholders
    }
    if _exact(case, numbers.values(), meaning):
        return case
    known = evaluate_bounded(meaning, numbers)
    found = [one for output in meaning.outputs for one in known[output]]
    pairs = zip(case.expected, found, strict=True)
    return replace(case, expected=tuple(_expected(old, new, case.nans) for old, new in pairs))


def _exact(case: Case, numbers: Collection[Array], meaning: Dag) -> bool:
    """Return whether a case asks for equality, and a Dag is exact on its inputs."""
    if any(one.bound is not None for one in case.expected):
        return False
    whole = all(np.isfinite(one).all() and (one == np.trunc(one)).all() for one in numbers)
    magnitude = max((float(np.abs(one).max(initial=0)) for one in numbers), default=0.0)
    return whole and exact_on_integers(meaning, int(magnitude))


def _expected(old: Expected, new: Bounded, nans: bool) -> Expected:
    """Return the condition on an output: within the rounding of both Dags of its value."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(new.value.astype(np.float64) - old.value)
        bound = allowed(new, old.dtype) + apart
    bound = np.where(np.isnan(bound), np.inf, bound)
    return replace(old, bound=bound, interval=accept_interval(old.value, bound, old.dtype, nans))
