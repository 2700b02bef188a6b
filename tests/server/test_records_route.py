"""Records are imported over REST: bounded, all or none, without trust, without an echo."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ansorpy.records import IMPORTED, encode
from ansorpy.server.db.records import SqlStore
from ansorpy.server.db.upgrade import local_tenant
from tests.server.service import Service, service
from tests.test_records import KEY, trial


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


JSONL = {"Content-Type": "application/x-ndjson"}
LINES = "\n".join(map(encode, (trial(1.0), trial(2.0), trial(1.0))))


def test_records_are_imported_once_and_without_trust(running: Service) -> None:
    reply = running.client.post("/v1/records", content=LINES, headers=JSONL)
    assert (reply.status_code, reply.json()) == (200, {"records": 3, "new": 2})
    again = running.client.post("/v1/records", content=LINES + "\n\n", headers=JSONL)
    assert again.json() == {"records": 3, "new": 0}
    store = SqlStore(running.engine, local_tenant(running.engine))
    assert [record.origin for record in store.all(KEY)] == [IMPORTED, IMPORTED]
    assert running.client.get("/v1/records").text.count("\n") == 2


@pytest.mark.parametrize(
    ("line", "place", "detail"),
    [
        (
            encode(trial(3.0)).replace("[4,8]", '"SECRET"'),
            "line 2.row",
            "cannot import line 2 because its field row is refused; expected a list of 0 to 4096"
            " items",
        ),
        (
            encode(trial(3.0)).replace('"measured"', '"SECRET"'),
            "line 2.outcome",
            "cannot import line 2 because its field outcome is refused; expected an outcome that is"
            " measured, estimated or failed",
        ),
        (
            encode(replace(trial(3.0), rules="")).replace('"rules":"",', ""),
            "line 2.rules",
            "cannot import line 2 because its field rules is refused; expected a value",
        ),
        (
            "SECRET",
            "line 2",
            "cannot import line 2 because it is no record; expected a line that GET /v1/records"
            " returns",
        ),
        (
            encode(trial(3.0)).replace(KEY, "SECRET/estimated"),
            "line 2",
            "cannot import line 2 because it is no record; expected a line that GET /v1/records"
            " returns",
        ),
    ],
)
def test_a_refused_line_is_named_without_its_values_and_nothing_is_kept(
    running: Service, line: str, place: str, detail: str
) -> None:
    body = f"{encode(trial(7.0))}\n{line}\n"
    reply = running.client.post("/v1/records", content=body, headers=JSONL)
    assert reply.status_code == 422
    assert reply.json()["detail"] == detail
    assert [mistake["place"] for mistake in reply.json()["errors"]] == [place]
    assert "SECRET" not in reply.text
    assert encode(trial(7.0)) not in running.client.get("/v1/records").text


def test_an_import_is_bounded_and_needs_its_type(running: Service) -> None:
    post = running.client.post
    assert post("/v1/records", content=LINES).status_code == 415
    plain = {"Content-Type": "text/plain"}
    assert post("/v1/records", content=LINES, headers=plain).status_code == 415
    assert post("/v1/records", content=b"\xff", headers=JSONL).status_code == 422
    long = post("/v1/records", content=b"{" * (2**20 + 1), headers=JSONL)
    assert long.status_code == 413
