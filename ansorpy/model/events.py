"""Events of the tuning of a model, beside those of its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansorpy.events import Event
from ansorpy.te.dag import Dag


@dataclass(frozen=True, slots=True)
class Divided:
    """A model was simplified and divided into tasks.

    `passes` has the sites of each pass that fired; `parts` counts the calls of kernels. `weights`
    has the calls of each task, 0 for an alternative that is not chosen (yet); `hosted` the
    operators that NumPy computes; `dags` the tasks.
    """

    nodes_before: int
    nodes: int
    passes: Mapping[str, int]
    parts: int
    tasks: int
    seconds: float
    weights: Mapping[str, float] = field(default_factory=dict)
    hosted: tuple[str, ...] = ()
    dags: tuple[Dag, ...] = field(default=(), repr=False)


@dataclass(frozen=True, slots=True)
class ModelEstimate:
    """The sum of the best times of the parts of a model, of which `answered` tasks have a time.

    `weights` has the calls of each task among the parts that are faster so far.
    """

    model_s: float
    answered: int
    tasks: int
    weights: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BundleWritten:
    """A bundle of the best kernels so far was verified and written.

    `error` is the largest difference to the reference as a share of the largest element, `bound`
    the largest that is accepted.
    """

    bundle: Path
    model_s: float
    error: float
    bound: float
    reference: str
    seconds: float  # age of the tuning


ModelEvent = Event | Divided | ModelEstimate | BundleWritten
