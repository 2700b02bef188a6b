"""Modes of a tuning: an automatic search, a template with knobs, or a schedule of the user."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Protocol

from ansorpy.errors import SpecError
from ansorpy.tuner.options.option import DocumentOption, Option, OptionLimits


def _schedule(given: Any) -> DocumentOption:
    from ansorpy.schedule.schedule import read_schedule  # lowering is slow to load

    return read_schedule(given)


def _template(given: Any) -> DocumentOption:
    from ansorpy.schedule.template import read_template  # lowering is slow to load

    return read_template(given)


Mode = Annotated[
    str,
    Option(
        "auto: search the space that the rules derive; template: search the knobs of `template`;"
        " manual: compile, verify and time `schedule` as it is.",
        OptionLimits(words=("auto", "template", "manual")),
    ),
]
ScheduleOption = Annotated[
    DocumentOption | Mapping[str, Any] | str | None,
    Option(
        "Steps and sizes of one task for mode manual, as text or JSON (docs/schedules.md).",
        read=_schedule,
    ),
]
TemplateOption = Annotated[
    DocumentOption | Mapping[str, Any] | str | Callable[..., object] | None,
    Option(
        "Schedule of one task with knobs for mode template, as text or JSON; in Python also a"
        " function (docs/schedules.md).",
        read=_template,
    ),
]
Tuner = Annotated[
    str,
    Option(
        "Choice of the knobs in mode template. model: evolution by the cost model; genetic:"
        " children of the fastest; grid: in order; random.",
        OptionLimits(words=("model", "genetic", "grid", "random")),
    ),
]
DOCUMENTS: Final = {"manual": "schedule", "template": "template"}  # by mode


class ModeOptions(Protocol):
    """The options that belong to a mode."""

    @property
    def mode(self) -> str:
        """`auto`, `template` or `manual`."""
        ...

    @property
    def tuner(self) -> str:
        """The choice of knobs in mode template."""
        ...

    @property
    def trials(self) -> int:
        """The candidates to measure."""
        ...


def check_mode(options: ModeOptions) -> None:
    """Refuse a mode without its document, and a document without its mode.

    Raises:
        SpecError: names the option.
    """
    for mode, name in DOCUMENTS.items():
        given = getattr(options, name) is not None
        if options.mode == mode and not given:
            raise SpecError(
                f"cannot tune with mode {mode} because there is no {name}; expected steps and"
                f" sizes in {name}"
            )
        if options.mode != mode and given:
            raise SpecError(
                f"cannot tune with a {name} in mode {options.mode}; expected mode {mode}"
            )
    if options.mode == "template" and options.trials < 1:
        raise SpecError(
            "cannot tune with mode template and 0 trials because a tuner chooses by times;"
            " expected at least 1"
        )
    if options.mode != "template" and options.tuner != "model":
        raise SpecError(
            f"cannot tune with tuner {options.tuner} in mode {options.mode} because only templates"
            " have knobs; expected mode template"
        )


def check_mode_target(options: ModeOptions, target: str) -> None:
    """Refuse a mode of the user's own schedules for a GPU; SpecError names the mode."""
    if options.mode != "auto" and target.startswith("cuda"):
        raise SpecError(
            f"cannot tune with mode {options.mode} for {target} because schedules of users are"
            " lowered for processors only; expected target cpu"
        )


def check_one_task(options: ModeOptions, count: int) -> None:
    """Refuse several tasks in a mode whose document is of one.

    Raises:
        SpecError: there are several.
    """
    if options.mode != "auto" and count != 1:
        name = DOCUMENTS[options.mode]
        raise SpecError(
            f"cannot tune {count} tasks with mode {options.mode} because its {name} is of one task;"
            " expected the name of one in tasks"
        )
