"""TensorRT: the timing cache."""

import pytest

from tests.server.service import MM
from tests.systems.stage import Stage


@pytest.mark.night
def test_an_equal_request_is_answered_from_the_records(stage: Stage) -> None:
    """A user submits an equal request again, also in another notation: no second tuning."""
    auto = stage.auto
    before = stage.records(auto)
    reply = stage.client.post("/v1/jobs", json={"text": MM, "cores": 1, "budget": {"trials": 2}})
    assert (reply.status_code, reply.json()["how"]) == (200, "answered")
    assert reply.json()["id"] == auto["id"]
    assert reply.json()["tasks"][0]["kernel"] == auto["tasks"][0]["kernel"]
    assert stage.records(auto) == before
