"""Events of the tuning of a model, beside the events of its tasks."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ansorpy.events import Event, Timing
from ansorpy.model.outline import OutlinedPart
from ansorpy.te.dag import Dag
from ansorpy.units import duration
from ansorpy.verdict import Judgment


@dataclass(frozen=True, slots=True)
class Divided:
    """A model was simplified and divided into tasks.

    `passes` has the sites of each pass that fired; `parts` counts the calls of kernels. `weights`
    has the calls of each task, 0 for an alternative that is not chosen (yet); `hosted` the
    operators that NumPy computes; `dags` the tasks; `threads` counts their threads, 0 if unknown.
    `outline` has the parts with their names.
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
    threads: int = 0
    outline: tuple[OutlinedPart, ...] = field(default=(), repr=False)


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
    the largest that is accepted. `verdict` is there if the bundle was raced and written anew.
    """

    bundle: Path
    model_s: float
    error: float
    bound: float
    reference: str
    seconds: float  # age of the tuning
    verdict: Judgment | None = None


def bundle_latency(model_s: float, verdict: Judgment | None) -> tuple[float, Timing]:
    """Return the latency of a bundle: of its race, else `model_s`, the sum of its kernels."""
    if verdict is None or verdict.peer is None:
        return model_s, "estimate"
    return verdict.ours_s, "race"


@dataclass(frozen=True, slots=True)
class Comparing:
    """The last bundle is raced against the runtimes of these names."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Recut:
    """A task that took much longer than its bytes and operations explain, and its form in pieces.

    `pieces_s` is the sum of the first answers of the pieces, None if they have none: no time was
    left, or a piece failed. The faster form is in the model.
    """

    task: str
    whole_s: float
    explained_s: float
    pieces: int
    pieces_s: float | None = None

    def __str__(self) -> str:
        """Return a line for people."""
        ratio = self.whole_s / self.explained_s
        text = (
            f"{self.task} takes {duration(self.whole_s)}, {ratio:.0f} times as long as its bytes"
            " and operations explain"
        )
        if self.pieces_s is None:
            return f"{text}; its {self.pieces} pieces have no time: give the tuning more seconds"
        kept = "the pieces are" if self.pieces_s < self.whole_s else "the whole is"
        return f"{text}; in {self.pieces} pieces {duration(self.pieces_s)}: {kept} in the model"


@dataclass(frozen=True, slots=True)
class Cutting:
    """Tasks that take too long get first answers in pieces: `dags` are the new tasks.

    `names` are the tasks in question, `tasks` counts all tasks now.
    """

    names: tuple[str, ...]
    tasks: int
    dags: tuple[Dag, ...] = field(default=(), repr=False)


ModelEvent = Event | Divided | ModelEstimate | BundleWritten | Cutting | Recut | Comparing
