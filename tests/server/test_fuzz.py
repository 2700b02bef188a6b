"""Schemathesis against a service process: only documented replies.

`make test-all` runs all phases, with at least 2,000 cases on each database;
`tests.server.test_wrong_bodies` is the short form.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import Engine

from ansorpy.server.access import keys
from ansorpy.server.db.engine import now, transaction
from tests.server.process import process
from tests.server.service import Service
from tests.server.test_hostile import MAX_GROWTH_BYTES

PHASES = "examples,coverage,fuzzing,stateful"
EXAMPLES = 150  # random cases per operation
LEAST = 2000  # cases
# The schema of a text does not describe valid tensor expressions; and a new job has no bundle: the
# 404 of its `/model` is right, and cannot be allowed for one operation if all checks are asked for.
EXCLUDED = "positive_data_acceptance,ensure_resource_availability"
SETTINGS = {
    "ANSORPY_READ_RATE": "1000000/second",
    "ANSORPY_TUNE_RATE": "1000000/second",
    "ANSORPY_ADMIN_RATE": "1000000/second",
    "ANSORPY_DENIED_RATE": "1000000/second",
    "ANSORPY_MAX_QUEUED_JOBS": "1000000",
    "ANSORPY_EVENT_STREAM_S": "0.05",
}


@pytest.mark.night
@pytest.mark.timeout(3600)
def test_the_service_conforms_to_its_openapi_document(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    with transaction(engine) as tx:
        key, _ = keys.create(tx, "fuzz", ("admin",), now(tx))
    counts = tmp_path / "counts.json"
    with process(url, **SETTINGS) as live:
        live.http.headers["Authorization"] = f"Bearer {key}"
        Service(live.http, engine).succeed()  # type: ignore[arg-type]
        before = live.resident_bytes()
        done = subprocess.run(
            [
                sys.executable, "-m", "schemathesis.cli", "run", f"{live.url}/openapi.json",
                "--phases", PHASES, "--checks", "all",
                "--exclude-checks", EXCLUDED, "--max-examples", str(EXAMPLES),
                "--header", f"Authorization: Bearer {key}", "--seed", "1", "--no-shrink",
                "--continue-on-failure", "--request-timeout", "30",
                "--suppress-health-check", "all",
            ],
            cwd=tmp_path,
            env={
                **os.environ,
                "SCHEMATHESIS_HOOKS": "tests.server.fuzz_hooks",
                "FUZZ_COUNTS": str(counts),
                "PYTHONPATH": str(Path(__file__).parents[2]),
                "COLUMNS": "140",
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )  # fmt: skip
        grown = live.resident_bytes() - before
    assert done.returncode == 0, done.stdout[-8000:]
    told = json.loads(counts.read_text())
    print(told, f"{grown >> 20} MiB more")  # noqa: T201 - what the night is asked for
    assert not [status for status in told["statuses"] if status >= "500"], told
    assert sum(told["statuses"].values()) >= LEAST, told
    assert grown < MAX_GROWTH_BYTES, f"{grown >> 20} MiB"
