"""Commands on records: replay from a record alone, the best of each task, other machines."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ansorpy.frontends.json.write import dumps, loads
from ansorpy.loopir.printer import text
from ansorpy.measure.host import local_target
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.records import IMPORTED, MEASURED, Record, encode, import_jsonl, task_key
from ansorpy.replay import replay
from ansorpy.server.cli import app
from ansorpy.server.db.records import SqlStore
from ansorpy.server.db.upgrade import local_tenant, open_database
from ansorpy.target import cuda_target
from ansorpy.te.analysis import structure_key
from ansorpy.topi.workloads import matmul
from tests.test_records import trial
from tests.tuner.test_near import record as replayable

DAG = matmul(16, 32, 24)


def start() -> Record:
    """Return a record for this machine."""
    return replayable(DAG, local_target(1))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    url = f"sqlite:///{tmp_path / 'ansorpy.db'}"
    monkeypatch.setenv("ANSORPY_DATABASE_URL", url)
    engine = open_database(url)
    yield SqlStore(engine, local_tenant(engine))
    engine.dispose()


def records(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(app, ["records", *arguments], input=given)


def test_a_record_carries_its_dag_and_replays_alone() -> None:
    record = start()
    assert loads(record.dag) == DAG
    assert record.structure == structure_key(DAG)
    shown = records("replay", "-", given=encode(record))
    assert (shown.exit_code, shown.stderr) == (0, "")
    head, _, program = shown.stdout.partition("\n")
    assert head == f"# record 1, {record.id[:12]}, {DAG.name}"
    assert program.rstrip("\n") == text(replay(DAG, local_target(1), record)).rstrip("\n")
    assert records("replay", "-", "--dag", given=encode(record)).stdout == dumps(DAG) + "\n"


def test_a_record_of_another_machine_replays_for_this_one() -> None:
    record = replace(start(), key=f"{start().workload}/0123456789abcdef/1")
    head = records("replay", "-", given=encode(record)).stdout.partition("\n")[0]
    assert head.endswith(f", {DAG.name}, for this machine: it was measured on another one")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dag": ""}, "alone because it carries no Dag; expected a record of this version, of a"),
        ({"dag": "{"}, "is invalid: spec: not JSON that can be read"),
        ({"workload": "ab" * 32}, "because its Dag has workload"),
        ({"key": "x"}, "cannot know the target of key 'x'; expected that of a task"),
        ({"row": (7,)}, f"row (7,) does not fit {DAG.name!r}"),
    ],
)
def test_a_record_that_does_not_replay_is_refused(change: dict[str, object], message: str) -> None:
    line = encode(replace(start(), **change))  # type: ignore[arg-type]
    refused = records("replay", "-", given=line)
    assert refused.exit_code == 2
    assert message in refused.stderr


def test_records_of_earlier_versions_have_no_dag_and_keep_their_ids() -> None:
    old = trial(1.0)
    assert not {"dag", "structure"} & json.loads(encode(old)).keys()
    (again,) = import_jsonl([encode(old)])
    assert (again, again.id) == (old, old.id)


def test_the_best_of_each_task_and_machine_is_distilled(store: SqlStore) -> None:
    other = task_key("cd" * 32, cuda_target("sm_90"))
    store.append([trial(2.0), trial(1.0), trial(3.0, key=other), trial(0.5, key=other)], IMPORTED)
    store.append([replace(trial(0.1), outcome=Failed("wrong", "off by one"))], IMPORTED)
    store.append([replace(trial(0.2), outcome=Measured((0.2,), aborted=True))], IMPORTED)
    best = records("distil")
    assert (best.exit_code, best.stderr) == (0, "2 records\n")
    assert list(import_jsonl(best.stdout.splitlines())) == [trial(1.0), trial(0.5, key=other)]
    measured = replace(trial(9.0), created_s=2.0)
    store.append([measured], MEASURED)  # a time of this store counts more than a claim
    told = list(import_jsonl(records("distil").stdout.splitlines()))
    assert told == [measured, trial(0.5, key=other)]
    lines = "\n".join(one for one in records("export").stdout.splitlines() if "9.0" not in one)
    assert records("distil", "--from", "-", given=lines).stdout == best.stdout
    broken = records("distil", "--from", "-", given="{}")
    assert broken.exit_code == 2
    assert broken.stderr.startswith("ansorpy: -, line 1: format None, this version reads 1")
