"""The page of a derivation: the whole tree, each verdict with its reason, and the failures."""

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansorpy.events import Contrast, ScorePart, Suspect
from ansorpy.frontends.tc.text import parse
from ansorpy.measure.outcome import Failed
from ansorpy.rules import CPU
from ansorpy.server.db.records import record_row
from ansorpy.server.routes import pages
from ansorpy.server.service.derivation_tree import TreeRow, rule_uses, tree_rows
from ansorpy.sketch import Derivation, derive
from ansorpy.target import Target
from tests.server.service import MM, Service, service
from tests.server.test_explain import NET
from tests.test_records import trial


@pytest.fixture
def running(url: str) -> Iterator[Service]:
    with service(url) as found:
        yield found


@st.composite
def derivations(draw: Any) -> Derivation:
    """A chain of products and element-wise stages."""
    lines, last = [], "A"
    for n in range(draw(st.integers(1, 4))):
        line = draw(st.sampled_from(("+=! {0}(i,k) * B(k,j)", "= {0}(i,j) + 1", "= {0}(j,i)")))
        lines.append(f"T{n}(i,j) {line.format(last)}")
        last = f"T{n}"
    text = f"def net(float(64,64) A, float(64,64) B) -> ({last}) {{ {' '.join(lines)} }}"
    return derive(parse(text)[0], Target(), CPU)


@given(derivations())
def test_the_rows_are_the_whole_tree_once(derivation: Derivation) -> None:
    found = list(tree_rows(derivation))
    visits = [visit for row in found for visit in row.visits]
    assert len(visits) + len(derivation.sketches) == len(derivation.visits)
    assert {id(v) for v in visits} == {id(v) for v in derivation.visits if v.sketch is None}
    assert [row.sketch for row in found if row.sketch is not None] == list(
        range(len(derivation.sketches))
    )
    # A folded row has no decision; a branch has siblings.
    assert all(visit.undecided for row in found for visit in row.visits[1:])
    ways = sum(len(successors) for v in visits if len(successors := _successors(v)) > 1)
    assert sum(bool(row.rule) for row in found) == ways
    assert sum(use.asked for use in rule_uses(derivation.visits)) == sum(
        len(v.trials) for v in visits
    )


def _successors(visit: Any) -> list[int]:
    return [number for trial in visit.trials for number in trial.successors]


def test_a_path_without_a_choice_is_not_indented() -> None:
    chain = " ".join(f"T{n + 1}(i) = T{n}(i) + T{n}(i)" for n in range(40))
    text = f"def chain(float(8) T0) -> (T40) {{ {chain} }}"
    levels = {row.level for row in tree_rows(derive(parse(text)[0], Target(), CPU))}
    assert max(levels) <= 2


def test_every_verdict_and_its_reason_is_on_the_page(running: Service) -> None:
    page = running.client.get(f"/jobs/{running.submit(text=NET)}/explain").text
    wanted = derive(parse(NET)[0], Target(), CPU)
    shown = _cells(page)
    for visit in wanted.visits:
        for asked in visit.trials:
            assert (asked.rule, asked.answer.why) in shown
    assert len(re.findall(r"<strong>Sketch \d+</strong>", page)) == len(wanted.sketches)


def _cells(page: str) -> set[tuple[str, str]]:
    found = re.findall(r'<th scope="row">(\w+)</th><td>[a-z ]+</td><td>([^<]*)</td>', page)
    return {(rule, why.replace("&gt;", ">").replace("&lt;", "<")) for rule, why in found}


def test_a_long_derivation_comes_in_pages(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "ROWS", 5)
    job_id = running.submit(text=NET)
    path, sketches = f"/jobs/{job_id}/explain", 0
    for _ in range(200):
        page = running.client.get(path).text
        sketches += len(re.findall(r"<strong>Sketch \d+</strong>", page))
        more = re.search(r'href="([^"]+after=\d+)">More', page)
        if more is None:
            break
        path = more[1].replace("&amp;", "&")
    assert sketches == len(derive(parse(NET)[0], Target(), CPU).sketches)


def test_the_page_shows_the_chosen_task_and_its_failures(running: Service) -> None:
    job_id = running.submit(text=MM + NET)
    path = f"/jobs/{job_id}/explain"
    assert "Derivation of mm" in running.client.get(path).text
    assert "Derivation of net" in running.client.get(path, params={"task": "net"}).text
    assert running.client.get(path, params={"task": "other"}).status_code == 404
    with running.held(running.claim()) as (tx, row, _):
        for n in range(5):
            failed = Failed("wrong", f"C[0] is {n}, not <b>2</b>")
            record = replace(trial(1.0, row=(n,)), outcome=failed)
            tx.add(record_row(record, row.tenant_id, row.id, "mm", 1, origin="measured"))
        suspect = Suspect("wrong", "A packed", 5, 5, 6, 64, 1e-6)
        row.progress = json.dumps({"mm": {"trials": 64, "suspects": [asdict(suspect)]}})
        parts = (ScorePart("core.loads", 1200.0, 2400.0, 0.06, 0.6),)
        contrast = Contrast(1.25e-5, 2e-5, ("A packed",), (), parts)
        row.results = json.dumps([{"name": "mm", "contrast": asdict(contrast)}])
    reply = running.client.get(f"/v1{path}").json()
    assert reply["failures"][0]["suspect"]["text"] == str(suspect)
    assert reply["contrast"]["text"] == str(contrast)
    told = "mm: 5 of 5 failures (wrong) have A packed, as 6 of 64 trials do (lift 10.7, p = 1e-06)"
    of_job = running.client.get(f"/jobs/{job_id}").text
    assert told in of_job
    why = running.client.get(f"/jobs/{job_id}/why").text
    assert "12.5 µs against 20.0 µs in trials" in why
    rows = re.search(r'<table class="list differences">(.*?)</table>', why, re.DOTALL)
    assert rows is not None
    assert " ".join(re.sub("<[^>]+>", " ", rows[1]).split()).endswith(
        "A packed yes – core.loads 1200 2400 60 % for the winner"  # noqa: RUF001
    )
    page = running.client.get(path).text
    assert told in page
    assert "12.5 us against 20 us in trials; it alone has A packed; the scores of" in page
    assert "3 of 5 messages" in page
    assert "not &lt;b&gt;2&lt;/b&gt;" in page
    assert "report the message" in page


def test_a_too_large_derivation_is_reported(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ansorpy.server.service.explain.SKETCHES", 0)
    page = running.client.get(f"/jobs/{running.submit(text=NET, seed=7)}/explain")
    assert page.status_code == 200
    assert "too many sketches" in page.text


def test_a_row_lists_its_decisions() -> None:
    found = list(tree_rows(derive(parse(MM)[0], Target(), CPU)))
    visited = [row for row in found if row.visits]
    assert any(row.decided for row in visited)
    assert any(not row.decided for row in visited)
    assert isinstance(found[0], TreeRow)
