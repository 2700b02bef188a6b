"""A schedule that a user wrote: transform steps, sizes and packed operands."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from ansorpy.errors import RecordError, SpecError, StepError, quoted, shown
from ansorpy.frontends.json.strict import parse_json
from ansorpy.plan.plan import StageChoice
from ansorpy.replay import choice_from_json, choice_to_json
from ansorpy.schedule.text import Lines, read_lines
from ansorpy.state.state import Step
from ansorpy.state.steps import Split
from ansorpy.state.text import step_from_json, step_to_json

MAX_STEPS: Final = 256  # a sketch of the rules has at most some 60
MAX_ENTRIES: Final = 1024  # sizes, and names of stages
MAX_SIZE: Final = 2**31 - 1  # the largest extent of an axis
KEYS: Final = ("steps", "sizes", "pack", "choices")


@dataclass(frozen=True, slots=True)
class Schedule:
    """The steps of a schedule, in order, with its sizes.

    steps     transforms of the naive loops; a split has its inner lengths
    sizes     values of further sizes by name, such as the budget `C.unroll`
    pack      operands of a stage that are packed into the order of its tiles, by stage
    choices   structural choices as in a record, by stage; unless given, the steps imply them
    """

    steps: tuple[Step, ...]
    sizes: tuple[tuple[str, int], ...] = ()
    pack: tuple[tuple[str, tuple[str, ...]], ...] = ()
    choices: tuple[tuple[str, StageChoice], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the schedule as JSON, its steps as records have them."""
        document: dict[str, Any] = {"steps": [step_to_json(step) for step in self.steps]}
        if self.sizes:
            document["sizes"] = dict(self.sizes)
        if self.pack:
            document["pack"] = {stage: list(names) for stage, names in self.pack}
        if self.choices:
            document["choices"] = {stage: choice_to_json(one) for stage, one in self.choices}
        return document

    def __str__(self) -> str:
        """Return the schedule as text, which `read_schedule` reads; `choices` have no text."""
        lines = [str(step) for step in self.steps]
        lines += [f"{stage}.pack({', '.join(names)})" for stage, names in self.pack]
        return "\n".join([*lines, *(f"{name} = {value}" for name, value in self.sizes)])


def read_schedule(given: object) -> Schedule:
    """Return a schedule from a schedule, JSON (a mapping or a text), or lines of text.

    Raises:
        SpecError: names the step or the field.
    """
    match given:
        case Schedule():
            return given
        case Mapping():
            return _from_json(cast(Mapping[str, object], given))
        case str() if not given.lstrip().startswith("{"):
            return _from_lines(read_lines(given))
        case str():
            try:
                return read_schedule(parse_json(given))
            except json.JSONDecodeError as error:
                raise SpecError(
                    f"cannot read the schedule because line {error.lineno}, column {error.colno}"
                    f" is no JSON: {error.msg}"
                ) from error
            except ValueError as error:
                raise SpecError(f"cannot read the schedule because of its JSON: {error}") from error
        case _ if callable(written := getattr(given, "to_json", None)):
            return read_schedule(written())
        case _:
            raise SpecError(
                f"cannot read a schedule from {type(given).__name__}; expected a Schedule, an"
                " object with steps, or text"
            )


def _from_lines(lines: Lines) -> Schedule:
    steps = tuple(step_of(number, obj) for number, obj in enumerate(lines.steps, start=1))
    return checked(Schedule(steps, tuple(lines.sizes.items()), tuple(lines.pack.items())))


def _from_json(obj: Mapping[str, object]) -> Schedule:
    for key in obj:
        if key not in KEYS:
            raise SpecError(
                f"cannot read the field {quoted(key)} of a schedule; expected {', '.join(KEYS)}"
            )
    steps = obj.get("steps")
    if not isinstance(steps, list):
        raise SpecError(
            f"cannot read the steps of a schedule from {quoted(steps)}; expected a list of steps"
        )
    check_length(steps)
    read = tuple(step_of(number, one) for number, one in enumerate(steps, start=1))
    sizes, pack, choices = (_entries(obj, key) for key in KEYS[1:])
    return checked(
        Schedule(
            read,
            tuple((name, _size(name, value)) for name, value in sizes.items()),
            tuple((stage, _names(stage, names)) for stage, names in pack.items()),
            tuple((stage, _choice(stage, one)) for stage, one in choices.items()),
        )
    )


def checked(schedule: Schedule) -> Schedule:
    """Return a schedule; SpecError if it has too many steps, or a length out of range."""
    check_length(schedule.steps)
    for number, step in enumerate(schedule.steps, start=1):
        lengths = step.fixed if isinstance(step, Split) else ()
        if any(not 0 <= length <= MAX_SIZE for length in lengths):
            raise SpecError(
                f"cannot read step {number} because of a length out of range; expected lengths of"
                f" 1 to {MAX_SIZE}"
            )
    return schedule


def check_length(steps: Iterable[object]) -> None:
    """Raise SpecError for more than `MAX_STEPS` steps."""
    count = sum(1 for _ in steps)
    if count > MAX_STEPS:
        raise SpecError(f"cannot take {count} steps; expected at most {MAX_STEPS}")


def step_of(number: int, obj: object) -> Step:
    """Return a step from its JSON.

    Raises:
        SpecError: names the step by its number, from 1, and the operand.
    """
    try:
        return step_from_json(obj)
    except (RecordError, StepError) as error:
        why = str(error).removeprefix(f"step {obj!r}: ")
        raise SpecError(
            f"cannot read step {number} because of its form: {shown(why, 200)}; expected"
            ' a list of a code and its operands, such as ["SP", "C", "i", 2, [8]]'
        ) from error


def _entries(obj: Mapping[str, object], key: str) -> dict[str, object]:
    entries = obj.get(key, {})
    if not isinstance(entries, dict) or len(entries) > MAX_ENTRIES:
        raise SpecError(
            f"cannot read {key} of a schedule from {quoted(entries)}; expected an object of at most"
            f" {MAX_ENTRIES} names"
        )
    return entries


def _size(name: str, value: object) -> int:
    if type(value) is not int or not 0 <= value <= MAX_SIZE:
        raise SpecError(
            f"cannot read size {quoted(name)} from {quoted(value)}; expected an integer of 0 to"
            f" {MAX_SIZE}"
        )
    return value


def _names(stage: str, names: object) -> tuple[str, ...]:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SpecError(
            f"cannot pack {quoted(names)} for {quoted(stage)}; expected a list of tensors"
        )
    return tuple(names)


def _choice(stage: str, obj: object) -> StageChoice:
    try:
        return choice_from_json(cast(Mapping[str, Any], obj))
    except (RecordError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise SpecError(
            f"cannot read the choices of {quoted(stage)} because of {shown(error)}; expected at,"
            " parallel, lane and pack, as in a record"
        ) from error
