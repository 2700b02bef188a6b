"""What a trial leaves behind, and the stores that keep it.

A record holds what is needed to replay a trial (workload, rule set, plan identity, row) and to
trust it (target features, versions, every sample, the error text). Stores are append-only.
"""

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from platformdirs import user_data_path

from ansorpy.errors import RecordError
from ansorpy.measure.outcome import Failed, Measured, Outcome
from ansorpy.target import Target

FORMAT = 1  # of one JSONL line


def task_key(workload: str, target: Target) -> str:
    """Return the key under which trials of one workload on one kind of machine compare.

    Hardware features, cache sizes and the threads of the kernel count; the marketing name of the
    processor does not.

    Args:
        workload: hex digest of the normalised Dag (`te.analysis.workload_key`).
    """
    return f"{workload}/{target_digest(target)}/{target.cores}"


def target_digest(target: Target) -> str:
    """Return the digest of what makes a machine another one for measuring; threads do not count."""
    cpu_facts = (target.vector_bits, target.registers, target.l1_bytes, target.l2_bytes)
    cuda_facts = (target.warp, target.max_threads, target.shared_bytes)
    facts = (target.kind, cpu_facts if target.kind == "cpu" else cuda_facts, target.features)
    return sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Race:
    """The interleaved final of a task: the tuned kernel against the untuned one and NumPy.

    All times in seconds, all samples kept. `request` is the digest of what was asked for, so that
    the same request is answered from the store.
    """

    winner: str  # "tuned" or "baseline"
    delivered: str  # "tuned" or "naive": the faster of our two kernels
    tuned_s: tuple[float, ...]
    naive_s: tuple[float, ...]
    numpy_s: tuple[float, ...]  # () where NumPy has no call per node
    span: tuple[float, float]  # of the float inputs that the self-test draws
    tolerances: tuple[float, ...]  # absolute error bound on such inputs, one per output array
    magnitude: int  # of integer inputs on which every step is exact; 0: none
    trials: int
    seconds: float
    request: str
    native_sha256: str = ""  # of the exported object that passed every case; "": none did
    native_s: tuple[float, ...] = ()  # of a call of its library
    native_note: str = ""  # why there is none
    reformulated: str = ""  # what is computed another way (ADR-0035), for people; "": nothing
    errors: tuple[float, ...] = ()  # seen on random inputs, one per output array
    flop: int = 0  # operations that the delivered kernel executes; 0: not known
    peak_flop_per_s: float = 0.0  # what no kernel of the task exceeds; 0.0: not known
    numpy_note: str = ""  # why NumPy's evaluation left the race; "": it did not

    @property
    def best_s(self) -> float:
        """The latency of what is delivered."""
        return min(self.delivered_s)

    @property
    def delivered_s(self) -> tuple[float, ...]:
        """The samples of what is delivered."""
        return self.tuned_s if self.delivered == "tuned" else self.naive_s

    @property
    def baseline_s(self) -> float | None:
        """The faster of the untuned kernel and NumPy; None where neither came to an end."""
        return min((*self.naive_s, *self.numpy_s), default=None)


@dataclass(frozen=True, slots=True)
class Record:
    """One trial: what was run, where, and what came out. `id` is the digest of all the rest."""

    key: str  # task_key
    workload: str
    rules: str  # name and version of the rule set, e.g. "cpu@1f3a..."
    plan: str  # canonical JSON: steps of the sketch and structural choices (ansorpy.replay)
    row: tuple[int, ...]  # one value per size of the plan
    outcome: Outcome
    source_sha256: str = ""  # of the kernel source; "" where none was made
    versions: tuple[tuple[str, str], ...] = ()
    created_s: float = 0.0  # seconds since the epoch
    race: Race | None = None  # only on the record that ends a tuning

    @property
    def id(self) -> str:
        """Return the sha256 of the canonical JSON: equal records have equal ids."""
        return sha256(encode(self).encode()).hexdigest()

    @property
    def best_s(self) -> float | None:
        """The fastest sample in seconds, as measured; None after a failure."""
        return self.outcome.best_s if isinstance(self.outcome, Measured) else None


class Store(Protocol):
    """Append-only. An appended record survives a crash; the same record twice is kept once."""

    def append(self, records: Sequence[Record]) -> None:
        """Keep `records`, all of them or (after a crash) a prefix."""
        ...

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task, oldest first."""
        ...

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task (races do not count), or None."""
        ...

    def count(self, key: str | None = None) -> int:
        """Return the number of records, of one task or of all."""
        ...

    def export(self) -> Iterator[Record]:
        """Yield every record, oldest first."""
        ...


def best_of(records: Iterable[Record]) -> Record | None:
    """Return the fastest complete trial, the earliest of equals; None where none has a time."""
    timed = [
        record
        for record in records
        if isinstance(record.outcome, Measured)
        and not record.outcome.aborted
        and record.race is None
    ]
    return min(timed, key=lambda record: record.best_s or 0.0, default=None)


class MemoryStore:
    """Records of this process only: for tests, and for searches that must not know the past."""

    def __init__(self) -> None:
        self._records: dict[str, Record] = {}

    def append(self, records: Sequence[Record]) -> None:
        """Keep `records` until the process ends."""
        self._records.update((record.id, record) for record in records)

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task, oldest first."""
        return tuple(record for record in self._records.values() if record.key == key)

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task, or None."""
        return best_of(self.all(key))

    def count(self, key: str | None = None) -> int:
        """Return the number of records, of one task or of all."""
        return len(self._records) if key is None else len(self.all(key))

    def export(self) -> Iterator[Record]:
        """Yield every record, oldest first."""
        yield from self._records.values()


class JsonlStore(MemoryStore):
    """One JSON object per line, flushed to disk before `append` returns.

    Several processes may append to one file (an advisory lock orders them). A last line that was
    torn by a crash was never acknowledged: it is skipped on reading and cut off by the next
    append. A broken line anywhere else is a RecordError.
    """

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        if path.exists():
            whole = path.read_bytes().rpartition(b"\n")[0]
            super().append(tuple(import_jsonl(whole.decode().splitlines(), str(path))))

    def append(self, records: Sequence[Record]) -> None:
        """Write and fsync the records that are new."""
        new = {record.id: record for record in records if record.id not in self._records}
        if not new:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = "".join(encode(record) + "\n" for record in new.values()).encode()
        with open(self.path, "ab+", opener=_open_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _cut_torn_line(file)
            file.write(lines)
            file.flush()
            os.fsync(file.fileno())
        super().append(tuple(new.values()))


def _open_private(path: str, flags: int) -> int:
    """Open a file; a new one is readable for its user only."""
    return os.open(path, flags, mode=0o600)


def _cut_torn_line(file: BinaryIO) -> None:
    """Truncate `file` after its last newline."""
    size_bytes = end_bytes = file.seek(0, os.SEEK_END)
    while end_bytes > 0:
        start_bytes = max(0, end_bytes - 4096)
        file.seek(start_bytes)
        at = file.read(end_bytes - start_bytes).rfind(b"\n")
        if at >= 0:
            end_bytes = start_bytes + at + 1
            break
        end_bytes = start_bytes
    if end_bytes < size_bytes:
        file.truncate(end_bytes)


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
            raise RecordError(f"{place}, line {number}: {error}") from error


def encode(record: Record) -> str:
    """Return the canonical JSON of a record, one line, keys sorted."""
    obj = {
        "format": FORMAT,
        "key": record.key,
        "workload": record.workload,
        "rules": record.rules,
        "plan": record.plan,
        "row": list(record.row),
        "outcome": _outcome_to_json(record.outcome),
        "source_sha256": record.source_sha256,
        "versions": dict(record.versions),
        "created_s": record.created_s,
        "race": None if record.race is None else _race_to_json(record.race),
    }
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), allow_nan=False)


def decode(line: str) -> Record:
    """Return the record of one JSON line.

    Raises:
        RecordError: not JSON, another format, or a field is missing or of the wrong kind.
    """
    try:
        obj = json.loads(line)
        if obj["format"] != FORMAT:
            raise RecordError(f"format {obj['format']!r}, this version reads {FORMAT}")
        race = obj["race"]
        return Record(
            key=str(obj["key"]),
            workload=str(obj["workload"]),
            rules=str(obj["rules"]),
            plan=str(obj["plan"]),
            row=tuple(int(value) for value in obj["row"]),
            outcome=_outcome_from_json(obj["outcome"]),
            source_sha256=str(obj["source_sha256"]),
            versions=tuple(sorted(obj["versions"].items())),
            created_s=float(obj["created_s"]),
            race=None if race is None else _race_from_json(race),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RecordError(f"not a record: {type(error).__name__} {error}") from error


def default_store() -> JsonlStore:
    """Return the store in the user's data folder."""
    return JsonlStore(default_store_path())


def default_store_path() -> Path:
    """Return the file of the store in the user's data folder."""
    return user_data_path("ansorpy") / "records.jsonl"


def _fields(value: Measured | Failed | Race) -> dict[str, Any]:
    pairs = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in pairs.items()}


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Measured():
            fields = _fields(outcome)
            if outcome.slowdown == 1.0:
                del fields["slowdown"]  # older records have none, and keep their ids
            return {"is": "measured", **fields}
        case Failed():
            return {"is": "failed", **_fields(outcome)}


def _race_to_json(race: Race) -> dict[str, Any]:
    fields = _fields(race)
    for name in ("flop", "peak_flop_per_s", "numpy_note"):
        if not fields[name]:
            del fields[name]  # older records have none, and keep their ids
    return fields


def _outcome_from_json(obj: Mapping[str, Any]) -> Outcome:
    fields = {name: value for name, value in obj.items() if name != "is"}
    if obj["is"] == "measured":
        return Measured(**{**fields, "times_s": tuple(map(float, fields["times_s"]))})
    if obj["is"] == "failed":
        return Failed(**fields)
    raise RecordError(f"outcome {obj['is']!r}, expected measured or failed")


def _race_from_json(obj: Mapping[str, Any]) -> Race:
    arrays = ("tuned_s", "naive_s", "numpy_s", "span", "tolerances", "native_s", "errors")
    given = {name: tuple(map(float, obj[name])) for name in arrays if name in obj}
    return Race(**{**obj, **given})
