"""The record of a trial, as a value and as a line of JSON.

A record holds the facts to replay a trial (Dag, rule set, plan identity, row) and to trust it
(target features, versions, every sample, the error text).
"""

import json
import re
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Final, Literal, TypedDict

from ansorpy.errors import RecordError
from ansorpy.frontends.json.write import dumps
from ansorpy.measure.outcome import Estimated, Failed, Measured, Outcome
from ansorpy.target import Target
from ansorpy.te.analysis import structure_key
from ansorpy.te.dag import ConstantTensor, Dag

FORMAT: Final = 1  # version of the format of a JSONL line
MAX_DAG: Final = 2**17  # characters of the JSON of a Dag, of which constants may be megabytes

# In the key of trials whose weights came from memory, or from the last-level cache, at every call.
COLD: Final = "/cold"
COLD_IN_CACHE: Final = "/cold-l3"
COPIES: Final = re.compile(r"/copies([1-9][0-9]{0,3})(?=/|\Z)", re.ASCII)  # in a key (ADR-0166)

# `measured`: a tuner of this store wrote the record. `imported`: any other origin (ADR-0021).
Origin = Literal["measured", "imported"]
MEASURED: Final = "measured"
IMPORTED: Final = "imported"
ESTIMATED: Final = "/estimated"  # the end of the key of trials without a device (ADR-0143)
# Before the last part of the key of trials of another package's measuring back end (ADR-0156).
MEASURED_BY: Final = "/by-"


def task_key(
    workload: str,
    target: Target,
    cold_bytes: int = 0,
    estimated: bool = False,
    measured_by: str = "",
    copies: int = 1,
) -> str:
    """Return the key under which trials of one workload on one kind of machine compare.

    Hardware features, cache sizes and the threads of the kernel count; the marketing name of the
    processor does not.

    Args:
        workload: hex digest of the normalised Dag (`te.analysis.workload_key`).
        cold_bytes: size of the copies of the weights that timed calls go round; 0: hot weights.
            Times with weights from the last-level cache and from memory do not compare (ADR-0126).
        estimated: the trials are estimates, which compare with one another only.
        measured_by: name and package of the measuring back end whose times compare with one another
            only; "" for ours.
        copies: kernels that ran at once, one on each core: a time of several compares with times of
            as many only.
    """
    from_memory = cold_bytes > target.l3_bytes
    cold = (COLD if from_memory else COLD_IN_CACHE) if cold_bytes else ""
    together = f"/copies{copies}" if copies > 1 else ""
    ending = cold + together + (ESTIMATED if estimated else "")
    if measured_by:
        ending += MEASURED_BY + sha256(measured_by.encode()).hexdigest()[:12]
    return f"{workload}/{target_digest(target)}/{target.cores}{ending}"


def copies_of(key: str) -> int:
    """Return how many copies of a kernel ran at once in the trials under a key."""
    found = COPIES.search(key)
    return int(found[1]) if found else 1


def items_per_s(copies: int, best_s: float | None) -> float | None:
    """Return the calls per second of all copies together; None if one call ran at a time.

    Args:
        copies: kernels that ran at once.
        best_s: seconds of a call of each copy; None if it is not known.
    """
    return copies / best_s if best_s and copies > 1 else None


def target_digest(target: Target) -> str:
    """Return the digest of the facts of a machine that influence times; threads do not count."""
    facts = (target.kind, target.timed_facts, target.features)
    return sha256(json.dumps(facts).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class RacedOwn:
    """A kernel of the user's own, or a library, in a race: its samples in seconds, or a reason."""

    name: str
    times_s: tuple[float, ...]  # () if it was left out
    note: str = ""  # the reason; "": it raced

    @property
    def best_s(self) -> float | None:
        """The fastest sample; None if it was left out."""
        return min(self.times_s, default=None)


@dataclass(frozen=True, slots=True)
class SizeTimes:
    """Seconds of a call at sizes of the dims, in their order: of the kernel, then of NumPy."""

    sizes: tuple[int, ...]
    times_s: tuple[float, ...]  # the kernel's alone if NumPy did not race


@dataclass(frozen=True, slots=True)
class Race:
    """The interleaved final of a task: the tuned kernel against the untuned one and NumPy.

    All times are in seconds, and all samples are kept. `request` is the digest of the request, so
    that the same request is answered from the store.
    """

    winner: str  # "tuned", "baseline" or "own"
    delivered: str  # "tuned" or "naive": the faster of our two kernels
    tuned_s: tuple[float, ...]
    naive_s: tuple[float, ...]
    numpy_s: tuple[float, ...]  # () if NumPy has no call per node
    span: tuple[float, float]  # range of the float inputs of the self-test
    tolerances: tuple[float, ...]  # absolute error bound on such inputs, one per output array
    magnitude: int  # largest integer input with exact intermediate results; 0: none
    trials: int
    seconds: float
    request: str
    native_sha256: str = ""  # digest of the exported object that passed every case; "": none did
    native_s: tuple[float, ...] = ()  # times of a call of the exported library
    native_note: str = ""  # reason why there is no exported library
    reformulated: str = ""  # description of reformulated stages (ADR-0035); "": none
    errors: tuple[float, ...] = ()  # errors on random inputs, one per output array
    flop: int = 0  # operations that the delivered kernel executes; 0: not known
    peak_flop_per_s: float = 0.0  # upper bound for all kernels of the task; 0.0: not known
    numpy_note: str = ""  # reason why NumPy's evaluation left the race; "": it did not
    own: tuple[RacedOwn, ...] = ()  # kernels of the user's own
    peers: tuple[RacedOwn, ...] = ()  # installed libraries, by name and version
    slowdown: float = 1.0  # median of the times of finalists over their costs in trials
    by_size: tuple[SizeTimes, ...] = ()  # times of the delivered kernel, if it has dims

    @property
    def best_s(self) -> float:
        """The latency of the delivered kernel."""
        return min(self.delivered_s)

    @property
    def delivered_s(self) -> tuple[float, ...]:
        """The samples of the delivered kernel."""
        return self.tuned_s if self.delivered == "tuned" else self.naive_s

    @property
    def baseline_s(self) -> float | None:
        """The faster of the untuned kernel and NumPy; None if neither finished."""
        return min((*self.naive_s, *self.numpy_s), default=None)


@dataclass(frozen=True, slots=True)
class Record:
    """One trial: its program, its task and its outcome. `id` is the digest of its JSON.

    Raises:
        RecordError: an estimate has the key of measurements or a race, or a measurement has the
            key of estimates.
    """

    key: str  # task_key
    workload: str
    rules: str  # name and version of the rule set, e.g. "cpu@1f3a..."
    plan: str  # canonical JSON: steps of the sketch and structural choices (ansorpy.replay)
    row: tuple[int, ...]  # one value per size of the plan
    outcome: Outcome
    source_sha256: str = ""  # digest of the kernel source; "" if there is none
    versions: tuple[tuple[str, str], ...] = ()
    created_s: float = 0.0  # seconds since the epoch
    race: Race | None = None  # only on the record that ends a tuning
    # The JSON of the Dag, so that the record alone replays; "" in a record of an earlier version,
    # and for a JSON that exceeds MAX_DAG.
    dag: str = ""
    structure: str = ""  # `te.analysis.structure_key` of the Dag; "" without one
    # The parts that the request chose by name, sorted: option, name, package with version.
    parts: tuple[tuple[str, str, str], ...] = ()
    # Set by the store that returns the record; not a part of its JSON, and so not of its id.
    origin: Origin = field(default=IMPORTED, compare=False)

    def __post_init__(self) -> None:
        of_estimates = self.key.endswith(ESTIMATED)
        if isinstance(self.outcome, Estimated) and not of_estimates:
            raise RecordError(
                f"cannot keep an estimate under {self.key!r} because that is the key of"
                f" measurements; expected a key that ends with {ESTIMATED}"
            )
        if of_estimates and (isinstance(self.outcome, Measured) or self.race is not None):
            what = "a race" if self.race is not None else "a measurement"
            raise RecordError(
                f"cannot keep {what} under {self.key!r} because that is the key of estimates;"
                f" expected a key that does not end with {ESTIMATED}"
            )

    @property
    def id(self) -> str:
        """Return the sha256 of the canonical JSON: equal records have equal ids."""
        return sha256(encode(self).encode()).hexdigest()

    @property
    def best_s(self) -> float | None:
        """The fastest sample in seconds, as measured; None after a failure."""
        return self.outcome.best_s if isinstance(self.outcome, Measured) else None

    @property
    def compile_s(self) -> float | None:
        """Seconds in which the kernel was compiled, a part of no latency; None if not known.

        Of a race, the seconds of import and first call of the delivered `kernel.py`.
        """
        return (self.outcome.build_s or None) if isinstance(self.outcome, Measured) else None


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
    # Records of earlier versions have none of these, and keep their ids.
    if record.dag:
        obj["dag"] = record.dag
    if record.structure:
        obj["structure"] = record.structure
    if record.parts:
        obj["parts"] = parts_to_json(record.parts)
    return json.dumps(obj, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parts_to_json(parts: tuple[tuple[str, str, str], ...]) -> dict[str, dict[str, str]]:
    """Return the parts of a search by option, for a record and a manifest."""
    return {option: {"name": name, "package": package} for option, name, package in parts}


class Carried(TypedDict):
    """The fields of a record that describe its Dag."""

    dag: str
    structure: str


def carried(dag: Dag) -> Carried:
    """Return the Dag and its structure, as the records of a task carry them."""
    data = sum(len(node.data) for node in dag.nodes if isinstance(node, ConstantTensor))
    text = dumps(dag) if data <= MAX_DAG else ""
    return {"dag": text if len(text) <= MAX_DAG else "", "structure": structure_key(dag)}


def _fields(value: Measured | Estimated | Failed | Race | RacedOwn | SizeTimes) -> dict[str, Any]:
    pairs = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in pairs.items()}


def _outcome_to_json(outcome: Outcome) -> dict[str, Any]:
    match outcome:
        case Measured():
            fields = _fields(outcome)
            if outcome.slowdown == 1.0:
                del fields["slowdown"]  # older records have none, and keep their ids
            return {"is": "measured", **fields}
        case Estimated():
            fields = _fields(outcome)
            return {"is": "estimated", **fields, "parts": dict(outcome.parts)}
        case Failed():
            return {"is": "failed", **_fields(outcome)}


def _race_to_json(race: Race) -> dict[str, Any]:
    lists = ("own", "peers", "by_size")
    fields = _fields(race) | {n: [_fields(one) for one in getattr(race, n)] for n in lists}
    for name in ("flop", "peak_flop_per_s", "numpy_note", *lists):
        if not fields[name]:
            del fields[name]  # older records have none, and keep their ids
    if race.slowdown == 1.0:
        del fields["slowdown"]  # likewise
    return fields
