"""Compression of pages: compressed and uncompressed replies, and their headers."""

import gzip
import re

import pytest

from ansorpy.server.http.compression import MIN_BYTES, accepts_gzip
from tests.server.service import service
from tests.server.test_pages import tell

GZIP = {"Accept-Encoding": "gzip"}
PLAIN = {"Accept-Encoding": "identity"}


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("gzip", True), ("br, GZIP;q=0.5", True), ("*", True), ("gzip ; q=1.0", True),
        ("", False), ("br", False), ("gzip;q=0", False), ("gzip; q=0.000, *", False),
        ("*;q=0", False), ("x-gzip", False), ("," * 5000 + "gzip", False),
    ],
)  # fmt: skip
def test_accept_encoding_decides(header: str, accepted: bool) -> None:
    assert accepts_gzip(header) is accepted


def test_a_page_is_compressed_if_the_request_accepts_it(url: str) -> None:
    with service(url) as running:
        place = f"/jobs/{running.submit()}"
        plain = running.client.get(place, headers=PLAIN)
        with running.client.stream("GET", place, headers=GZIP) as reply:
            sent = b"".join(reply.iter_raw())
        assert "content-encoding" not in plain.headers
        assert reply.headers["content-encoding"] == "gzip"
        assert int(reply.headers["content-length"]) == len(sent) < len(plain.content) / 2
        texts = [plain.text, gzip.decompress(sent).decode()]
        assert len({re.sub(r"[\d.]+ ?s?", "", text) for text in texts}) == 1  # except for ages
        for one in (plain, reply):
            assert one.headers["vary"] == "Accept-Encoding"
            assert one.headers["cache-control"] == "private, no-store"


def test_large_chart_data_is_compressed(url: str) -> None:
    with service(url) as running:
        job_id = running.submit()
        claimed = running.claim()
        place = f"/jobs/{job_id}/charts/latency.csv"
        few = running.client.get(place, headers=GZIP)
        for trials in range(8, 400, 8):
            tell(running, claimed, trials=trials)
        many = running.client.get(place, headers=GZIP)
        assert len(few.content) < MIN_BYTES < len(many.content)
        assert "content-encoding" not in few.headers
        assert many.headers["content-encoding"] == "gzip"
        assert many.text.count("\n") == 50


def test_packages_streams_and_the_api_are_not_compressed(url: str) -> None:
    with service(url) as running:
        job_id, digest = running.succeed(fresh=True)
        for path in (
            f"/v1/kernels/{digest}", f"/v1/kernels/{digest}/kernel.py", f"/v1/jobs/{job_id}",
            f"/v1/jobs/{job_id}/events", "/openapi.json", "/static/dashboard.css",
        ):  # fmt: skip
            reply = running.client.get(path, headers=GZIP)
            assert reply.status_code == 200, path
            assert "content-encoding" not in reply.headers, path
        part = running.client.get(f"/v1/kernels/{digest}", headers={**GZIP, "Range": "bytes=0-9"})
        assert (part.status_code, len(part.content)) == (206, 10)
        assert part.headers["etag"] == f'"{digest}"'
