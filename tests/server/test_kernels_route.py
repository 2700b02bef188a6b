import json
from collections.abc import Iterator
from hashlib import sha256

import pytest

from ansorpy.artifact.package import unbox
from tests.server.service import Service, package, service


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


def test_a_job_redirects_to_its_immutable_kernel(running: Service) -> None:
    job_id, digest = running.succeed()
    lead = running.client.get(f"/v1/jobs/{job_id}/kernels/mm", follow_redirects=False)
    assert (lead.status_code, lead.headers["location"]) == (307, f"/v1/kernels/{digest}")
    reply = running.client.get(lead.headers["location"])
    assert reply.content == package()
    assert reply.headers["etag"] == f'"{digest}"'
    assert reply.headers["content-type"] == "application/zip"
    assert "immutable" in reply.headers["cache-control"]
    assert f"kernel-{digest[:12]}.zip" in reply.headers["content-disposition"]
    again = running.client.get(f"/v1/kernels/{digest}", headers={"If-None-Match": f'"{digest}"'})
    assert (again.status_code, again.content) == (304, b"")
    assert running.client.get(f"/v1/jobs/{job_id}/kernels/other").status_code == 404


def test_every_file_can_be_downloaded(running: Service) -> None:
    _, digest = running.succeed()
    files = unbox(package(), "p").files
    for name, data in files.items():
        reply = running.client.get(f"/v1/kernels/{digest}/{name}")
        assert reply.content == data
        assert reply.headers["etag"] == f'"{sha256(data).hexdigest()}"'
        tag = {"If-None-Match": reply.headers["etag"]}
        assert running.client.get(f"/v1/kernels/{digest}/{name}", headers=tag).status_code == 304
    manifest = running.client.get(f"/v1/kernels/{digest}/manifest.json").json()
    assert manifest == json.loads(files["manifest.json"])
    assert running.client.get(f"/v1/kernels/{digest}/constants.npz").status_code == 404
    assert running.client.get(f"/v1/kernels/{digest}/other.py").status_code == 422


@pytest.mark.parametrize(
    ("asked", "begin", "end"),
    [
        ("bytes=0-0", 0, 1), ("bytes=10-19", 10, 20), ("bytes=100-", 100, None),
        ("bytes=-7", -7, None), ("bytes=5-99999999999", 5, None), ("bytes=-99999999", 0, None),
    ],
)  # fmt: skip
def test_a_range_returns_its_bytes(
    running: Service, asked: str, begin: int, end: int | None
) -> None:
    _, digest = running.succeed()
    data = package()
    reply = running.client.get(f"/v1/kernels/{digest}", headers={"Range": asked})
    assert (reply.status_code, reply.content) == (206, data[begin:end])
    first = begin % len(data)
    last = first + len(reply.content) - 1
    assert reply.headers["content-range"] == f"bytes {first}-{last}/{len(data)}"


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=-0", "bytes=99999999-999999999"])
def test_a_range_beyond_the_end_is_a_problem(running: Service, asked: str) -> None:
    _, digest = running.succeed()
    reply = running.client.get(f"/v1/kernels/{digest}", headers={"Range": asked})
    assert (reply.status_code, reply.json()["code"]) == (416, "range")
    assert reply.headers["content-range"] == f"bytes */{len(package())}"


@pytest.mark.parametrize(
    "asked",
    [
        "bytes=5-2",
        "bytes=0-1,5-6",
        "lines=0-1",
        "bytes=",
        "bytes=-",
        "bytes=a-b",
        "bytes=" + "9" * 99,
    ],
)
def test_an_unsupported_range_returns_everything(running: Service, asked: str) -> None:
    _, digest = running.succeed()
    reply = running.client.get(f"/v1/kernels/{digest}", headers={"Range": asked})
    assert (reply.status_code, reply.content) == (200, package())


def test_a_range_with_a_stale_if_range_returns_everything(running: Service) -> None:
    _, digest = running.succeed()
    headers = {"Range": "bytes=0-3", "If-Range": '"other"'}
    assert running.client.get(f"/v1/kernels/{digest}", headers=headers).status_code == 200
    headers["If-Range"] = f'"{digest}"'
    assert running.client.get(f"/v1/kernels/{digest}", headers=headers).status_code == 206
