"""Modes of a tuning: an automatic search, a template with knobs, or a schedule of the user."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

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
