"""Trials as a matrix of named sizes, for one form of the loops.

Trials of other sketches have other sizes, so that a matrix holds the trials of one set of names.
"""

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ansorpy.errors import RecordError, SpecError
from ansorpy.plot.subject import Subject
from ansorpy.replay import plan_from_text
from ansorpy.target import Target
from ansorpy.te.dag import Dag

VARIANT = "variant"  # column of the number of the plan: its structural choices


@dataclass(frozen=True)
class SizedTrials:
    """Trials with times that have the same sizes.

    Args:
        names: of the columns: sizes, and `variant` if the trials have several plans.
        values: int64, shape (trials, names).
        times_s: float64, shape (trials,).
        of: number of all trials with times.
    """

    names: tuple[str, ...]
    values: npt.NDArray[np.int64]
    times_s: npt.NDArray[np.float64]
    of: int

    def varied(self) -> "SizedTrials":
        """Return the columns with several values."""
        kept = [n for n in range(len(self.names)) if np.ptp(self.values[:, n]) > 0]
        names = tuple(self.names[n] for n in kept)
        return SizedTrials(names, self.values[:, kept], self.times_s, self.of)


def size_names(dag: Dag, target: Target, plans: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the names of the sizes of each plan, in the order of a row.

    A plan that cannot be replayed, because another version of a rule made it, is left out.
    """
    names: dict[str, tuple[str, ...]] = {}
    for text in dict.fromkeys(plans):
        with suppress(RecordError):
            names[text] = _names(dag, target, text)
    return names


@lru_cache(maxsize=512)  # a page asks again for the plans of a search
def _names(dag: Dag, target: Target, plan: str) -> tuple[str, ...]:
    return tuple(size.name for size in plan_from_text(dag, target, plan).sizes)


def sized_trials(subject: Subject) -> SizedTrials:
    """Return the timed trials of the largest set with equal names of sizes.

    Raises:
        SpecError: no trial with a time is on record, the machine is not known, or no plan of the
            records can be replayed.
    """
    timed = [one for one in subject.trials if one.best_s is not None]
    if not timed or subject.target is None:
        reason = "its machine is not known" if timed else subject.untimed
        raise SpecError(
            f"cannot name the sizes of {subject.name} because {reason}; expected the result of"
            " ansorpy.tune with trials, of one range of sizes"
        )
    names_of = size_names(subject.dag, subject.target, (one.plan for one in timed))
    known = [one for one in timed if one.plan in names_of]
    if not known:
        raise SpecError(
            f"cannot name the sizes of {subject.name} because no plan of its records can be"
            " replayed; expected records of this version"
        )
    (names, _), *_ = Counter(names_of[one.plan] for one in known).most_common(1)
    own = [one for one in known if names_of[one.plan] == names]
    plans = list(dict.fromkeys(one.plan for one in own))
    variants = (VARIANT,) if len(plans) > 1 else ()
    rows = [(*one.row, *([plans.index(one.plan) + 1] if variants else [])) for one in own]
    values = np.array(rows, np.int64).reshape(len(own), len(names) + len(variants))
    times_s = np.array([one.best_s for one in own], np.float64)
    return SizedTrials((*names, *variants), values, times_s, len(timed))
