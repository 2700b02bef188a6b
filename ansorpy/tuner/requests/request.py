"""The request of a tuning: tensor programs, a machine and options, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import cast

from ansorpy.errors import SpecError
from ansorpy.frontends.source import dags_of
from ansorpy.target import GpuTarget, Target, require_back_end, require_gpu
from ansorpy.te.check import check_tasks
from ansorpy.te.dag import Dag
from ansorpy.te.dims import dims_of
from ansorpy.te.tensor import Tensor
from ansorpy.tuner.options.allocation import THROUGHPUT, chosen_dags
from ansorpy.tuner.options.conflicts import RequestKind, check_conflicts
from ansorpy.tuner.options.plugins import ESTIMATES, GROUPS, MEASURERS, chosen_part
from ansorpy.tuner.options.targets import device_of
from ansorpy.tuner.options.tune_options import MAX_CORES, LocalOptions, TuneOptions, values
from ansorpy.tuner.requests.own_kernels import Given, OwnByTask, own_kernels

Answered = Mapping[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Request(LocalOptions):
    """The Dags to tune, the machine to tune for, and the options.

    The kernels have the threads of `target`. `first_answer` asks for an answer before the
    first trial, if no more tasks are tuned than have open pools (`tuner.race.first_answer`).
    `early` offers a kernel to other people from the first seconds on (ADR-0058): the first answer
    of every task passes all cases, the baseline is timed before the first trial, and libraries of
    better candidates follow.
    `libraries` asks for the verified library of the best candidate of each task, without a race:
    the tasks are parts of a model, whose weights are `weights_bytes` in all: if these exceed the
    L2 caches of the cores, calls are timed with cold weights (`measure.timing.cold_weights`).
    `answered` are candidates (plan as text, row) of the answers that tasks of a model have: each is
    measured first, so that the search compares with it in the same minutes.
    `own` are kernels of the user's own in the final races, by task (ADR-0085).
    `copies` of a kernel run at once, one thread each, if the objective is throughput: as many as
    the machine that was given has cores; `target` then has one (ADR-0166).
    `device` is the back end that runs kernels of a GPU; "" if none does (`targets.device_of`).
    """

    dags: tuple[Dag, ...]
    target: Target
    first_answer: bool = field(default=True, kw_only=True)
    early: bool = field(default=False, kw_only=True)
    libraries: bool = field(default=False, kw_only=True)
    weights_bytes: int = field(default=0, kw_only=True)
    answered: Answered = field(default_factory=dict, kw_only=True)
    own: OwnByTask = field(default_factory=dict, kw_only=True)
    copies: int = field(default=1, kw_only=True)
    device: str = field(default="", kw_only=True)

    @staticmethod
    def of(
        options: TuneOptions,
        dags: tuple[Dag, ...],
        target: Target,
        *,
        first_answer: bool = True,
        early: bool = False,
        libraries: bool = False,
        weights_bytes: int = 0,
        answered: Answered = MappingProxyType({}),
        own: Given = (),
    ) -> "Request":
        """Return the request with the options of a call or of a stored job.

        Kernels for the GPU of this machine run on it, unless the request asks for estimates.
        """
        shared = values(options, LocalOptions)
        chosen = chosen_dags(dags, options.tasks)
        device = "" if options.measurer == ESTIMATES else device_of(target)
        return Request(
            chosen, target, own=own_kernels(own, chosen), first_answer=first_answer, early=early,
            libraries=libraries, weights_bytes=weights_bytes, answered=answered, device=device,
            **shared,
        )  # fmt: skip

    def __post_init__(self) -> None:
        LocalOptions.__post_init__(self)
        require_back_end(self.target.kind)
        if isinstance(self.target, GpuTarget):
            require_gpu(self.target)
        if not 1 <= self.target.cores <= MAX_CORES:
            raise SpecError(f"cannot tune for {self.target.cores} cores; expected 1 to {MAX_CORES}")
        check_conflicts(self, self._facts())
        if self.objective == THROUGHPUT and self.copies == 1:
            object.__setattr__(self, "copies", self.target.cores)
            object.__setattr__(self, "target", replace(self.target, cores=1))
        self.check_tasks([dag.name for dag in self.dags])
        for group in GROUPS:
            chosen_part(group, self)

    def _facts(self) -> RequestKind:
        return RequestKind(
            self.target.kind, len(self.dags), max(self.copies, self.target.cores),
            model=self.libraries, estimated=self.estimated, own=bool(self.own),
            dims=self.with_dims,
        )  # fmt: skip

    @property
    def estimated(self) -> bool:
        """True if trials are estimates: no device runs the kernels (ADR-0143)."""
        return isinstance(self.target, GpuTarget) and not self.device

    @property
    def with_dims(self) -> bool:
        """True if a call decides sizes of a task."""
        return any(map(dims_of, self.dags))

    @property
    def measured_by(self) -> str:
        """The measuring back end of another package, with its package; "" for ours."""
        found = chosen_part(MEASURERS, self)
        return "" if found.is_ours else found.full_name


def read_dags(what: Dag | Sequence[Dag] | str, bind: Mapping[str, int]) -> tuple[Dag, ...]:
    """Return the checked Dags of a text, of one Dag or of several.

    Raises:
        SpecError: a Dag is wrong, there is none, or two share a name.
    """
    if isinstance(what, str):
        return dags_of(what, bind)
    dags = (what,) if isinstance(what, Dag) else _sequence(what)
    if not dags:
        raise SpecError("nothing to tune: 0 Dags, at least 1 needed")
    check_tasks(dags)
    return dags


def _sequence(what: object) -> tuple[Dag, ...]:
    """Return the elements of a sequence of Dags.

    Raises:
        SpecError: an element is no Dag.
    """
    given = tuple(what) if isinstance(what, Iterable) and not isinstance(what, Tensor) else (what,)
    tensors = [one.name for one in given if isinstance(one, Tensor)]
    if tensors:
        names = ", ".join(tensors)
        raise SpecError(
            f"cannot tune {names} because a tensor alone is no Dag;"
            f" expected te.dag({names if len(tensors) == 1 else f'[{names}]'})"
        )
    for one in given:
        if not isinstance(one, Dag):
            raise SpecError(
                f"cannot tune {type(one).__name__} {str(one)[:40]!r};"
                " expected a Dag, several Dags, a text, a file, a graph or a module of PyTorch"
            )
    return cast(tuple[Dag, ...], given)
