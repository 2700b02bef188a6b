"""Hostile record files, each decided by its seed: mutations of good records, and forged races."""

import json
import random
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from ansorpy.codegen.version import CODEGEN_VERSION
from ansorpy.frontends.tc.text import parse
from ansorpy.records import MemoryStore, encode
from ansorpy.target import Target
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, conv2d
from ansorpy.tuner.requests.request import Request
from ansorpy.tuner.rule_sets.sets import find_rules
from ansorpy.tuner.tasks.identity import rules_name
from ansorpy.tuner.tune import run
from tests.fakes import fake_pools

TARGET: Final = Target(vector_bits=256, registers=16)
(MM,) = parse("def mm(float(16,24) A, float(24,32) B) -> (C) { C(i,j) +=! A(i,k) * B(k,j) }")
CONV: Final = conv2d(1, 8, 8, 8, 8, 3, Window(padding=1))
TASKS: Final[tuple[Dag, ...]] = (MM, CONV)
TRIALS: Final = 16

Line = dict[str, Any]
Random = random.Random


@dataclass(frozen=True, slots=True)
class Attack:
    """A hostile file; later tunings of `dag` are its victim."""

    seed: int
    kind: str
    dag: Dag
    content: bytes


class Raw(str):
    """JSON text that `json.dumps` would not write."""

    __slots__ = ()


DEEP: Final = Raw("[" * 90_000)
VALUES: Final[tuple[Any, ...]] = (
    None, True, False, -1, 0, 1, 2**31, 2**63, 10**18, Raw("1" + "0" * 400), Raw("9" * 5000),
    -1.0, 0.0, 1e-300, 1e300, 1e9, Raw("1e999"), Raw("-1e999"), Raw("NaN"), Raw("-Infinity"),
    "", "evil", "x" * 100_000, "\x00", Raw('"\\ud800"'), "nan", "1e-9", "../../x", "\U0001d54f",
    [], [0], [0.0], [-1.0], [None], ["fast"], [[1]], [1] * 10_000, [Raw("1e999")],
    {}, {"is": "measured"}, {"a": 1}, DEEP, Raw("[" * 500 + "]" * 500),
)  # fmt: skip


@cache
def good(name: str, allow: tuple[str, ...]) -> tuple[Line, ...]:
    """Return the records of a tuning as JSON: its trials, and last its race."""
    (dag,) = (dag for dag in TASKS if dag.name == name)
    store, request = MemoryStore(), Request((dag,), TARGET, trials=TRIALS, allow=allow)
    with TemporaryDirectory() as out:
        found = run(request, find_rules("cpu", allow), store, Path(out), pools=fake_pools())
        for _ in found:
            pass
    return tuple(json.loads(encode(record)) for record in store.export())


def attack(seed: int) -> Attack:
    """Return the hostile file of a seed."""
    rng = Random(seed)
    dag = rng.choice(TASKS)
    allow = ("winograd4",) if dag is CONV and rng.random() < 0.5 else ()
    kind, make = rng.choice(KINDS)
    lines = list(make(rng, deepcopy(good(dag.name, allow))))
    if rng.random() < 0.3:  # good lines around the hostile ones
        lines.insert(0, text(good(dag.name, ())[0]))
        lines.append(text(good(dag.name, ())[-1]))
    return Attack(seed, kind, dag, "\n".join(lines).encode(errors="surrogateescape") + b"\n")


def text(value: object) -> str:
    """Return the JSON of a value; `Raw` parts are inserted verbatim."""
    match value:
        case Raw():
            return value
        case dict():
            return "{" + ",".join(f"{json.dumps(k)}:{text(v)}" for k, v in value.items()) + "}"
        case list() | tuple():
            return "[" + ",".join(map(text, value)) + "]"
        case _:
            return json.dumps(value)


def ways(value: object, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to every value within a JSON value."""
    items: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    for name, inner in items:
        yield (*way, name)
        yield from ways(inner, (*way, name))


def replaced(value: Any, way: tuple[Any, ...], new: object) -> None:
    """Replace a part of a JSON value by `new`."""
    for name in way[:-1]:
        value = value[name]
    value[way[-1]] = new


def _mutated(rng: Random, value: Any, times: int) -> Any:
    for _ in range(times):
        replaced(value, rng.choice(list(ways(value))), deepcopy(rng.choice(VALUES)))
    return value


def _fields(rng: Random, lines: tuple[Line, ...]) -> Iterator[str]:
    """Yield records with one to three changed values."""
    for _ in range(rng.randint(1, 4)):
        yield text(_mutated(rng, deepcopy(rng.choice(lines)), rng.choice((1, 1, 1, 2, 3))))


def _structure(rng: Random, lines: tuple[Line, ...]) -> Iterator[str]:
    """Yield text that is broken, or JSON of another structure."""
    line = rng.choice(lines)
    whole = text(line)
    at = rng.randrange(len(whole))
    name = rng.choice(list(line))
    without = {key: value for key, value in line.items() if key != name}
    yield rng.choice(
        (
            whole[:at],
            whole[:at] + rng.choice('\x00\ufeff\u2028{}[],:"\\\udcff') + whole[at:],
            whole + whole,
            f"[{whole}]",
            text(without),
            whole[:-1] + f",{json.dumps(name)}:{text(rng.choice(VALUES))}}}",
            text({**without, name.upper(): line[name]}),
            text({**line, "origin": "measured", "extra": rng.choice(VALUES)}),
            "\ufeff" + whole,
            whole + "\r",
            " " * 2**21 + whole,
            DEEP,
            '{"a":' * 50_000,
            "\udcff\udcfe" * 100,
        )
    )


def _plans(rng: Random, lines: tuple[Line, ...]) -> Iterator[str]:
    """Yield records with another plan or row, and the fastest times."""
    for _ in range(rng.randint(1, 3)):
        line = deepcopy(rng.choice(lines))
        plan = json.loads(line["plan"])
        if rng.random() < 0.7:
            part = rng.choice(("steps", "choices"))
            plan[part] = _mutated(rng, plan[part], 1) if plan[part] else rng.choice(VALUES)
        else:
            line["row"] = [rng.choice((0, 1, 3, v, v * 2, 2**53, 2**31)) for v in line["row"]]
        line["plan"] = rng.choice((text(plan), text(plan), text(plan), "[" * 90_000, "{}"))
        line["outcome"] = {"is": "measured", "times_s": [1e-9]}
        yield text(line)


def _races(rng: Random, lines: tuple[Line, ...]) -> Iterator[str]:
    """Yield races without measurements, such as a Winograd race as a plain one."""
    plain = rules_name("cpu", find_rules("cpu"))
    for _ in range(rng.randint(1, 3)):
        line, race = deepcopy(rng.choice(lines)), deepcopy(lines[-1]["race"])
        race |= {"trials": 10**9, "reformulated": "", "delivered": "tuned", "winner": "tuned"}
        race["tuned_s"] = [rng.choice((1e-6, 1e-9, 1e-12, 9e8))]
        race["tolerances"] = [rng.choice((1e30, 0.0, 1e-4))]
        race["magnitude"] = rng.choice((0, 1, 2**53))
        if rng.random() < 0.3:
            race = _mutated(rng, race, 1)
        line |= {"rules": plain, "race": race, "created_s": rng.choice((0.0, 1e10))}
        line["outcome"] = {"is": "measured", "times_s": race.get("tuned_s")}
        if rng.random() < 0.3:
            number = rng.choice((0, CODEGEN_VERSION, CODEGEN_VERSION + 1))
            line["versions"] = {**line["versions"], "codegen": str(number)}
        yield text(line)


def _others(rng: Random, lines: tuple[Line, ...]) -> Iterator[str]:
    """Yield records of another task under the key of this one."""
    for dag in TASKS:
        for line in good(dag.name, ())[-3:]:
            yield text({**line, "key": lines[0]["key"], "workload": lines[0]["workload"]})


def _flood(rng: Random, lines: tuple[Line, ...]) -> Iterator[str]:
    """Yield many records that cannot be replayed, or claim failures."""
    line = rng.choice(lines)
    failed = {"is": "failed", "kind": "crash", "message": "signal 11", "excerpt": "", "seconds": 0}
    for number in range(200):
        outcome = failed if number % 2 else {"is": "measured", "times_s": [1e-9]}
        plan = line["plan"] if number % 2 else f"[{number}]"
        yield text({**line, "plan": plan, "outcome": outcome, "created_s": number})


KINDS: Final[tuple[tuple[str, Callable[[Random, tuple[Line, ...]], Iterator[str]]], ...]] = (
    ("fields", _fields),
    ("fields", _fields),
    ("structure", _structure),
    ("plans", _plans),
    ("plans", _plans),
    ("races", _races),
    ("races", _races),
    ("others", _others),
    ("flood", _flood),
)
