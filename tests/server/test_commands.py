"""Client commands, against a real service."""

import json
from collections.abc import Iterator
from hashlib import sha256
from io import StringIO
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ansorpy.artifact.package import unbox
from ansorpy.client.model import Job, job_of
from ansorpy.codegen.simt.device.present import present_gpu
from ansorpy.frontends.json.write import dumps
from ansorpy.frontends.tc.text import parse
from ansorpy.records import MemoryStore, encode, import_jsonl
from ansorpy.server.cli import app
from ansorpy.server.commands.job_progress import as_line, eta_s, facts_of, watcher
from ansorpy.server.db.records import SqlStore, record_row
from ansorpy.server.db.upgrade import local_tenant, open_database
from ansorpy.server.http.openapi_examples import REPLIES
from ansorpy.units import clock, duration
from tests.importers.hostile import VALID, node, of
from tests.server.process import Live, process
from tests.server.service import MM, Service, package
from tests.test_records import trial

JOB = job_of(REPLIES["JobReply"])


class Stage(Service):
    """A running service and its database."""

    def __init__(self, live: Live, url: str) -> None:
        super().__init__(client=live.http, engine=open_database(url))  # type: ignore[arg-type]
        self.env = {"ANSORPY_URL": live.url, "ANSORPY_DATABASE_URL": url}

    def run(self, *arguments: str, text: str | None = None, **more: str) -> Result:
        """Run one command."""
        return CliRunner().invoke(app, arguments, env={**self.env, **more}, input=text)


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    url = f"sqlite:///{tmp_path_factory.mktemp('commands') / 'ansorpy.db'}"
    with process(url) as live:
        found = Stage(live, url)
        yield found
        found.engine.dispose()


def test_a_model_is_pushed_listed_pulled_and_deleted(stage: Stage, tmp_path: Path) -> None:
    (tmp_path / "m.onnx").write_bytes(VALID)
    pushed = stage.run("models", "push", str(tmp_path / "m.onnx"))
    digest = sha256(VALID).hexdigest()
    assert (pushed.exit_code, pushed.stdout, pushed.stderr) == (0, f"{digest}\n", "")
    line = f"{digest}  {len(VALID):>11}  1 nodes  m.onnx\n"
    assert stage.run("models", "list").stdout == line
    assert json.loads(stage.run("models", "list", "--json").stdout)[0]["sha256"] == digest
    out = str(tmp_path / "out.onnx")
    assert stage.run("models", "pull", digest, "--out", out).stdout == f"{out}\n"
    assert (tmp_path / "out.onnx").read_bytes() == VALID
    assert stage.run("models", "delete", digest).exit_code == 0
    assert stage.run("models", "list").stdout == ""
    (tmp_path / "m.onnx").write_bytes(of(node("Frob", "x")).SerializeToString())
    refused = stage.run("models", "push", str(tmp_path / "m.onnx"))
    assert refused.exit_code == 0
    assert refused.stderr.startswith("ansorpy: cannot compile node 'Frob_node' (Frob) because")
    (tmp_path / "m.onnx").write_bytes(b"nothing")
    wrong = stage.run("models", "push", str(tmp_path / "m.onnx"))
    assert wrong.exit_code == 2
    assert "expected an ONNX model" in wrong.stderr


def test_a_job_is_submitted_followed_and_pulled(stage: Stage, tmp_path: Path) -> None:
    submitted = stage.run("submit", "-", "--trials", "8", "--fresh", text=MM)
    assert (submitted.exit_code, submitted.stderr) == (0, "")
    job_id = submitted.stdout.strip()
    waits = "queued: 0/8 trials; mm none yet; no live worker\n"
    assert stage.run("status", job_id).stdout == waits
    assert stage.run("kernels", "pull", job_id).exit_code == 2
    claimed = stage.claim()
    stage.progress(claimed)
    digest = stage.deliver(claimed, package())
    stage.finish(claimed)
    watched = stage.run("watch", job_id)
    assert watched.exit_code == 0
    assert watched.stderr.startswith("succeeded: 16/8 trials; mm best 1 ms, ")
    pulled = stage.run("kernels", "pull", job_id, "--out", str(tmp_path))
    (path,) = pulled.stdout.split()
    assert unbox(Path(path).read_bytes(), path).digest == digest
    same = stage.run("kernels", "pull", f"sha256:{digest}", "--out", str(tmp_path))
    assert Path(same.stdout.strip()).read_bytes() == package()
    again = stage.run("submit", "-", "--trials", "8", text=MM)
    assert (again.stdout.strip(), again.exit_code) == (job_id, 0)
    assert again.stderr.startswith("answered: succeeded")


def test_a_json_dag_is_submitted(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "mm.json"
    file.write_text(dumps(parse(MM)[0]))
    arguments = ("submit", str(file), "--fresh", "--priority", "5", "--cores", "2", "--json")
    found = json.loads(stage.run(*arguments).stdout)
    assert (found["state"], found["priority"], found["cores"]) == ("queued", 5, 2)
    assert stage.run("cancel", found["id"]).stdout.startswith("cancelled")


def test_jobs_are_listed_paused_resumed_and_cancelled(stage: Stage) -> None:
    job_id = stage.submit(fresh=True)
    assert stage.run("pause", job_id).stdout.startswith("paused: 0/64 trials")
    (line,) = stage.run("status", "--state", "paused").stdout.splitlines()
    assert line.split() == [job_id, "paused", "0/64", "mm"]
    listed = json.loads(stage.run("status", "--json", "--limit", "1").stdout)
    assert [job["id"] for job in listed] == [job_id]
    assert stage.run("resume", job_id).stdout.startswith("queued")
    assert stage.run("cancel", job_id).exit_code == 0
    watched = stage.run("watch", job_id)
    assert (watched.exit_code, watched.stderr.split(":")[0]) == (3, "cancelled")


def test_a_job_is_named_by_its_first_digits(stage: Stage) -> None:
    job_id = stage.submit(fresh=True)
    short = job_id[:8]
    assert json.loads(stage.run("status", short, "--json").stdout)["id"] == job_id
    for command, state in (("pause", "paused"), ("resume", "queued"), ("cancel", "cancelled")):
        assert stage.run(command, short).stdout.startswith(state)
    assert stage.run("watch", short).stderr.startswith("cancelled")
    assert stage.run("kernels", "pull", short).stderr == (
        f"ansorpy: cannot pull {short} because the job has no kernel yet;"
        " expected a task with a kernel\n"
    )
    assert stage.run("records", "export", "--remote", "--job", short).exit_code == 0


def test_first_digits_of_several_jobs_are_refused_with_the_candidates(stage: Stage) -> None:
    ids = [stage.submit(fresh=True) for _ in range(17)]  # two of 17 ids share their first digit
    digit = next(d for d in "0123456789abcdef" if sum(i.startswith(d) for i in ids) > 1)
    found = stage.run("cancel", digit)
    assert found.exit_code == 2
    assert f"cannot find job {digit} because " in found.stderr
    for job_id in ids:
        assert (job_id in found.stderr) == job_id.startswith(digit)
        assert stage.run("cancel", job_id).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("submit", "nowhere.te"), "nowhere.te"),
        (("submit", "-"), "422 Unprocessable"),
        (
            ("submit", "-", "--bind", "N"),
            "expected NAME=512, NAME=1..512, NAME=8..512:8@8:0.9+64..512:0.1 or NAME=past+new",
        ),
        (("status", "0" * 32), "404 Not Found: cannot find this job"),
        (("watch", "x"), "job 'x' because an id has hex digits only; expected the 32 of an id, or"),
        (
            ("cancel", "00000"),
            "job 00000 because no id begins with that; expected one that `status`",
        ),
        (("submit", "nowhere.te"), "ansorpy: nowhere.te: No such file or directory\n"),
        (("submit", "{json}"), "broken.json: spec: not JSON"),
        (("cancel", "0" * 32), "404"),
        (("kernels", "pull", "sha256:x"), "64 hex digits"),
        (("models", "pull", "x"), "expected 64 hex digits"),
        (("models", "delete", "0" * 64), "404"),
        (("models", "push", "nowhere.onnx"), "expected an ONNX model"),
        (("kernels", "pull", "sha256:" + "0" * 64), "404"),
        (("kernels", "pull", "0" * 32, "--task", "mm"), "404"),
        (("records", "export", "--job", "0" * 32), "expected --remote with --job"),
        (("records", "import", "nowhere.jsonl"), "nowhere.jsonl"),
        (("records", "import", "-"), "-, line 1: not a record"),
        (("keys", "create", "--scope", "root"), "expected read, tune or admin"),
        (("keys", "rotate", "nothing"), "because 0 valid ones begin"),
        (("keys", "revoke", "nothing"), "because 0 valid ones begin"),
    ],
)
def test_an_error_is_one_line_and_exit_code_2(
    stage: Stage, arguments: tuple[str, ...], message: str, tmp_path: Path
) -> None:
    json_file = tmp_path / "broken.json"
    json_file.write_text("{")
    given = (argument.replace("{json}", str(json_file)) for argument in arguments)
    found = stage.run(*given, text="def nonsense")
    assert (found.exit_code, found.stdout) == (2, "")
    assert message in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.skipif(present_gpu() is not None, reason="cuda is the GPU of this machine")
def test_service_and_command_line_parse_targets_alike(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "mm.te"
    file.write_text(MM)
    for target in ("cuda", "cuda:sm_75"):
        remote = stage.run("submit", str(file), "--target", target)
        local = stage.run("tune", str(file), "--target", target)
        assert remote.exit_code == local.exit_code == 2
        expected = "expected cuda:sm_80 or cuda:sm_90\n"
        assert local.stderr.endswith(expected)
        assert remote.stderr.endswith(expected)


def test_on_a_terminal_a_queued_job_shows_its_missing_worker() -> None:
    stream = Terminal()
    with watcher(stream) as show:
        show(job(state="queued", waiting_for="no live worker for cpu"))
    assert "no live worker for cpu" in stream.getvalue()


def test_an_unreachable_service_is_exit_code_4(stage: Stage) -> None:
    found = stage.run("status", ANSORPY_URL="http://127.0.0.1:9", ANSORPY_API_KEY="k")
    assert found.exit_code == 4
    assert found.stderr.splitlines()[-1] == (
        "ansorpy: cannot reach http://127.0.0.1:9 because [Errno 111] Connection refused; expected"
        " a service there: start one with `ansorpy serve`, or set ANSORPY_URL"
    )
    assert found.stderr.count("retrying") == 1


def test_a_wrong_address_is_exit_code_2(stage: Stage) -> None:
    assert stage.run("status", ANSORPY_URL="ftp://x").exit_code == 2
    assert stage.run("status", ANSORPY_API_KEY_FILE="/nowhere").exit_code == 2


def test_records_are_exported_and_imported_as_lines(stage: Stage, tmp_path: Path) -> None:
    stage.submit(fresh=True)
    with stage.held(stage.claim()) as (tx, row, _):
        tx.add(record_row(trial(1.0), row.tenant_id, row.id, "mm", 1, origin="measured"))
        job_id = row.id
    file = tmp_path / "records.jsonl"
    local = stage.run("records", "export", "--out", str(file))
    assert local.stderr.endswith("records\n")
    remote = stage.run("records", "export", "--remote", "--job", job_id)
    assert tuple(import_jsonl(remote.stdout.splitlines())) == (trial(1.0),)
    other = {"ANSORPY_DATABASE_URL": f"sqlite:///{tmp_path}/other.db"}
    for new in (1, 0):
        taken = stage.run("records", "import", str(file), **other)
        assert (taken.exit_code, taken.stderr) == (0, f"{new} new records\n")
    store = MemoryStore()
    store.append(list(import_jsonl(stage.run("records", "export", **other).stdout.splitlines())))
    assert store.count() == 1


def test_records_are_imported_into_a_service_without_trust(stage: Stage, tmp_path: Path) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text("".join(f"{encode(trial(seconds))}\n" for seconds in (4.0, 5.0)))
    for new in (2, 0):
        taken = stage.run("records", "import", str(file), "--remote")
        assert (taken.exit_code, taken.stderr) == (0, f"{new} new records\n")
    store = SqlStore(stage.engine, local_tenant(stage.engine))
    found = {encode(one): one.origin for one in store.export()}
    assert [found[line] for line in file.read_text().splitlines()] == ["imported", "imported"]
    file.write_text(f"{encode(trial(3.0))}\nx\n")
    wrong = stage.run("records", "import", str(file), "--remote")
    assert wrong.exit_code == 2
    assert "line 2: not a record" in wrong.stderr
    assert encode(trial(3.0)) not in map(encode, store.export())


def test_imported_records_have_the_origin_imported(tmp_path: Path) -> None:
    file, url = tmp_path / "records.jsonl", f"sqlite:///{tmp_path}/own.db"
    told = {**json.loads(encode(trial(1.0))), "origin": "measured"}
    file.write_text(json.dumps(told) + "\n")
    found = CliRunner().invoke(
        app, ("records", "import", str(file)), env={"ANSORPY_DATABASE_URL": url}
    )
    assert found.exit_code == 0, found.stderr
    engine = open_database(url)
    (record,) = SqlStore(engine, local_tenant(engine)).export()
    engine.dispose()
    assert (record, record.origin) == (trial(1.0), "imported")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (encode(trial(1.0)).replace("1.0,", "-1.0,"), "line 1: not a record: times_s is"),
        ("[" * 100_000, "line 1: not a record: nested too deep"),
        ("x" * 3_000_000, "line 1: not a record: 1048577 characters, limit 1048576"),
        ("\xff", "line 1: not a record: Expecting value"),
    ],
)
def test_a_hostile_file_is_one_sentence_and_exit_code_2(
    tmp_path: Path, line: str, message: str
) -> None:
    file = tmp_path / "records.jsonl"
    file.write_text(line)
    url = f"sqlite:///{tmp_path}/own.db"
    found = CliRunner().invoke(
        app, ("records", "import", str(file)), env={"ANSORPY_DATABASE_URL": url}
    )
    assert found.exit_code == 2
    assert found.stderr.startswith(f"ansorpy: {file}, {message}")
    assert len(found.stderr.splitlines()) == 1


def test_keys_are_created_listed_rotated_and_revoked(tmp_path: Path) -> None:
    env = {"ANSORPY_DATABASE_URL": f"sqlite:///{tmp_path}/keys.db"}

    def run(*arguments: str) -> Result:
        found = CliRunner().invoke(app, ("keys", *arguments), env=env)
        assert found.exit_code == 0, found.stderr
        return found

    made = run("create", "--tenant", "ci", "--scope", "read", "--days", "1", "--label", "nightly")
    key = made.stdout.strip()
    prefix = key.split("_")[1]
    assert key not in made.stderr
    (line,) = run("list").stdout.splitlines()
    assert line.split("  ")[:3] == [prefix, "ci", "read"]
    assert line.endswith("nightly")
    assert key not in line
    new = run("rotate", prefix, "--overlap-hours", "0").stdout.strip().split("_")[1]
    old, fresh = run("list").stdout.splitlines()
    assert "expired" in old
    assert fresh.split("  ")[0] == new
    run("revoke", new)
    assert "revoked" in run("list").stdout.splitlines()[1]


def job(**changes: object) -> Job:
    return job_of({**REPLIES["JobReply"], **changes})


def test_a_line_has_best_rate_trials_and_eta() -> None:
    running = job(state="running", trials=16, seconds=8.0)
    assert as_line(running) == (
        "running: 16/64 trials; ETA 0:24; mm best 5.1 us, 102.8 GFLOP/s, 1 failed"
    )
    assert as_line(job(state="failed", reason="poison")).endswith("poison")


def test_the_eta_is_the_minimum_by_trials_and_by_time() -> None:
    budget = dict(JOB.budget)
    assert eta_s(job(state="running", trials=16, seconds=8.0)) == 24.0
    limited = job(state="running", trials=16, seconds=8.0, budget={**budget, "seconds": 10.0})
    assert eta_s(limited) == 2.0
    assert eta_s(job(state="running", trials=0, seconds=0.0)) is None
    assert eta_s(job(state="queued")) is None


def test_durations_read_well() -> None:
    assert [duration(s) for s in (5.1e-6, 1.25e-3, 2.0)] == ["5.1 us", "1.25 ms", "2 s"]
    assert [clock(s) for s in (None, 0.4, 61.0, 3700.0)] == ["-", "0:00", "1:01", "1:01:40"]
    assert facts_of(JOB.tasks[0]) == "best 5.1 us, 102.8 GFLOP/s, 1 failed"


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_there_are_bars() -> None:
    stream = Terminal()
    with watcher(stream) as show:
        show(job(state="running", trials=16, seconds=8.0))
        show(JOB)
    told = stream.getvalue()
    assert "64/64 trials" in told
    assert "102.8 GFLOP/s" in told


def test_without_a_terminal_equal_lines_are_written_once() -> None:
    stream = StringIO()
    with watcher(stream) as show:
        show(JOB)
        show(JOB)
    assert stream.getvalue().count("\n") == 1
