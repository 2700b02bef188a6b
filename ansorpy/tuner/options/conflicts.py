"""Options that exclude each other, a kind of target, a model or several tasks: one table.

Python, the command line and the service refuse a request from it, with the same words. No text of
a row repeats a name that a user wrote, so that a reply of the service may contain it (ADR-0041).
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ansorpy.errors import SpecError
from ansorpy.tuner.options.allocation import THROUGHPUT
from ansorpy.tuner.options.modes import DOCUMENTS
from ansorpy.tuner.options.plugins import ESTIMATES, GROUPS, MEASURERS, SEARCHES, SPACES, PartGroup

if TYPE_CHECKING:
    from ansorpy.tuner.options.tune_options import TuneOptions


@dataclass(frozen=True, slots=True)
class RequestKind:
    """Facts of a request beside its options.

    target     cpu or cuda; "" of options alone, the digest of a machine in a job
    tasks      their number; 0 if it is not known, as of a model
    cores      of the machine, which copies of a kernel share; 0 if not known
    model      the request is for a model, or for parts of it
    estimated  candidates are estimated, not timed
    own        kernels of the user's own are to race
    dims       a call decides sizes of a task
    """

    target: str = ""
    tasks: int = 0
    cores: int = 0
    model: bool = False
    estimated: bool = False
    own: bool = False
    dims: bool = False


OPTIONS_ALONE: Final = RequestKind()
Holds = Callable[["TuneOptions", RequestKind], bool]


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row: "cannot tune `what` because `reason`; expected `expected`" if it `holds`.

    `place` is the field of a job that the refusal names; "" if jobs have none. `what` may contain
    the values {mode} and {objective}.
    """

    place: str
    what: str
    reason: str
    expected: str
    holds: Holds


class ConflictError(SpecError):
    """Options of a request exclude each other; `place` names a field of the job."""

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place


def check_conflicts(options: "TuneOptions", facts: RequestKind = OPTIONS_ALONE) -> None:
    """Refuse the first conflict of a request.

    Args:
        facts: unless given, only options that exclude other options are refused.

    Raises:
        ConflictError
    """
    for row in CONFLICTS:
        if row.holds(options, facts):
            what = row.what.format(mode=options.mode, objective=options.objective)
            raise ConflictError(
                f"cannot tune {what} because {row.reason}; expected {row.expected}", row.place
            )


def _of_package(group: PartGroup) -> Holds:
    return lambda o, _: o.deterministic and getattr(o, group.option) not in group.ours


def _chosen(group: PartGroup) -> Holds:
    return lambda o, _: o.mode != "auto" and getattr(o, group.option) != group.default


def _timed(name: str) -> Holds:
    return lambda o, f: f.estimated and bool(getattr(o, name))


def _lacks(mode: str, name: str) -> Holds:
    return lambda o, _: o.mode == mode and getattr(o, name) is None


def _excess(mode: str, name: str) -> Holds:
    return lambda o, _: o.mode != mode and getattr(o, name) is not None


def _throughput(other: Holds) -> Holds:
    return lambda o, f: o.objective == THROUGHPUT and other(o, f)


def _second_objective(name: str) -> Holds:
    return lambda o, f: bool(f.target) and o.objective != "latency" and bool(getattr(o, name))


# Stored jobs of models may have two objectives: only a request, which has a target, is refused.
CONFLICTS: Final = (
    Conflict("mode", "a model with mode {mode}", "a schedule is of one task", "mode auto",
             lambda o, f: f.model and o.mode != "auto"),
    Conflict("measurer", "a model with measurer", "times of this machine choose its parts",
             f"measurer {MEASURERS.default}",
             lambda o, f: f.model and o.measurer != MEASURERS.default),
    Conflict("space", "a model with space", "rules choose its parts", f"space {SPACES.default}",
             lambda o, f: f.model and o.space != SPACES.default),
    Conflict("deterministic", "a model with deterministic",
             "times without a record choose the tasks that are searched", "Dags or a text",
             lambda o, f: f.model and o.deterministic),
    Conflict("weights", "a model with weights", "the weights of its tasks follow from it",
             "no weights", lambda o, f: f.model and not f.tasks and bool(o.weights)),
    Conflict("program_weights_bytes", "a model with program_weights_bytes",
             "the model tells its weights", "no program_weights_bytes",
             lambda o, f: f.model and bool(o.program_weights_bytes)),
    Conflict("budget.objective", "a model for throughput", "its kernels run one after the other",
             "tasks", _throughput(lambda _, f: f.model)),
    Conflict("target", "a model for cuda", "a bundle holds libraries of a CPU", "target cpu",
             lambda _, f: f.model and f.target == "cuda"),
    *(Conflict(name, f"with mode {mode}", f"there is no {name}", f"steps and sizes in {name}",
               _lacks(mode, name)) for mode, name in DOCUMENTS.items()),
    *(Conflict(name, f"with a {name} in mode {{mode}}", "the mode has other candidates",
               f"mode {mode}", _excess(mode, name)) for mode, name in DOCUMENTS.items()),
    Conflict("budget.tasks", "several tasks with mode {mode}", "its schedule or template is of one"
             " task", "the name of one in tasks", lambda o, f: f.tasks > 1 and o.mode != "auto"),
    Conflict("target", "with mode {mode} for cuda", "schedules of users are lowered for processors"
             " only", "target cpu", lambda o, f: f.target == "cuda" and o.mode != "auto"),
    Conflict("budget.trials", "with mode template and 0 trials", "a tuner chooses by times",
             "at least 1", lambda o, _: o.mode == "template" and o.trials < 1),
    Conflict("tuner", "with tuner in mode {mode}", "only templates have knobs", "mode template",
             lambda o, _: o.mode != "template" and o.tuner != "model"),
    *(Conflict(group.option, f"with {group.option} in mode {{mode}}", "its candidates are the"
               " user's", "mode auto", _chosen(group)) for group in (SEARCHES, SPACES)),
    Conflict("measurer", "with measurer and 0 trials", "it measures trials only", "at least 1",
             lambda o, _: o.measurer != MEASURERS.default and not o.trials),
    Conflict("deterministic", "with seconds and deterministic", "a time limit ends the search at"
             " another trial each time", "one of the two",
             lambda o, _: o.deterministic and o.seconds is not None),
    Conflict("deterministic", "with fresh and deterministic", "the times come from stored records",
             "one of the two", lambda o, _: o.deterministic and o.fresh),
    *(Conflict(group.option, f"with {group.option} of a package and deterministic",
               "nothing shows that code of packages repeats itself", " or ".join(group.ours),
               _of_package(group)) for group in GROUPS),
    Conflict("target", "with measurer estimates for cpu", "only kernels for a GPU are estimated",
             f"measurer {MEASURERS.default}",
             lambda o, f: f.target == "cpu" and o.measurer == ESTIMATES),
    Conflict("target", "with measurer of a package for cuda", "plug-ins take machine code of"
             " processors", "target cpu",
             lambda o, f: f.target == "cuda" and o.measurer not in MEASURERS.ours),
    *(Conflict("target", f"with {name} for this GPU", "its candidates are estimated, not timed",
               "trials, seconds or patience", _timed(name)) for name in
      ("target_latency_s", "stop_if_gain_below", "network_targets_s", "task_targets_s")),
    Conflict("budget.objective", "for throughput on cuda", "a GPU runs one kernel on all of its"
             " cores", "target cpu", _throughput(lambda _, f: f.target == "cuda")),
    Conflict("budget.objective", "for throughput with target_latency_s", "it is a latency of one"
             " call", "trials, seconds or stop_if_gain_below",
             _throughput(lambda o, _: o.target_latency_s is not None)),
    Conflict("budget.objective", "for throughput with measurer", "it times one call at a time",
             f"measurer {MEASURERS.default}",
             _throughput(lambda o, _: o.measurer != MEASURERS.default)),
    Conflict("budget.objective", "for throughput with program_weights_bytes", "each copy keeps its"
             " weights in its cache", "objective latency or speedup",
             _throughput(lambda o, _: bool(o.program_weights_bytes))),
    Conflict("budget.objective", "for throughput on 1 core", "one copy runs alone, which is its"
             " latency", "cores from 2", _throughput(lambda _, f: f.cores == 1)),
    *(Conflict("budget.objective", f"with objective {{objective}} and {name}", "each is an"
               " objective of its own", "one of them", _second_objective(name))
      for name in ("network_targets_s", "task_targets_s")),
    Conflict("budget.task_targets_s", "with network_targets_s and task_targets_s", "each is an"
             " objective of its own", "one of them",
             lambda o, f: bool(f.target and o.network_targets_s and o.task_targets_s)),
    Conflict("target", "with dims for cuda", "kernels for a GPU have fixed sizes", "target cpu",
             lambda _, f: f.dims and f.target == "cuda"),
    Conflict("mode", "with dims in mode {mode}", "schedules of users have fixed sizes", "mode auto",
             lambda o, f: f.dims and o.mode != "auto"),
    Conflict("measurer", "with dims and measurer", "its programs have fixed sizes",
             f"measurer {MEASURERS.default}",
             lambda o, f: f.dims and o.measurer != MEASURERS.default),
    Conflict("space", "with dims and space", "its sketches have fixed sizes",
             f"space {SPACES.default}", lambda o, f: f.dims and o.space != SPACES.default),
    Conflict("program_weights_bytes", "with dims and program_weights_bytes", "calls of other sizes"
             " come between", "one of the two",
             lambda o, f: f.dims and bool(o.program_weights_bytes)),
    Conflict("", "with dims and own", "functions of a user have fixed sizes", "numbers",
             lambda _, f: f.dims and f.own),
    Conflict("", "with own for cuda", "functions of a user run on a CPU", "target cpu",
             lambda _, f: f.own and f.target == "cuda"),
    Conflict("", "with own and 0 trials", "first answers do not race", "at least 1",
             lambda o, f: f.own and not o.trials),
    Conflict("", "a model with own", "its tasks end without a race", "tasks",
             lambda _, f: f.own and f.model),
    Conflict("", "with own and program_weights_bytes", "functions of a user keep their weights in"
             " the cache", "one of the two", lambda o, f: f.own and bool(o.program_weights_bytes)),
    Conflict("", "for throughput with own", "its copies would take turns in one process",
             "objective latency or speedup", _throughput(lambda _, f: f.own)),
)  # fmt: skip
