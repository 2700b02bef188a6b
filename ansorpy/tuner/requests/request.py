"""The request of a tuning: tensor programs, a machine and options, checked."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import cast

from ansorpy.errors import SpecError
from ansorpy.frontends.source import dags_of
from ansorpy.target import Target, require_back_end, require_cpu, require_gpu
from ansorpy.te.check import check_tasks
from ansorpy.te.dag import Dag
from ansorpy.te.tensor import Tensor
from ansorpy.tuner.options.allocation import THROUGHPUT, chosen_dags
from ansorpy.tuner.options.modes import check_mode_target, check_one_task
from ansorpy.tuner.options.plugins import ESTIMATES, GROUPS, MEASURERS, check_chosen, check_measurer
from ansorpy.tuner.options.targets import device_of
from ansorpy.tuner.options.tune_options import MAX_CORES, LocalOptions, TuneOptions, values
from ansorpy.tuner.requests.own_kernels import Given, OwnByTask, own_kernels

Answered = Mapping[str, tuple[str, tuple[int, ...]]]


@dataclass(frozen=True, slots=True)
class Request(LocalOptions):
    """The Dags to tune, the machine to tune for, and the options.

    The threads of the kernels are those of `target`. `first_answer` asks for an answer before the
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
        told = values(options, LocalOptions)
        chosen = chosen_dags(dags, options.tasks)
        device = "" if options.measurer == ESTIMATES else device_of(target)
        return Request(
            chosen, target, own=own_kernels(own, chosen), first_answer=first_answer, early=early,
            libraries=libraries, weights_bytes=weights_bytes, answered=answered, device=device,
            **told,
        )  # fmt: skip

    def __post_init__(self) -> None:
        LocalOptions.__post_init__(self)
        require_back_end(self.target.kind)
        if self.target.kind == "cuda":
            require_gpu(self.target)
        if self.estimated:
            check_estimated(self, self.target.names[-1])
        if self.libraries:
            require_cpu(self.target.kind)
        if not 1 <= self.target.cores <= MAX_CORES:
            raise SpecError(f"cannot tune for {self.target.cores} cores; expected 1 to {MAX_CORES}")
        if self.objective == THROUGHPUT and self.copies == 1:
            check_throughput(self, self.target.kind, self.target.cores, self.libraries)
            object.__setattr__(self, "copies", self.target.cores)
            object.__setattr__(self, "target", replace(self.target, cores=1))
        if self.own:
            check_own(self)
        self.check_tasks([dag.name for dag in self.dags])
        for group in GROUPS:
            check_chosen(group, self)
        check_measurer(self.measurer, self.target.names[-1])
        check_one_task(self, len(self.dags))
        check_mode_target(self, self.target.names[0])

    @property
    def estimated(self) -> bool:
        """True if trials are estimates: no device runs the kernels (ADR-0143)."""
        return self.target.kind == "cuda" and not self.device

    @property
    def measured_by(self) -> str:
        """The measuring back end of another package, with its package; "" for ours."""
        found = check_chosen(MEASURERS, self)
        return "" if found.is_ours else found.full_name


def check_own(request: Request) -> None:
    """Refuse kernels of the user's own in a request that ends without a race on this CPU.

    Raises:
        SpecError: says which part of the request excludes the race.
    """
    name = request.target.names[-1]
    reasons = {
        f"the target {name} is no CPU": request.target.kind != "cpu",
        "first answers, without trials, do not race": not request.trials,
        "parts of a model do not race": request.libraries,
        "their copies would take turns in one process": request.copies > 1,
    }
    for reason, holds in reasons.items():
        if holds:
            raise SpecError(
                f"cannot race kernels of your own because {reason};"
                " expected a CPU, tasks, at least 1 trial and objective latency or speedup"
            )


def check_throughput(options: TuneOptions, kind: str, cores: int, model: bool) -> None:
    """Refuse the objective throughput where copies are not timed, or a latency is to be reached.

    Args:
        kind: of the target.
        cores: of the machine, a copy of the kernel on each.

    Raises:
        SpecError: names the reason.
    """
    if options.objective != THROUGHPUT:
        return
    reasons = {
        "a GPU runs one kernel on all of its cores; expected target cpu": kind != "cpu",
        "the kernels of a model run one after the other; expected tasks": model,
        "target_latency_s is a latency of one call; expected trials, seconds or"
        " stop_if_gain_below": options.target_latency_s is not None,
        f"measurer {options.measurer} times one call at a time; expected measurer"
        f" {MEASURERS.default}": options.measurer != MEASURERS.default,
        f"on {cores} core one copy runs alone, which is its latency; expected cores from 2": cores
        == 1,
    }
    for reason, holds in reasons.items():
        if holds:
            raise SpecError(f"cannot tune for throughput because {reason}")


def check_estimated(options: TuneOptions, target: str) -> None:
    """Refuse options that need times, for a target whose candidates are only estimated.

    Raises:
        SpecError: names the option.
    """
    timed = ("target_latency_s", "stop_if_gain_below", "network_targets_s", "task_targets_s")
    for name in timed:
        if getattr(options, name):
            raise SpecError(
                f"cannot tune with {name} for {target} because its candidates are estimated, not"
                " timed; expected trials, seconds or patience"
            )


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
