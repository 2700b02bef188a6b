"""HEAD requests, and the printed address of the dashboard."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from ansorpy.server.commands.serve import shown_host
from tests.server.process import SOON_S, Live, process, until
from tests.server.service import MM

PATHS = ("/docs", "/openapi.json", "/v1/jobs", "/jobs", "/healthz", "/static/dashboard.css")
UNLIKE = {"date", "x-request-id"}
PAGES = {"content-length"}  # headers of pages that contain the time


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with process(f"sqlite:///{tmp_path_factory.mktemp('head')}/head.db") as running:
        yield running


def test_every_get_path_answers_head(live: Live) -> None:
    job = live.post("/v1/jobs", json={"text": MM}).json()["id"]
    for path in (*PATHS, f"/v1/jobs/{job}", f"/jobs/{job}", f"/v1/jobs/{'0' * 32}"):
        whole, head = live.get(path), live.http.head(path)
        assert (head.status_code, head.content) == (whole.status_code, b""), path
        for name in set(whole.headers) - UNLIKE - (PAGES if path.startswith("/jobs") else set()):
            assert head.headers[name] == whole.headers[name], (path, name)


def test_head_of_a_stream_ends_at_once_and_leaves_the_connection_usable(live: Live) -> None:
    job = live.post("/v1/jobs", json={"text": MM}).json()["id"]
    for _ in range(100):  # more than the limit of open streams of a tenant
        head = live.http.head(f"/v1/jobs/{job}/events")
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-type"].startswith("text/event-stream")
    until(lambda: "ansorpy_event_streams 0.0" in live.get("/metrics").text)


def test_head_of_a_post_path_is_a_405(live: Live) -> None:
    head = live.http.head(f"/v1/jobs/{'0' * 32}/cancel")
    assert (head.status_code, head.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("address", "shown"),
    [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "localhost"), ("::", "localhost"), ("::1", "[::1]")],
)
def test_the_printed_address_opens_in_a_browser(address: str, shown: str) -> None:
    assert shown_host(address) == shown


def test_serve_prints_where_the_dashboard_is(tmp_path: Path) -> None:
    env = {**os.environ, "ANSORPY_DATA_DIR": str(tmp_path), "ANSORPY_PORT": "0"}
    with subprocess.Popen(
        [sys.executable, "-m", "ansorpy", "serve"],
        env={**env, "ANSORPY_EMBEDDED_WORKER": "0"}, stdout=subprocess.PIPE, text=True,
    ) as child:  # fmt: skip
        try:
            assert child.stdout is not None
            word, url = child.stdout.readline().split()
            assert word == "dashboard:"
            page = httpx.get(url, follow_redirects=True)
            assert (page.status_code, "No jobs yet" in page.text) == (200, True)
        finally:
            child.terminate()
            child.wait(timeout=SOON_S)
