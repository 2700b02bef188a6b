"""The options of the tuning of a model: all of a tuning, and more for models alone."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from ansorpy.tuner.options.option import Definition, Option, OptionLimits, definitions
from ansorpy.tuner.options.tune_options import MAX_TRIALS, LocalOptions, TuneOptions

TrialsPerTask = Annotated[
    int | None,
    Option(
        "Trials for each task of a model, in place of `trials`; tasks with a small share of"
        " the time leave theirs to the others.",
        OptionLimits(least=0, most=MAX_TRIALS),
        service=OptionLimits(least=1, most=100_000),
        budget=True,
    ),
]
Hosted = Annotated[bool, Option("Let NumPy compute operators of a model that have no kernel.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions(LocalOptions):
    """The options of a tuning of a model on this machine."""

    trials_per_task: TrialsPerTask = None
    hosted: Hosted = False

    def __post_init__(self) -> None:
        LocalOptions.__post_init__(self)
        if self.trials_per_task is not None:
            limits = definitions(ModelOptions)["trials_per_task"].option.limits
            limits.check(f"trials_per_task {self.trials_per_task}", self.trials_per_task)

    def trials_of(self, tasks: int) -> int:
        """Return the trials of `tasks` tasks together."""
        if self.trials_per_task is None:
            return self.trials
        return min(MAX_TRIALS, self.trials_per_task * tasks)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelJobOptions(TuneOptions):
    """The options of a job of the service, which may tune a model."""

    trials_per_task: TrialsPerTask = None
    hosted: Hosted = False


def model_definitions() -> Mapping[str, Definition]:
    """Return the options that only a tuning of a model has, by name."""
    known = definitions(LocalOptions)
    return {n: one for n, one in definitions(ModelOptions).items() if n not in known}
