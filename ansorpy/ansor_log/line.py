"""One line of a log of the released Ansor, parsed strictly.

A line is a JSON object: `i` = [task, state], `r` = [times, error number, seconds, UNIX time], `v`
= version of the format. A task = [workload key, target, hardware parameters, host, layout option,
names of inputs], of which versions before 0.6 write fewer. A state = [[], steps]. A step is a
list: its code, the number of its stage, its operands.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from ansorpy.errors import RecordError, quoted
from ansorpy.frontends.json.strict import parse_json
from ansorpy.records import MAX_LINE_BYTES, fields

VERSIONS: Final = ("v0.1", "v0.2", "v0.3", "v0.4", "v0.5", "v0.6")
CPUS: Final = ("llvm", "c")  # kinds of targets that are a CPU
MAX_ID: Final = 4095  # largest number of a stage, an iterator or a step
MAX_EXTENT: Final = 2**31 - 1
MAX_SPLITS: Final = 16  # lengths of one split
MAX_STEPS: Final = 4096
MAX_TEXT: Final = 4096  # characters of a key, a target or the name of an input
MAX_TIME_S: Final = 1e11
MARKS: Final = (
    "", "unroll", "vectorize", "parallel", "vthread", "blockIdx.x", "threadIdx.x", "blockIdx.y",
    "threadIdx.y", "blockIdx.z", "threadIdx.z", "tensorize",
)  # fmt: skip

Argument = int | float | str | tuple["Argument", ...]


@dataclass(frozen=True, slots=True)
class LogStep:
    """A step: its code, the number of its stage, and the operands that its code asks for."""

    code: str
    stage: int
    operands: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.code} of stage {self.stage}"


@dataclass(frozen=True, slots=True)
class LogLine:
    """One measurement: a task, the steps of its schedule, and the result."""

    name: str  # name of a function, or digest of a Dag without shapes
    arguments: tuple[Argument, ...]  # operands of the function, or extents of inputs and outputs
    target: str  # kind of the target: "llvm", "cuda"
    steps: tuple[LogStep, ...]
    times_s: tuple[float, ...]
    error: int  # 0 if the program ran
    created_s: float  # seconds since the epoch
    version: str

    @property
    def is_digest(self) -> bool:
        """Return whether the key names a Dag by a digest, and not a function."""
        return len(self.name) == 32 and all(c in "0123456789abcdef" for c in self.name)


def parse_line(text: str) -> LogLine:
    """Return the measurement of one line.

    Raises:
        RecordError: the line is not of this format; names the field and the expected value.
    """
    if len(text) > MAX_LINE_BYTES:
        raise RecordError(f"cannot read {len(text)} characters; expected {MAX_LINE_BYTES} at most")
    try:
        found = parse_json(text)
    except ValueError as error:
        raise RecordError(
            f"cannot read the line because it is no JSON ({str(error)[:100]}); expected an object"
        ) from None
    if not isinstance(found, dict) or found.keys() != {"i", "r", "v"}:
        names = sorted(found) if isinstance(found, dict) else found
        raise RecordError(
            f"cannot read the line because it is {quoted(names)}; expected the fields i, r, v"
        )
    version = _field("v", fields.word(*VERSIONS), found["v"])
    task, state = _field("i", fields.list_of(_any, 2, 2), found["i"])
    times_s, failure, _, created_s = _items("r", found["r"], RESULT)
    name, arguments, target = _task(task)
    return LogLine(name, arguments, target, _steps(state), times_s, failure, created_s, version)


def _any(value: object) -> object:
    return value


def _field(place: str, read: fields.Read, value: object) -> Any:
    """Return the value of a field; RecordError names its place and the expectation."""
    try:
        return read(value)
    except ValueError as error:
        raise RecordError(
            f"cannot read {place} because it is {quoted(value)}; expected {error}"
        ) from None


def _items(
    place: str, value: object, table: Mapping[str, fields.Read], least: int | None = None
) -> list[Any]:
    """Return the items of a list that has one reader per item, the last of which may be absent."""
    least = len(table) if least is None else least
    found = _field(place, fields.list_of(_any, least, len(table)), value)
    rows = zip(table.items(), found, strict=False)
    return [_field(f"{place}, {name}", read, item) for (name, read), item in rows]


def _task(value: object) -> tuple[str, tuple[Argument, ...], str]:
    key, target, *_ = _items("task", value, TASK, least=2)
    try:
        parts = parse_json(key)
    except ValueError:
        parts = None
    if not isinstance(parts, list) or not parts or not isinstance(parts[0], str):
        raise RecordError(
            f"cannot read the workload key {quoted(key)}; expected the JSON of a list that begins"
            " with a name"
        )
    return parts[0], tuple(_field("workload key", _argument, part) for part in parts[1:]), target


def _argument(value: object) -> Argument:
    if type(value) in (int, float, str):
        return value  # type: ignore[return-value]
    if isinstance(value, list):
        return tuple(map(_argument, value))
    raise ValueError("numbers, texts and lists of them")


def _target(value: object) -> str:
    """Return the kind of a target, which is written as options or as JSON."""
    text: str = fields.text(MAX_TEXT)(value)
    if text.startswith("{"):
        found = parse_json(text)
        text = str(found.get("kind", ""))
    kind = text.split(" ", 1)[0]
    if not kind.isalnum():
        raise ValueError("a target that begins with its kind, such as llvm")
    return kind


def _steps(value: object) -> tuple[LogStep, ...]:
    stages, steps = _field("state", fields.list_of(_any, 2, 2), value)
    if stages != []:
        raise RecordError(f"cannot read state because its stages are {quoted(stages)}; expected []")
    found = _field("steps", fields.list_of(_any, 0, MAX_STEPS), steps)
    return tuple(_step(number, step) for number, step in enumerate(found))


def _step(number: int, value: object) -> LogStep:
    place = f"step {number}"
    code = value[0] if isinstance(value, list) and value else None
    if not isinstance(code, str) or code not in STEPS:
        raise RecordError(
            f"cannot read {place} because it is {quoted(value)}; expected a list that begins with"
            f" one of {', '.join(STEPS)}"
        )
    table = {"code": _any, "stage": _ID, **STEPS[code]}
    _, stage, *operands = _items(f"{place} ({code})", value, table)
    return LogStep(code, stage, tuple(operands))


def _truth(value: object) -> bool:
    if value in (0, 1) and isinstance(value, int):
        return bool(value)
    raise ValueError("0 or 1")


_ID: Final = fields.integer(0, MAX_ID)
_IDS: Final = fields.list_of(_ID)
_EXTENT: Final = fields.integer(0, MAX_EXTENT)  # 0 for an extent that is no constant
_LENGTH: Final = fields.integer(0, MAX_EXTENT)
_NAME: Final = fields.text(MAX_TEXT)

TASK: Final[Mapping[str, fields.Read]] = {
    "workload key": _NAME,
    "target": _target,
    "hardware parameters": fields.list_of(fields.integer(-1, 2**53), 8, 8),
    "host": _NAME,
    "layout option": fields.integer(0, 2),
    "inputs": fields.list_of(_NAME),
}
RESULT: Final[Mapping[str, fields.Read]] = {
    "times": fields.list_of(fields.number(0.0, 1e30), least=1),
    "error number": fields.integer(0, 255),
    "seconds": fields.number(0.0, 1e30),
    "time": fields.number(0.0, MAX_TIME_S),
}
STEPS: Final[Mapping[str, Mapping[str, fields.Read]]] = {
    "SP": {
        "iterator": _ID,
        "extent": _EXTENT,
        "lengths": fields.list_of(_LENGTH, 1, MAX_SPLITS),
        "order": _truth,
    },
    "FSP": {"iterator": _ID, "source": _ID, "splits": fields.integer(1, MAX_SPLITS)},
    "FFSP": {
        "iterator": _ID,
        "sources": _IDS,
        "level": fields.integer(0, MAX_SPLITS),
        "factor": _truth,
    },
    "RE": {"order": _IDS},
    "FU": {"iterators": _IDS},
    "AN": {"iterator": _ID, "annotation": fields.integer(0, len(MARKS) - 1)},
    "PR": {"iterator": _ID, "pragma": _NAME},
    "CA": {"host": _ID, "iterator": _ID},
    "CI": {},
    "CR": {},
    "CHR": {"scope": fields.word("shared", "local", "global"), "readers": _IDS},
    "CHW": {"scope": fields.word("shared", "local", "global")},
    "RF": {"iterator": _ID, "position": _ID},
    "SA": {
        "iterator": _ID,
        "factor": fields.integer(1, MAX_EXTENT),
        "offset": fields.integer(0, MAX_EXTENT),
    },
}
