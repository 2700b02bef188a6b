"""Uploads of models that end with kill -9 of the service; `tests.kill.uploads` kills at random."""

import os
import signal
import socket
from pathlib import Path

import pytest
from sqlalchemy import Engine

from ansorpy.server.db import model_files
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import ModelFileRow
from tests.kill.uploads import large_model
from tests.server.databases import ON_SQLITE
from tests.server.process import SOON_S, Live, process, until


def leftovers(folder: Path) -> list[Path]:
    return list(folder.glob("service-*"))


def begin(live: Live, digest: str, size: int, sent: bytes) -> socket.socket:
    """Send the first bytes of an upload."""
    place = (live.http.base_url.host, live.http.base_url.port)
    made = socket.create_connection(place, timeout=SOON_S)
    head = f"PUT /v1/models/{digest} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n"
    made.sendall(head.encode() + sent)
    return made


@ON_SQLITE
def test_an_interrupted_upload_leaves_nothing(url: str, tmp_path: Path) -> None:
    content, digest = large_model(0, 8 << 20)
    environment = {"ANSORPY_DATA_DIR": str(tmp_path)}
    with process(url, **environment) as live, begin(live, digest, len(content), content[:-1]):
        until(lambda: any(p.stat().st_size for p in tmp_path.glob("service-*/*/model.onnx")))
        os.kill(live.pid, signal.SIGKILL)
    assert len(leftovers(tmp_path)) == 1
    with process(url, **environment) as live:
        assert leftovers(tmp_path) == []
        assert live.get(f"/v1/models/{digest}").status_code == 404
        assert live.get("/v1/models").json()["models"] == []
        assert live.http.put(f"/v1/models/{digest}", content=content).status_code == 201
        assert live.get(f"/v1/models/{digest}/file").content == content


@pytest.mark.night
def test_a_kill_between_two_chunks_is_completed_by_the_next_upload(
    url: str, engine: Engine, tmp_path: Path
) -> None:
    content, digest = large_model(1, 32 << 20)  # eight chunks
    environment = {"ANSORPY_DATA_DIR": str(tmp_path)}

    def has_begun() -> bool:
        with transaction(engine) as tx:
            return tx.get(ModelFileRow, digest) is not None

    with process(url, **environment) as live, begin(live, digest, len(content), content):
        until(has_begun, every_s=0.02)
        os.kill(live.pid, signal.SIGKILL)
    with process(url, **environment) as live:
        status = live.get(f"/v1/models/{digest}").status_code
        with transaction(engine) as tx:
            complete = model_files.lock_complete(tx, digest) is not None
        assert status == 404 or complete
        reply = live.http.put(f"/v1/models/{digest}", content=content)
        assert reply.status_code == (200 if status == 200 else 201)
        assert live.get(f"/v1/models/{digest}/file").content == content
