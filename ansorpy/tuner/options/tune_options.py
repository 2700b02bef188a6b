"""The options of a tuning: name, type, default, limits and help of each, defined once.

The keywords of `ansorpy.tune` and `Client.submit`, the options of `ansorpy tune` and
`ansorpy submit`, and the fields of a job in the REST API derive from the two classes here
(ADR-0105). `LocalOptions` differs by the default of `cores`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from ansorpy.errors import SpecError
from ansorpy.measure.granted import granted_cores
from ansorpy.tuner.options.allocation import (
    ChosenTasks,
    NetworkTargets,
    ObjectiveName,
    Strategy,
    TaskTargets,
    check_allocation,
)
from ansorpy.tuner.options.conflicts import check_conflicts
from ansorpy.tuner.options.modes import Mode, ScheduleOption, TemplateOption, Tuner
from ansorpy.tuner.options.networks import WEIGHT_PATTERN, networks_of
from ansorpy.tuner.options.option import Definition, Option, OptionLimits, definitions
from ansorpy.tuner.options.plugins import (
    COST_MODELS,
    MEASURERS,
    SEARCHES,
    SPACES,
    CostModelName,
    MeasurerName,
    SearchName,
    SpaceName,
)

MAX_TRIALS: Final = 1_000_000  # every trial is kept in memory while its task is tuned
MAX_CORES: Final = 256
RULE_PATTERN: Final = "^[A-Za-z]{1,40}$"  # the form of names in `without`
ALLOW_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9_-]{0,39}$"  # the form of names in `allow`

# The options of a job in release 0.1: stored jobs and digests have each of them in any case.
FIRST: Final = (
    "trials", "seconds", "target_latency_s", "stop_if_gain_below", "weights", "cores", "seed",
    "fresh", "allow", "without",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TuneOptions:
    """The options that a tuning has on this machine and as a job of the service."""

    trials: Annotated[
        int,
        Option(
            "Candidates to measure, all tasks together. 0: the best choices of the cost model are"
            " timed, and the fastest is verified and delivered as a library, in about two seconds.",
            OptionLimits(least=0, most=MAX_TRIALS),
            service=OptionLimits(least=0, most=100_000),
            budget=True,
        ),
    ] = 64
    seconds: Annotated[
        float | None,
        Option(
            "Time limit of all of it, start, checks and final races included.",
            OptionLimits(above=0),
            service=OptionLimits(above=0, most=86_400),
            budget=True,
        ),
    ] = None
    target_latency_s: Annotated[
        float | None,
        Option(
            "Stop once the weighted latency of all tasks, in seconds, is as low as this.",
            OptionLimits(above=0),
            service=OptionLimits(above=0, most=1e6),
            budget=True,
            command="target-latency",
        ),
    ] = None
    stop_if_gain_below: Annotated[
        float | None,
        Option(
            "Stop once the last quarter of the trials, at least 64, gained a smaller share than"
            " this: 0.01.",
            OptionLimits(above=0, below=1),
            budget=True,
        ),
    ] = None
    patience: Annotated[
        int | None,
        Option(
            "Trials of a task without a gain after which its search ends.",
            OptionLimits(least=1, most=MAX_TRIALS),
            budget=True,
        ),
    ] = None
    max_trials_per_task: Annotated[
        int | None,
        Option(
            "Trials of each task at most: one slow task does not use up the trials of a network.",
            OptionLimits(least=1, most=MAX_TRIALS),
            budget=True,
        ),
    ] = None
    weights: Annotated[
        Mapping[str, float],
        Option(
            "Occurrences of each task in the program that it is tuned for, by name: mm=3. Trials"
            " go where they save most time; 1 unless given. Of several networks, by network and"
            " name: a/mm=3, b/mm=1.",
            OptionLimits(above=0),
            service=OptionLimits(above=0, most=1e9, items=256, pattern=WEIGHT_PATTERN),
            command="weight",
        ),
    ] = field(default_factory=dict)
    kernels_per_dim: Annotated[
        int,
        Option(
            "Kernels for ranges of the sizes of a dim, at most: a call runs the kernel of its size."
            " Each is searched by itself.",
            OptionLimits(least=1, most=8),
        ),
    ] = 4
    program_weights_bytes: Annotated[
        int,
        Option(
            "Bytes of all weights of the program that calls the kernels. If they exceed the L2"
            " caches of the cores, each timed call reads const operands from the cache or memory"
            " where the program leaves them, and no installed library joins the race. 0: they"
            " stay in the cache.",
            OptionLimits(least=0, most=2**53),
            command="program-weights",
        ),
    ] = 0
    objective: ObjectiveName = "latency"
    network_targets_s: NetworkTargets = field(default_factory=dict)
    task_targets_s: TaskTargets = field(default_factory=dict)
    strategy: Strategy = "gradient"
    tasks: ChosenTasks = ()
    mode: Mode = "auto"
    schedule: ScheduleOption = None
    template: TemplateOption = None
    tuner: Tuner = "model"
    cost_model: CostModelName = COST_MODELS.default
    search: SearchName = SEARCHES.default
    space: SpaceName = SPACES.default
    measurer: MeasurerName = MEASURERS.default
    race: Annotated[
        bool,
        Option(
            "Compare the result with the libraries that are installed: PyTorch, ONNX Runtime,"
            " OpenVINO. Their times decide nothing."
        ),
    ] = True
    cores: Annotated[
        int, Option("Threads of the kernel.", OptionLimits(least=1, most=MAX_CORES))
    ] = 1
    seed: Annotated[
        int,
        Option(
            "Seed of every random choice: the same seed measures the same candidates.",
            OptionLimits(least=0),
            service=OptionLimits(least=0, most=2**32 - 1),
        ),
    ] = 0
    fresh: Annotated[
        bool, Option("Neither answer from stored records nor start the search from them.")
    ] = False
    deterministic: Annotated[
        bool,
        Option(
            "Take the time of a candidate from its stored record, and time only what has none:"
            " the same request repeats its search and gives the same kernel. Other records start"
            " nothing. Not together with a time limit, nor with fresh."
        ),
    ] = False
    allow: Annotated[
        Sequence[str],
        Option(
            "Rules that are used on request only, by name: winograd2 and winograd4, on a GPU tf32,"
            " which change rounding beyond the order of sums, and rule files of the administrator.",
            service=OptionLimits(items=8, pattern=ALLOW_PATTERN),
        ),
    ] = ()
    without: Annotated[
        Sequence[str],
        Option(
            "Names of rules to switch off: SplitPhases.",
            service=OptionLimits(items=32, pattern=RULE_PATTERN),
        ),
    ] = ()

    def check_tasks(self, names: Sequence[str]) -> None:
        """Refuse weights and targets of names that no task and no network has.

        Raises:
            SpecError: names the option.
        """
        check_allocation(self, networks_of(self.weights, names), names)

    def __post_init__(self) -> None:
        for name, one in definitions(TuneOptions).items():
            object.__setattr__(self, name, _checked(name, one, getattr(self, name)))
        if self.mode == "manual":
            object.__setattr__(self, "trials", 1)  # the schedule
        check_conflicts(self)


def default_cores() -> int:
    """Return the threads of a tuning on this machine: all that it grants (ADR-0050)."""
    return min(MAX_CORES, granted_cores())


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalOptions(TuneOptions):
    """The options of a tuning on this machine."""

    cores: Annotated[
        int,
        Option(
            "Threads of the kernel; as many as this process may use unless given (affinity, quota"
            " of its control group).",
            OptionLimits(least=1, most=MAX_CORES),
        ),
    ] = field(default_factory=default_cores)


def _checked(name: str, definition: Definition, value: Any) -> Any:
    """Return the value of an option in its own type; SpecError if it is out of bounds."""
    limits = definition.option.limits
    match value:
        case None:  # no limit, no document
            return None
        case _ if definition.option.read is not None:
            return definition.option.read(value)
        case str() if definition.type is str:
            limits.check_word(f"{name} {value!r}", value)
        case str():
            expected = "a sequence of names" if definition.default == () else "a number"
            raise SpecError(
                f"cannot tune with {name} {value!r} because it is a text; expected {expected}"
            )
        case Mapping():
            for key, number in value.items():
                limits.check(f"{name} {key}={number}", number)
            return dict(value)
        case Sequence():
            return tuple(value)
        case int() | float():
            limits.check(f"{name} {value}", value)
        case _:
            pass
    return value


def values(options: TuneOptions, kind: type[TuneOptions] = TuneOptions) -> dict[str, Any]:
    """Return the options that a class defines with their values, as its keywords.

    An option that `options` lacks is left out: it has its default.
    """
    return {name: getattr(options, name) for name in definitions(kind) if hasattr(options, name)}


def changed(options: TuneOptions) -> dict[str, Any]:
    """Return the options of a job that differ from their default."""
    known = definitions(TuneOptions)
    told = values(options)
    return {name: value for name, value in told.items() if value != known[name].default}


def job_fields(options: TuneOptions) -> dict[str, Any]:
    """Return the options as fields of a job's JSON, options of its `budget` in that field.

    Options of release 0.1 are there in any case, later ones if they differ from their default: so
    equal requests have equal documents, whichever release wrote them.
    """
    told, known = values(options), definitions(TuneOptions)
    plain = {name: _as_json(known[name], value) for name, value in told.items()}
    written = {name: plain[name] for name in told if name in FIRST or name in changed(options)}
    budget = {name: value for name, value in written.items() if known[name].option.budget}
    return {"budget": budget, **{n: v for n, v in written.items() if n not in budget}}


def _as_json(definition: Definition, value: Any) -> Any:
    if definition.shape == "document":
        return None if value is None else value.to_json()
    return list(value) if definition.shape == "names" else value


def options_of(fields: Mapping[str, Any]) -> TuneOptions:
    """Return the options of a job's JSON; an absent one has its default."""
    told = {**fields, **fields["budget"]}
    return TuneOptions(**{name: told[name] for name in definitions(TuneOptions) if name in told})


def later_options(options: TuneOptions) -> dict[str, Any]:
    """Return the options that came after release 0.1 and differ from their default, as JSON.

    Digests of requests and of workloads contain these; digests of release 0.1 stay as they are.
    """
    known = definitions(TuneOptions)
    told = changed(options).items()
    return {name: _as_json(known[name], value) for name, value in told if name not in FIRST}
