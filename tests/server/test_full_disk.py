"""A service on a disk without room starts, reads, and tells why writes fail."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ansorpy.server.db.upgrade import open_database
from tests.server.process import process
from tests.server.service import MM
from tests.server.test_lease import submit

SIZE_BYTES = 16 << 20


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Yield the folder of a file system of `SIZE_BYTES`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE_BYTES}", "tmpfs", str(folder)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("no right to mount a file system")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file, suppress(OSError):
        while file.write(bytes(4096)):
            pass


def test_a_service_on_a_full_disk_reads_until_there_is_room(disk: Path) -> None:
    url = f"sqlite:///{disk}/ansorpy.db"
    engine = open_database(url)
    job_id = submit(engine)
    engine.dispose()
    fill(disk / "fill")
    with process(url, ANSORPY_DATA_DIR=str(disk)) as live:
        assert live.get("/healthz").json() == {"status": "ok", "disk": "full"}
        assert live.get("/readyz").json()["disk"] == "full"
        assert [one["id"] for one in live.get("/v1/jobs").json()["jobs"]] == [job_id]
        assert live.get(f"/jobs/{job_id}").status_code == 200
        other = {"text": MM, "seed": 1, "fresh": True}
        for path, body in (("/v1/jobs", other), (f"/v1/jobs/{job_id}/cancel", None)):
            reply = live.post(path, json=body)
            assert (reply.status_code, reply.json()["code"]) == (503, "full")
            assert reply.headers["retry-after"] == "60"
            assert "the disk of the service is full" in reply.json()["detail"]
        assert b"Traceback" not in live.logged()
        os.truncate(disk / "fill", 0)
        made = live.post("/v1/jobs", json=other)
        assert made.status_code == 202
        assert live.get("/healthz").json() == {"status": "ok", "disk": "ok"}
        ids = [one["id"] for one in live.get("/v1/jobs").json()["jobs"]]
        assert ids == [made.json()["id"], job_id]
