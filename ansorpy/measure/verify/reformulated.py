"""Relaxed error bounds of kernels that compute by another Dag of equal value (Winograd)."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ansorpy.expr.dtypes import FLOATS
from ansorpy.measure.verify.accept import accept_interval
from ansorpy.measure.verify.cases import SAFETY, TINY, Case, Expected
from ansorpy.measure.verify.inputs import decode
from ansorpy.oracle.error_bounds import Bounded
from ansorpy.oracle.reference import evaluate_bounded
from ansorpy.te.dag import Dag


def reformulated(cases: Sequence[Case], meaning: Dag) -> tuple[Case, ...]:
    """Return cases with the same inputs and values, and the error bounds of `meaning`.

    Where nothing is known of those (a sum may overflow, a NaN of its tile reaches it), nothing
    is claimed. Bit-equality on small integers becomes a bound too.
    """
    return tuple(_reformulated(case, meaning) for case in cases)


def _reformulated(case: Case, meaning: Dag) -> Case:
    numbers = {
        node.name: decode(case.inputs[node.name], node.dtype) for node in meaning.placeholders
    }
    known = evaluate_bounded(meaning, numbers)
    found = [one for output in meaning.outputs for one in known[output]]
    pairs = zip(case.expected, found, strict=True)
    return replace(case, expected=tuple(_expected(old, new, case.nans) for old, new in pairs))


def _expected(old: Expected, new: Bounded, nans: bool) -> Expected:
    """Return the condition on an output: within the rounding of both Dags of its value."""
    floats = old.dtype in FLOATS
    with np.errstate(invalid="ignore"):
        apart = np.abs(new.value.astype(np.float64) - old.value)
        bound = (SAFETY if floats else 1.0) * new.error + apart + (TINY[old.dtype] if floats else 0)
    bound = np.where(np.isnan(bound), np.inf, bound)
    return replace(old, bound=bound, interval=accept_interval(old.value, bound, old.dtype, nans))
