"""Tensor Comprehensions: text, cancellation, and a cache for other machines."""

import json

import pytest

from ansorpy.frontends.tc.text import parse
from ansorpy.records import IMPORTED
from ansorpy.server.db.records import SqlStore
from ansorpy.server.db.upgrade import local_tenant
from tests.systems.stage import Stage


def test_ranges_follow_from_one_line_of_text() -> None:
    """A user writes one statement; the ranges of its indices follow from the inputs."""
    (product,) = parse("def mm(float(4,5) A, float(5,6) B) -> (C) { C(i,j) +=! A(i,k)*B(k,j) }")
    (window,) = parse("def w(float(9) X, float(3) W) -> (Y) { Y(h) +=! X(h + k) * W(k) }")
    assert (product.node("C").shape, window.node("Y").shape) == ((4, 6), (7,))


@pytest.mark.night
def test_a_cache_of_another_machine_comes_without_trust(stage: Stage) -> None:
    """A user imports the records of another machine; they are marked, and their times no claim."""
    lines = stage.client.get("/v1/records", params={"job": stage.auto["id"]}).text.splitlines()
    told = [json.loads(line) for line in lines]
    foreign = [{**one, "key": f"{one['key'].partition('/')[0]}/{'0' * 16}"} for one in told]
    reply = stage.client.post(
        "/v1/records",
        content="\n".join(map(json.dumps, foreign)),
        headers={"Content-Type": "application/x-ndjson"},
    )
    assert reply.json() == {"records": len(foreign), "new": len(foreign)}
    store = SqlStore(stage.service.engine, local_tenant(stage.service.engine))
    found = [one.origin for one in store.export() if one.key == foreign[0]["key"]]
    assert found == [IMPORTED] * len(foreign)
