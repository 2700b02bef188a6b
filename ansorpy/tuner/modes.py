"""Modes of a tuning: an automatic search, or a schedule that the user wrote."""

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

from ansorpy.errors import SpecError
from ansorpy.tuner.option import DocumentOption, Option, OptionLimits


def _schedule(given: Any) -> DocumentOption:
    from ansorpy.schedule.schedule import read_schedule  # lowering is slow to load

    return read_schedule(given)


Mode = Annotated[
    str,
    Option(
        "auto: search the space that the rules derive; manual: compile, verify and time `schedule`"
        " as it is.",
        OptionLimits(words=("auto", "manual")),
    ),
]
ScheduleOption = Annotated[
    DocumentOption | Mapping[str, Any] | str | None,
    Option(
        "Steps and sizes of one task for mode manual, as text or JSON (docs/schedules.md).",
        read=_schedule,
    ),
]


class ModeOptions(Protocol):
    """The options that belong to a mode."""

    @property
    def mode(self) -> str:
        """`auto` or `manual`."""
        ...

    @property
    def schedule(self) -> DocumentOption | Mapping[str, Any] | str | None:
        """The schedule of mode manual."""
        ...


def check_mode(options: ModeOptions) -> None:
    """Refuse a mode without its document, and a document without its mode.

    Raises:
        SpecError: names the option.
    """
    if options.mode == "manual" and options.schedule is None:
        raise SpecError(
            "cannot tune with mode manual because there is no schedule; expected steps and sizes"
            " in schedule"
        )
    if options.mode != "manual" and options.schedule is not None:
        raise SpecError(f"cannot tune with a schedule in mode {options.mode}; expected mode manual")


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
        raise SpecError(
            f"cannot tune {count} tasks with mode {options.mode} because its schedule is of one"
            " task; expected the name of one in tasks"
        )
