"""Steps that may make a result faster, for the verdict on a result that a library beats."""

from collections.abc import Sequence
from typing import Final

from ansorpy.rewrites.winograd import recognise
from ansorpy.te.dag import Dag
from ansorpy.units import clock

WINOGRAD: Final = ("winograd2", "winograd4")
MORE: Final = 4  # times the trials so far
TRIALS: Final = 64  # trials of each task, if there was none
TRIAL_S: Final = 0.35  # seconds of a trial, if none was seen: an estimate


def remedies_of(
    dags: Sequence[Dag], allow: Sequence[str], trials: int, seconds: float
) -> tuple[str, ...]:
    """Return phrases that continue "keep the library, or ...", the cheapest step first.

    Args:
        dags: the tasks.
        allow: rules that the request allowed.
        trials: of the search so far.
        seconds: that the search took.
    """
    remedies = []
    if not set(allow) & set(WINOGRAD) and any(map(has_winograd, dags)):
        words = " ".join(f"--allow {word}" for word in WINOGRAD)
        remedies.append(f"allow Winograd's transforms, which round differently ({words})")
    more = MORE * trials or TRIALS * len(dags)
    each_s = seconds / trials if trials else TRIAL_S
    remedies.append(f"search longer (--trials {more}, about {clock(more * each_s)} min, estimate)")
    return tuple(remedies)


def has_winograd(dag: Dag) -> bool:
    """Return True if a node is a convolution that Winograd's transforms apply to."""
    for node in dag.computes:
        convolution, _ = recognise(node)
        if convolution is not None and any(slide.taps == 3 for slide in convolution.slides):
            return True
    return False
