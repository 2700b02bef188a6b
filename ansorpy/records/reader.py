"""Records from outside, read strictly: every field has a type, a range and a length.

A field that is refused makes the line a RecordError, which names the field. Unknown fields
of a line are ignored, unknown fields of an outcome or a race are refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Final, TextIO, get_args

from ansorpy.errors import RecordError, quoted
from ansorpy.frontends.json.strict import parse_json
from ansorpy.measure.outcome import Estimated, FailureKind, Measured, Outcome
from ansorpy.measure.outcome import Failed as Failure
from ansorpy.records import fields
from ansorpy.records.record import FORMAT, MAX_DAG, Race, RacedOwn, Record, SizeTimes
from ansorpy.te.dims import MOST_DIMS
from ansorpy.te.limits import LIMITS

MAX_LINE_BYTES: Final = 2**20  # about 100 times the size of a trial of a large Dag
MAX_TEXT: Final = 2**16  # characters of a message
MAX_PLAN: Final = 2**18  # characters of a plan
MAX_VERSIONS: Final = 32  # packages whose version a record names
MAX_OWN: Final = 64  # kernels of the user's own in a race
MAX_PARTS: Final = 16  # parts of an estimate
MAX_SIZES: Final = 64  # sizes at which a delivered kernel was timed

# Seconds, both ends included: shorter or longer times are no measurement.
SHORTEST_S: Final = 1e-12
LONGEST_S: Final = 1e9
MAX_CREATED_S: Final = 1e11  # seconds since the epoch: the year 5138
MAX_SLOWDOWN: Final = 1e9
MAX_FLOAT: Final = 1.7e308  # bounds of inputs and errors, which may be float64

Table = Mapping[str, fields.Read]


def decode(line: str) -> Record:
    """Return the record of one JSON line; its origin is `imported` in any case.

    Raises:
        RecordError: not JSON, another format, or a field that is missing or refused.
    """
    if len(line) > MAX_LINE_BYTES:
        raise RecordError(f"not a record: {len(line)} characters, limit {MAX_LINE_BYTES}")
    try:
        document = parse_json(line)
    except ValueError as error:
        raise RecordError(f"not a record: {str(error)[:200]}") from None
    if not isinstance(document, dict):
        raise RecordError("not a record: expected an object")
    if document.get("format") != FORMAT:
        raise RecordError(f"format {quoted(document.get('format'))}, this version reads {FORMAT}")
    known = {name: document[name] for name in RECORD if name in document}
    return Record(**_fields(known, RECORD, LATER))


def import_jsonl(lines: Iterable[str], place: str = "input") -> Iterator[Record]:
    """Yield the records of JSONL lines; blank lines are skipped.

    Raises:
        RecordError: a line is not a record; the message names `place` and the line number.
    """
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            yield decode(line)
        except RecordError as error:
            message = f"{place}, line {number}: {error}"
            raise RecordError(message, error.field, error.expected) from error


def lines_of(file: TextIO) -> Iterator[str]:
    """Yield the lines of a file; a line that is too long is cut just beyond the limit."""
    return iter(lambda: file.readline(MAX_LINE_BYTES + 1), "")


def _fields(
    document: object, table: Table, optional: frozenset[str] = frozenset()
) -> dict[str, Any]:
    """Return the fields of an object, each as its reader returns it.

    Raises:
        RecordError: names the missing, unknown or refused field, and the expected value.
    """
    if not isinstance(document, dict):
        raise RecordError(f"not a record: {quoted(document)}, expected an object")
    for name in chain(table.keys() - document.keys() - optional, document.keys() - table.keys()):
        state = "is missing" if name in table else "is not known"
        known = name if name in table else ""
        raise RecordError(f"not a record: field {quoted(name)} {state}", known, "a value")
    read = {}
    for name, value in document.items():
        try:
            read[name] = table[name](value)
        except ValueError as error:
            raise RecordError(
                f"not a record: {name} is {quoted(value)}, expected {error}", name, str(error)
            ) from None
    return read


def _span(value: object) -> tuple[float, float]:
    low, high = fields.list_of(fields.number(-MAX_FLOAT, MAX_FLOAT), 2, 2)(value)
    if low > high:
        raise ValueError("its lower end first")
    return low, high


def _versions(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, dict) or len(value) > MAX_VERSIONS:
        raise ValueError(f"an object of at most {MAX_VERSIONS} names")
    return tuple(
        sorted((fields.name(name), fields.name(version)) for name, version in value.items())
    )


def _parts(value: object) -> tuple[tuple[str, float], ...]:
    if not isinstance(value, dict) or len(value) > MAX_PARTS:
        raise ValueError(f"an object of at most {MAX_PARTS} names")
    return tuple((fields.name(name), _SECONDS(seconds)) for name, seconds in sorted(value.items()))


def _chosen(value: object) -> tuple[tuple[str, str, str], ...]:
    if not isinstance(value, dict) or len(value) > MAX_PARTS:
        raise ValueError(f"an object of at most {MAX_PARTS} options")
    named = ((option, _fields(part, PART, frozenset())) for option, part in sorted(value.items()))
    return tuple((fields.name(option), part["name"], part["package"]) for option, part in named)


def _outcome(value: object) -> Outcome:
    parts = dict(value) if isinstance(value, dict) else {}
    match parts.pop("is", None):
        case "measured":
            return Measured(**_fields(parts, OUTCOME_MEASURED, OPTIONAL))
        case "estimated":
            return Estimated(**_fields(parts, OUTCOME_ESTIMATED, frozenset({"build_s"})))
        case "failed":
            return Failure(**_fields(parts, OUTCOME_FAILED, OPTIONAL))
        case _:
            raise ValueError("an outcome that is measured, estimated or failed")


def _race(value: object) -> Race | None:
    if value is None:
        return None
    race = Race(**_fields(value, RACE, OPTIONAL))
    if not race.delivered_s:
        raise ValueError("samples of what it delivered")
    return race


def _own(value: object) -> RacedOwn:
    return RacedOwn(**_fields(value, RACED_OWN, OPTIONAL))


def _size(value: object) -> SizeTimes:
    return SizeTimes(**_fields(value, SIZE_TIMES))


_SECONDS: Final = fields.number(0.0, LONGEST_S)
_TIME: Final = fields.number(SHORTEST_S, LONGEST_S)
_BOUND: Final = fields.number(0.0, MAX_FLOAT)
_MESSAGE: Final = fields.text(MAX_TEXT)

# Fields that records of earlier versions lack.
OPTIONAL: Final = frozenset(
    {
        "build_s", "check_s", "run_s", "load_s", "aborted", "slowdown", "excerpt", "seconds",
        "native_sha256", "native_s", "native_note", "reformulated", "errors", "flop",
        "peak_flop_per_s", "numpy_note", "own", "peers", "note",
        "by_size",
    }
)  # fmt: skip

OUTCOME_MEASURED: Final[Table] = {
    "times_s": fields.list_of(_TIME, least=1),
    "build_s": _SECONDS,
    "check_s": _SECONDS,
    "run_s": _SECONDS,
    "load_s": _SECONDS,
    "aborted": fields.flag,
    "slowdown": fields.number(1 / MAX_SLOWDOWN, MAX_SLOWDOWN),
}
OUTCOME_ESTIMATED: Final[Table] = {
    "seconds": _TIME,
    "parts": _parts,
    "registers": fields.whole,
    "assembled": fields.flag,
    "build_s": _SECONDS,
}
OUTCOME_FAILED: Final[Table] = {
    "kind": fields.word(*get_args(FailureKind)),
    "message": _MESSAGE,
    "excerpt": _MESSAGE,
    "seconds": _SECONDS,
}
RACED_OWN: Final[Table] = {
    "name": fields.name,
    "times_s": fields.list_of(_TIME),
    "note": _MESSAGE,
}
SIZE_TIMES: Final[Table] = {
    "sizes": fields.list_of(fields.integer(1, LIMITS.extent), 1, MOST_DIMS),
    "times_s": fields.list_of(_TIME, 1, 2),
}
RACE: Final[Table] = {
    "winner": fields.word("tuned", "baseline", "own"),
    "delivered": fields.word("tuned", "naive"),
    "tuned_s": fields.list_of(_TIME),
    "naive_s": fields.list_of(_TIME),
    "numpy_s": fields.list_of(_TIME),
    "span": _span,
    "tolerances": fields.list_of(_BOUND, least=1),
    "magnitude": fields.whole,
    "trials": fields.whole,
    "seconds": _SECONDS,
    "request": fields.name,
    "native_sha256": fields.name,
    "native_s": fields.list_of(_TIME),
    "native_note": _MESSAGE,
    "reformulated": _MESSAGE,
    "errors": fields.list_of(_BOUND),
    "flop": fields.whole,
    "peak_flop_per_s": _BOUND,
    "numpy_note": _MESSAGE,
    "own": fields.list_of(_own, most=MAX_OWN),
    "peers": fields.list_of(_own, most=MAX_OWN),
    "slowdown": fields.number(1 / MAX_SLOWDOWN, MAX_SLOWDOWN),
    "by_size": fields.list_of(_size, most=MAX_SIZES),
}
PART: Final[Table] = {"name": fields.name, "package": fields.name}
RECORD: Final[Table] = {
    "key": fields.name,
    "workload": fields.name,
    "rules": fields.name,
    "plan": fields.text(MAX_PLAN),
    "row": fields.list_of(fields.whole),
    "outcome": _outcome,
    "source_sha256": fields.name,
    "versions": _versions,
    "created_s": fields.number(0.0, MAX_CREATED_S),
    "race": _race,
    "dag": fields.text(MAX_DAG),
    "structure": fields.name,
    "parts": _chosen,
}
LATER: Final = frozenset({"dag", "structure", "parts"})  # fields that earlier versions lack
