"""Templates: a schedule with knobs, as a function in Python, as JSON or as text.

A template is a function from values of its knobs to a schedule.
"""

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from math import prod
from types import CodeType
from typing import Any, Final, Protocol, cast

from ansorpy.errors import SpecError, quoted, shown
from ansorpy.frontends.json.strict import parse_json
from ansorpy.schedule.builder import StagedSchedule, StageSchedule, create_schedule
from ansorpy.schedule.knobs import MAX_KNOBS, Knob, Value, order_knob, split_knob
from ansorpy.schedule.schedule import MAX_STEPS, Schedule, read_schedule
from ansorpy.state.state import State
from ansorpy.te.dag import Dag
from ansorpy.te.tensor import Tensor

Values = Mapping[str, Value]
KEYS: Final = ("knobs", "steps", "sizes", "pack")
MAX_DEPTH: Final = 8  # levels of a document: a case has a list of steps of operands of values
SHOWN: Final = 64  # loops that a message lists
SPLIT_KEYS: Final = ("split", "num_outputs", "policy", "max_factor", "candidates")
_KNOB_LINE: Final = re.compile(r"knob\s+(\w+)\s*=\s*(\{.*\}|\[.*\])")
_CASE: Final = re.compile(r"if\s+(\w+)\s*=([^:]*):\s*(.*)")
_USE: Final = re.compile(r"\$(\w+)")


class Template(Protocol):
    """A schedule with knobs."""

    def knobs(self, dag: Dag) -> tuple[Knob, ...]:
        """Return the knobs; SpecError if they do not fit the Dag."""
        ...

    def schedule(self, dag: Dag, values: Values) -> Schedule:
        """Return the schedule of some values; SpecError if there is none."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Return the JSON form."""
        ...


@dataclass(frozen=True, slots=True)
class FunctionTemplate:
    """A template in Python: a function of a schedule, to which it adds steps, and of knobs."""

    function: Callable[[StagedSchedule, "Config"], object]

    def knobs(self, dag: Dag) -> tuple[Knob, ...]:
        """Return the knobs that the function defines."""
        config = Config({})
        self.function(create_schedule(dag), config)
        return tuple(config.defined.values())

    def schedule(self, dag: Dag, values: Values) -> Schedule:
        """Return the schedule that the function writes with some values."""
        staged = create_schedule(dag)
        self.function(staged, Config(values))
        return staged.schedule

    def to_json(self) -> dict[str, Any]:
        """Return the identity of the function, no template elsewhere: code is never sent."""
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        code = getattr(self.function, "__code__", None)
        told = json.dumps(_code(code)) if isinstance(code, CodeType) else ""
        return {"function": name, "code": sha256(told.encode()).hexdigest()[:12]}


def _code(code: CodeType) -> list[Any]:
    """Return the instructions, names and constants of a function, without its place in a file."""
    constants = (_code(c) if isinstance(c, CodeType) else repr(c) for c in code.co_consts)
    return [code.co_code.hex(), code.co_names, list(constants)]


@dataclass(slots=True)
class Config:
    """The knobs of a template in Python, and their values in one schedule."""

    values: Values
    defined: dict[str, Knob] = field(default_factory=dict)

    def define_split(
        self,
        name: str,
        loop: Any,
        num_outputs: int,
        policy: str = "factors",
        max_factor: int | None = None,
        candidates: tuple[tuple[int, ...], ...] = (),
    ) -> None:
        """Define the knob of a split (`split_knob`); `loop` is a whole loop, or an extent."""
        extent = loop if isinstance(loop, int) else getattr(loop, "extent", 0)
        if extent < 1:
            raise SpecError(
                f"cannot define the knob {name} because {quoted(loop)} has no extent; expected a"
                " loop that is not divided, or an integer"
            )
        self._define(split_knob(name, extent, num_outputs, policy, max_factor, candidates))

    def define_reorder(
        self,
        name: str,
        loops: tuple[str, ...] | list[str],
        candidates: list[list[str]] | None = None,
    ) -> None:
        """Define the knob of an order of loops: all permutations unless candidates are given."""
        self._define(order_knob(name, loops, candidates))

    def define_knob(self, name: str, candidates: list[Any] | tuple[Any, ...]) -> None:
        """Define a knob of values of your own: numbers, switches or words."""
        self._define(Knob(name, tuple(candidates)))

    def _define(self, knob: Knob) -> None:
        if knob.name in self.defined:
            raise SpecError(
                f"cannot define the knob {knob.name} a second time; expected another name"
            )
        self.defined[knob.name] = knob

    def __getitem__(self, name: str) -> "KnobValue":
        """Return the value of a knob; SpecError if it is not defined."""
        if name not in self.defined:
            raise SpecError(
                f"cannot read the knob {name!r} because it is not defined; expected"
                f" {', '.join(self.defined) or 'a definition before'}"
            )
        knob = self.defined[name]
        value = self.values.get(name, knob.values[0])
        if value not in knob.values:
            raise SpecError(
                f"cannot set the knob {name} to {quoted(value)}; expected one of its"
                f" {len(knob.values)} values"
            )
        return KnobValue(name, value)


@dataclass(frozen=True, slots=True)
class KnobValue:
    """The value `val` of a knob in one schedule."""

    name: str
    val: Value

    @property
    def number(self) -> int:
        """The value of a knob of numbers; SpecError for another value."""
        if isinstance(self.val, int):
            return self.val
        raise SpecError(
            f"cannot take the knob {self.name} as a number because its value is"
            f" {quoted(self.val)}; expected a knob of numbers"
        )

    @property
    def size(self) -> tuple[int, ...]:
        """The lengths of a split, outer part first; -1 for the outermost."""
        return (-1, *self._lengths())

    def apply(
        self, schedule: StagedSchedule, stage: Tensor | StageSchedule | str, *loops: Any
    ) -> tuple[str, ...]:
        """Split the loop, or put loops into the order; return the loops."""
        own = stage if isinstance(stage, StageSchedule) else schedule[stage]
        if isinstance(self.val, tuple) and all(isinstance(one, str) for one in self.val):
            order = tuple(map(str, self.val))
            own.reorder(*order)
            return order
        (loop,) = loops
        return own.split(loop, *self._lengths())

    def _lengths(self) -> tuple[int, ...]:
        if isinstance(self.val, tuple) and all(isinstance(one, int) for one in self.val):
            return cast(tuple[int, ...], self.val)
        raise SpecError(
            f"cannot split by the knob {self.name} because its value is {quoted(self.val)};"
            " expected a knob of define_split"
        )


@dataclass(frozen=True)
class DocumentTemplate:
    """A template as JSON: a schedule in which `{"knob": NAME}` stands for a value."""

    document: Mapping[str, Any]

    def knobs(self, dag: Dag) -> tuple[Knob, ...]:
        """Return the knobs of the document."""
        return tuple(read_knob(dag, name, knob) for name, knob in self.document["knobs"].items())

    def schedule(self, dag: Dag, values: Values) -> Schedule:
        """Return the schedule with the values in their places."""
        steps: list[Any] = []
        for step in self.document["steps"]:
            if not isinstance(step, dict):
                steps.append(_filled(step, values))
            elif all(_value(values, name) == wanted for name, wanted in step["if"].items()):
                steps += _filled(step["steps"], values)
        rest = {key: _filled(self.document.get(key, {}), values) for key in KEYS[2:]}
        return read_schedule({"steps": steps, **rest})

    def to_json(self) -> dict[str, Any]:
        """Return the document."""
        return dict(self.document)


@dataclass(frozen=True)
class TextTemplate:
    """A template as text: lines of a schedule in which `$NAME` stands for the value of a knob.

    knob tile = {"split": "C.y", "num_outputs": 2}
    knob packs = [0, 1]
    yo, yi = C.split(y, inner=$tile)
    if packs = 1: C.pack(B)
    """

    text: str
    documents: Mapping[str, Any]  # the knobs as JSON
    lines: tuple[str, ...]  # lines of the schedule

    def knobs(self, dag: Dag) -> tuple[Knob, ...]:
        """Return the knobs of the lines `knob NAME = ...`."""
        return tuple(read_knob(dag, name, knob) for name, knob in self.documents.items())

    def schedule(self, dag: Dag, values: Values) -> Schedule:
        """Return the schedule with the values in their places."""
        kept = []
        for line in self.lines:
            case = _CASE.fullmatch(line)
            if case is None:
                kept.append(line)
            elif _as_text(_value(values, case[1])) == case[2].strip():
                kept.append(case[3])
        return read_schedule(
            "\n".join(_USE.sub(lambda use: _as_text(_value(values, use[1])), line) for line in kept)
        )

    def to_json(self) -> dict[str, Any]:
        """Return the text as a field."""
        return {"text": self.text}


def read_template(given: object) -> Template:
    """Return a template from a function, JSON (a mapping or a text), or lines of text.

    Raises:
        SpecError: names the field or the line.
    """
    match given:
        case FunctionTemplate() | DocumentTemplate() | TextTemplate():
            return given
        case Mapping():
            document = cast(Mapping[str, Any], given)
            text = document.get("text") if len(document) == 1 else None
            return _from_text(text) if isinstance(text, str) else _from_json(document)
        case str() if given.lstrip().startswith("{"):
            try:
                return read_template(parse_json(given))
            except ValueError as error:
                raise SpecError(f"cannot read the template because of its JSON: {error}") from error
        case str():
            return _from_text(given)
        case _ if callable(given):
            return FunctionTemplate(given)
        case _:
            raise SpecError(
                f"cannot read a template from {type(given).__name__}; expected a function, an"
                " object with knobs and steps, or text"
            )


def _from_json(obj: Mapping[str, Any]) -> DocumentTemplate:
    for key in obj:
        if key not in KEYS:
            raise SpecError(
                f"cannot read the field {quoted(key)} of a template; expected {', '.join(KEYS)}"
            )
    if _depth(obj) > MAX_DEPTH:
        raise SpecError(f"cannot read a template nested so deep; expected {MAX_DEPTH} levels")
    steps = obj.get("steps")
    if not isinstance(steps, list) or len(steps) > MAX_STEPS:
        raise SpecError(
            f"cannot read the steps of a template; expected a list of at most {MAX_STEPS} steps"
        )
    for number, step in enumerate(steps, start=1):
        good = isinstance(step, list) or (
            isinstance(step, dict)
            and set(step) == {"if", "steps"}
            and isinstance(step["if"], dict)
            and isinstance(step["steps"], list)
        )
        if not good:
            raise SpecError(
                f"cannot read step {number} of the template; expected a list, or an object with"
                " if and steps"
            )
    _check_knobs(obj.get("knobs"))
    return DocumentTemplate(obj)


def _depth(obj: object) -> int:
    """Return the number of levels of a document, at most `MAX_DEPTH` + 1."""
    level: list[object] = [obj]
    for depth in range(MAX_DEPTH + 1):
        inner = [list(one.values()) if isinstance(one, dict) else one for one in level]
        level = [part for one in inner if isinstance(one, list) for part in one]
        if not level:
            return depth
    return MAX_DEPTH + 1


def _from_text(text: str) -> TextTemplate:
    knobs: dict[str, Any] = {}
    lines = []
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.partition("#")[0].strip()
        if not line.startswith("knob "):
            lines.append(line)  # an empty one keeps the numbers of lines in messages
            continue
        found = _KNOB_LINE.fullmatch(line)
        try:
            knobs[found[1] if found else ""] = parse_json(found[2] if found else "")
        except ValueError as error:
            raise SpecError(
                f"cannot read line {number} of the template; expected knob NAME = [VALUE, ...] or"
                ' knob NAME = {"split": "C.y", "num_outputs": 2}'
            ) from error
        lines.append("")
    _check_knobs(knobs)
    return TextTemplate(text, knobs, tuple(lines))


def _check_knobs(knobs: object) -> None:
    if not isinstance(knobs, dict) or not 1 <= len(knobs) <= MAX_KNOBS:
        raise SpecError(
            f"cannot read the knobs of a template; expected an object of 1 to {MAX_KNOBS} names"
        )
    if not all(isinstance(one, dict | list) for one in knobs.values()):
        raise SpecError(
            "cannot read the knobs of a template; expected a list of values or a split for each"
        )


def read_knob(dag: Dag, name: str, document: Any) -> Knob:
    """Return a knob from its JSON: a list of values, or an object with the loop of a split.

    Raises:
        SpecError: names the knob and the field.
    """
    if isinstance(document, list):
        return Knob(name, tuple(_read_value(name, one) for one in document))
    for key in document:
        if key not in SPLIT_KEYS:
            raise SpecError(
                f"cannot read the field {quoted(key)} of the knob {name}; expected"
                f" {', '.join(SPLIT_KEYS)}"
            )
    numbers = {key: document[key] for key in ("num_outputs", "max_factor") if key in document}
    candidates = document.get("candidates", [])
    good = (
        isinstance(document.get("split"), str)
        and isinstance(document.get("policy", ""), str)
        and type(document.get("num_outputs")) is int
        and all(type(one) is int for one in numbers.values())
        and isinstance(candidates, list)
        and all(isinstance(one, list) for one in candidates)
        and all(type(part) is int for one in candidates for part in one)
    )
    if not good:
        raise SpecError(
            f'cannot read the knob {name}; expected {{"split": "STAGE.LOOP", "num_outputs": 2}}'
        )
    return split_knob(
        name,
        _extent(dag, name, document["split"]),
        document["num_outputs"],
        document.get("policy", "factors"),
        document.get("max_factor"),
        candidates,
    )


def _extent(dag: Dag, name: str, place: str) -> int:
    """Return the extent of a loop `STAGE.LOOP`, whole or fused of whole loops, each once."""
    stage, _, loop = place.rpartition(".")
    state = State.naive(dag)
    known = (
        {one.name: one.extent for one in state.stage(stage).loops} if stage in state.index else {}
    )
    parts = loop.split("@")
    whole = [extent for part in parts if (extent := known.get(part)) is not None]
    if len(whole) < len(parts):
        places = (f"{s.name}.{one.name}" for s in state.stages for one in s.loops)
        raise SpecError(
            f"cannot split by the knob {name} because {quoted(place)} is no loop; expected"
            f" {shown(', '.join(islice(places, SHOWN)), 1000)}"
        )
    if len(set(parts)) < len(parts):
        raise SpecError(
            f"cannot split by the knob {name} because {quoted(place)} names a loop twice; expected"
            " each loop once"
        )
    return prod(whole)


def _read_value(name: str, value: Any) -> Value:
    match value:
        case bool() | int() | str():
            return value
        case list() if value and all(type(one) is int for one in value):
            return tuple(value)
        case list() if value and all(isinstance(one, str) for one in value):
            return tuple(value)
        case _:
            raise SpecError(
                f"cannot give the knob {name} the value {quoted(value)}; expected a number, true or"
                " false, a word, or a list of numbers or of words"
            )


def _value(values: Values, name: str) -> Value:
    if name not in values:
        raise SpecError(
            f"cannot use the knob {quoted(name)} because it is not defined; expected"
            f" {', '.join(values)}"
        )
    return values[name]


def _filled(part: Any, values: Values) -> Any:
    """Return a part of a document with values in the places of knobs."""
    if isinstance(part, dict):
        if set(part) == {"knob"}:
            found = _value(values, part["knob"])
            return list(found) if isinstance(found, tuple) else found
        return {key: _filled(one, values) for key, one in part.items()}
    return [_filled(one, values) for one in part] if isinstance(part, list) else part


def _as_text(value: Value) -> str:
    """Return a value as it stands in a text: `[8, 4]`, `y.0, k, y.1`, `16`, `true`."""
    match value:
        case tuple() if all(isinstance(one, str) for one in value):
            return ", ".join(map(str, value))
        case tuple():
            return json.dumps(list(value))
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)
