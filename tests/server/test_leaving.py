"""Clients that leave in the middle of a request or of its response: no traceback, one line each."""

import socket
import struct
from itertools import cycle, islice
from pathlib import Path
from typing import Any, cast

import pytest

from ansorpy.server.db.engine import transaction
from ansorpy.server.db.upgrade import open_database
from tests.night import night
from tests.server.process import SOON_S, process, until
from tests.server.service import MM, Service

LINE_BYTES = 400  # most of the log that a request may cost
READ_BYTES = 1000  # bytes of a response that are read
RESET = struct.pack("ii", 1, 0)  # SO_LINGER: close by RST, not by FIN
DIGEST = "0" * 64


def begun(method: str, path: str, *headers: str, body: str = "") -> bytes:
    """Return the beginning of a request."""
    return "\r\n".join((f"{method} {path} HTTP/1.1", "Host: localhost", *headers, body)).encode()


def with_body(method: str, path: str, *headers: str) -> list[bytes]:
    """Return the beginnings of a request in the middle of its body, declared and in chunks."""
    return [
        begun(method, path, "Content-Length: 90000", *headers, body="\r\n{"),
        begun(method, path, "Transfer-Encoding: chunked", *headers, body="\r\n5\r\n{"),
    ]


def leave(place: tuple[str, int], sent: bytes, read_bytes: int, reset: bool) -> None:
    """Send the beginning of a request, read some of the response, and close the connection."""
    with socket.create_connection(place, timeout=SOON_S) as made:
        made.sendall(sent)
        if read_bytes:
            assert made.recv(read_bytes)
        if reset:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)


@pytest.mark.parametrize("requests", night((200, 1000), [200]))
def test_no_client_that_leaves_costs_a_traceback(tmp_path: Path, requests: int) -> None:
    url = f"sqlite:///{tmp_path}/leaving.db"
    rates = {f"ANSORPY_{kind}_RATE": "1000000/minute" for kind in ("READ", "TUNE")}
    with process(url, ANSORPY_MAX_EVENT_STREAMS=str(requests), **rates) as live:
        job_id = str(live.post("/v1/jobs", json={"text": MM}).json()["id"])
        engine = open_database(url)
        with transaction(engine) as tx:
            bundle = Service(cast(Any, None), engine).own_bundle(tx, job_id, bytes(8 << 20))
        engine.dispose()
        jsonl, onnx = "Content-Type: application/x-ndjson", "Content-Type: application/octet-stream"
        heads = [
            begun("GET", "/v1/jobs"), begun("POST", "/v1/jobs", "Content-Length: 9"),
            *with_body("POST", "/v1/jobs"), *with_body("POST", "/v1/records", jsonl),
            *with_body("PUT", f"/v1/models/{DIGEST}"), *with_body("POST", "/v1/simplify", onnx),
            *with_body("POST", "/login"),
        ]  # fmt: skip
        whole = [
            begun("GET", path, body="\r\n")
            for path in (
                "/v1/jobs", f"/v1/jobs/{job_id}/explain", f"/v1/jobs/{job_id}/events",
                f"/v1/bundles/{bundle}", f"/jobs/{job_id}", "/v1/records", "/v1/rules",
            )
        ]  # fmt: skip
        kinds = [(sent, 0, reset) for sent in (*heads, *whole) for reset in (False, True)]
        kinds += [(sent, READ_BYTES, reset) for sent in whole for reset in (False, True)]
        before = len(live.logged())
        host, port = live.url.removeprefix("http://").split(":")
        for sent, read_bytes, reset in islice(cycle(kinds), requests):
            leave((host, int(port)), sent, read_bytes, reset)
        until(lambda: not open_streams(live.get("/metrics").text))
        assert live.get("/v1/jobs").status_code == 200
        told = live.logged()[before:].decode()
        assert "Traceback" not in told, told[told.index("Traceback") :][:2000]
        assert "Error" not in told, told[told.index("Error") - 200 :][:2000]
        assert len(told) < requests * LINE_BYTES


def open_streams(metrics: str) -> int:
    (line,) = [one for one in metrics.splitlines() if one.startswith("ansorpy_event_streams ")]
    return int(float(line.split()[1]))
