"""A line of a log starts a search: its program is verified and timed again before an answer."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ansorpy.ansor_log import dag_of, parse_line
from ansorpy.events import RoundDone, Seeded
from ansorpy.measure.outcome import Measured
from ansorpy.records import IMPORTED, MEASURED, MemoryStore
from ansorpy.server.cli import app
from ansorpy.tuner.ansor_import import LogImport
from ansorpy.tuner.request import Request
from ansorpy.tuner.tune import run
from tests.ansor_log.test_replay import CPU, PUBLIC, TARGET, TUTORIAL
from tests.fakes import fake_pools

pytestmark = pytest.mark.usefixtures("few_candidates")

SMALL = TUTORIAL.replace("1024", "64")


def test_the_program_of_a_line_is_measured_in_the_first_round(tmp_path: Path) -> None:
    (report,) = LogImport(TARGET).read([SMALL])
    assert report.record is not None
    store = MemoryStore()
    store.append([report.record], IMPORTED)
    request = Request((dag_of(parse_line(SMALL)),), TARGET, trials=32)
    events = list(run(request, store=store, out=tmp_path, pools=fake_pools(), clock=lambda: 0.0))
    (seeded,) = [event for event in events if isinstance(event, Seeded)]
    assert (seeded.programs, seeded.reasons) == (1, ())
    first = next(event for event in events if isinstance(event, RoundDone))
    assert first.trials > 0
    again = [
        one
        for one in store.export()
        if (one.plan, one.row) == (report.record.plan, report.record.row)
        and one.origin == MEASURED
        and one.race is None
    ]
    assert len(again) == 1
    assert isinstance(again[0].outcome, Measured)
    assert again[0].outcome.times_s != report.record.outcome.times_s  # type: ignore[union-attr]


def test_a_program_that_failed_starts_nothing() -> None:
    found = json.loads(SMALL)
    found["r"] = [[1e10], 4, 1.0, 1]
    (report,) = LogImport(TARGET).read([json.dumps(found)])
    assert report.record is None
    assert report.nest
    assert report.note == (
        "cannot start from the line because its program failed (error 4); expected error 0"
    )


@pytest.fixture
def database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ANSORPY_DATABASE_URL", f"sqlite:///{tmp_path / 'ansorpy.db'}")
    # Wider vectors than those of the log would be another length, which the command tells.
    monkeypatch.setattr("ansorpy.measure.host.local_target", lambda cores: TARGET)
    return tmp_path


def test_the_command_imports_each_program_once_and_names_refused_lines(database: Path) -> None:
    log = database / "log.json"
    log.write_text(f"# made by Ansor\n{SMALL}\n{{}}\n{SMALL}\n")
    done = CliRunner().invoke(app, ["records", "import-ansor", str(log)])
    assert (done.exit_code, done.stdout) == (0, "")
    refused, count = done.stderr.splitlines()
    assert refused == (
        f"{log}, line 3: cannot read the line because it is []; expected the fields i, r, v"
    )
    assert count == "3 lines: 2 replayed, 2 start a search, 1 new records"


def test_the_command_prints_loop_nests_and_then_imports_nothing(database: Path) -> None:
    done = CliRunner().invoke(app, ["records", "import-ansor", "-", "--print"], input=SMALL)
    assert done.exit_code == 0
    assert done.stdout.startswith("# line 1\nparallel i.0@j.0 in 64\n  for i.1 in 2\n")
    assert done.stderr == "1 lines: 1 replayed, 1 start a search, 0 new records\n"


def test_the_command_takes_a_dag_for_keys_that_are_digests(database: Path) -> None:
    (softmax,) = [line for line in CPU if "d7b65649" in line]
    text = (
        "def softmax(float(1,1000) X) -> (Y) { M(i) max=! X(i,j)  E(i,j) = exp(X(i,j) - M(i))"
        " S(i) +=! E(i,j)  Y(i,j) = E(i,j) / S(i) }"
    )
    (database / "softmax.te").write_text(text)
    given = ["--dag", str(database / "softmax.te")]
    done = CliRunner().invoke(app, ["records", "import-ansor", "-", *given], input=softmax)
    assert done.exit_code == 0
    assert done.stderr.splitlines()[-1] == ("1 lines: 1 replayed, 1 start a search, 1 new records")


def test_the_command_refuses_files_without_a_line_that_replays(database: Path) -> None:
    invoke = CliRunner().invoke
    gpu = next(line for line in PUBLIC if line not in CPU)
    done = invoke(app, ["records", "import-ansor", "-"], input=gpu)
    assert done.exit_code == 2
    assert "-, line 1: cannot replay a line for cuda because our states lack" in done.stderr
    both = ["records", "import-ansor", "-", "--dag", "x.te", "--workload", "matmul"]
    assert invoke(app, both).stderr == (
        "ansorpy: cannot take both --dag and --workload; expected one of them\n"
    )
    unknown = invoke(app, ["records", "import-ansor", "-", "--workload", "frob"], input=SMALL)
    assert unknown.exit_code == 2
    assert unknown.stderr.startswith(
        "ansorpy: cannot find workload 'frob' because it is not registered; expected one of argmax,"
    )
    (database / "bytes").write_bytes(b"\xff\xfe")
    broken = invoke(app, ["records", "import-ansor", str(database / "bytes")])
    assert (broken.exit_code, "'utf-8' codec" in broken.stderr) == (2, True)
