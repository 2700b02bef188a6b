"""The page of machines and `GET /v1/machines`: slots, work of tenants, the rate of trials."""

import html
import re

import pytest
from sqlalchemy import Engine

from ansorpy.server.access import keys
from ansorpy.server.db.engine import now, transaction
from ansorpy.server.db.models import SlotMinuteRow
from ansorpy.server.jobs.slots import store_report, take_survey
from ansorpy.server.routes import pages
from ansorpy.server.schemas.service import RateReply
from ansorpy.server.web.curve import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from ansorpy.server.web.rate_curve import rate_curve
from tests.server.service import Service, service
from tests.server.surveys import report, slot, work
from tests.server.test_pages import EVIL

AT = "head:6379"


def store(running: Service, *told: dict[str, object], reason: str = "", at: str = AT) -> float:
    """Store a report; return its time."""
    with transaction(running.engine) as tx:
        now_s = now(tx)
        assert take_survey(tx, at, "w", now_s)
        store_report(tx, at, report(*told, reason=reason), now_s)
    return now_s


def words(page: str) -> str:
    """Return the text of a page."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


def row(page: str, name: str) -> str:
    """Return the words of the row of a slot."""
    (found,) = [one for one in re.findall(r"<tr>.*?</tr>", page, re.DOTALL) if f">{name}<" in one]
    return words(found)


def test_without_a_cluster_the_page_has_a_sentence_and_the_workers(url: str) -> None:
    with service(url) as running:
        running.worker("feedfeedfeedfeed")
        page = running.client.get("/machines").text
        assert "No worker has a cluster, so each measures on its own cores" in page
        assert "feedfeedfeedfeed" in page
        assert "Slots" not in page
        away = running.client.get("/workers", follow_redirects=False)
        assert away.headers["location"] == "/machines"
        told = running.client.get("/v1/machines").json()
        assert told == {"clusters": [], "slots": [], "rates": []}


def test_slots_have_state_work_drift_and_rest(url: str) -> None:
    with service(url) as running:
        job_id = running.submit()
        seen_s = store(
            running,
            slot("a/0", state="busy", doing=work(job_id), waiting=2, busy_s=9.0, drift=1.02),
            slot("b/0", drift=1.15, trials=77),
            slot("c/0", state="resting", until="2030-12-01T20:00:00+01:00", cores=[3]),
        )
        page = running.client.get("/machines").text
        assert row(page, "a/0") == (
            f"a/0 10.0.0.2 · 2 cores busy 90 % 2 measure {job_id[:8]} 16 trials, 1.2 s 1.02× 0"  # noqa: RUF001
            " bd495f1bbf07f2ce ansorpy 0.2.0"
        )
        assert f'href="/jobs/{job_id}"' in page
        assert '<span class="drifted" title="Slower than at first' in page
        assert page.count('class="drifted"') == 1
        assert "1 core resting until 2030-12-01 19:00:00 UTC" in row(page, "c/0")
        assert f"ansorpy slot --cluster {AT}" in page
        told = running.client.get("/v1/machines").json()
        assert told["clusters"] == [{"address": AT, "reason": "", "seen_s": seen_s}]
        first = told["slots"][0]
        assert first["doing"] == {
            "job": job_id, "method": "measure", "trials": 16, "seconds": 1.2,
        }  # fmt: skip
        assert (first["busy"], first["waiting"], first["cores"]) == (0.9, 2, [0, 1])
        metrics = running.client.get("/metrics").text
        assert 'ansorpy_slots{state="resting"} 1.0' in metrics


def test_jobs_of_other_tenants_are_not_shown(url: str, engine: Engine) -> None:
    with transaction(engine) as tx:
        own, _ = keys.create(tx, "own", ("read", "tune", "admin"), now(tx))
        other, _ = keys.create(tx, "other", ("read", "tune", "admin"), now(tx))
        reader, _ = keys.create(tx, "own", ("read", "tune"), now(tx))
    with service(url, {"Authorization": f"Bearer {own}"}) as running:
        job_id = running.submit()
        unknown = "f" * 32
        store(
            running, slot("a/0", state="busy", doing=work(job_id)),
            slot("b/0", state="busy", doing=work(unknown)),
        )  # fmt: skip
        foreign = {"Authorization": f"Bearer {other}"}
        for path in ("/machines", "/v1/machines"):
            mine = running.client.get(path).text
            assert job_id in mine
            theirs = running.client.get(path, headers=foreign).text
            assert job_id[:8] not in theirs
            assert unknown[:8] not in mine + theirs
            assert "measure" in theirs
            scope = {"Authorization": f"Bearer {reader}"}
            assert running.client.get(path, headers=scope).status_code == 403


def test_a_cluster_that_cannot_be_reached_tells_the_reason_escaped(url: str) -> None:
    with service(url) as running:
        store(running, reason=EVIL)
        page = running.client.get("/machines").text
        assert f"Cannot survey the cluster at {AT}: {html.escape(EVIL, quote=False)[:9]}" in page
        assert "<script>w" not in page
        assert "<img" not in page
        assert "No machine has joined yet" in page
        assert running.client.get("/v1/machines").json()["clusters"][0]["reason"] == EVIL


def test_the_page_shows_some_slots_and_names_the_others(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SLOTS", 2)
    with service(url) as running:
        store(running, *(slot(f"h/{k}") for k in range(5)))
        store(running, slot("x/0"), at="other:1")
        page = running.client.get("/machines").text
        assert ("h/1" in page, "h/2" in page) == (True, False)
        assert "4 more slots are in the" in page
        assert "head:6379" in row(page, "h/0"), "several clusters are told apart"


def test_the_rate_is_a_curve(url: str) -> None:
    with service(url) as running:
        now_s = store(running, slot())
        minute = int(now_s // 60)
        with transaction(running.engine) as tx:
            for k in range(2, 121):
                tx.add(SlotMinuteRow(cluster=AT, minute=minute - k, trials=k, busy_s=30.0))
        page = running.client.get("/machines").text
        assert 'aria-label="Trials per minute of all slots over the last hours"' in page
        assert 20 <= page.count("trials per minute</title>") <= 25
        rates = running.client.get("/v1/machines").json()["rates"]
        assert rates[-1]["busy_slots"] == 0.5


def test_a_pause_of_the_survey_is_a_gap_in_the_curve() -> None:
    begins = [0.0, 300.0, 600.0, 3600.0, 3900.0]
    rates = [RateReply(begin_s=s, trials_per_minute=s / 60, busy_slots=1.0) for s in begins]
    curve = rate_curve(rates)
    assert curve is not None
    assert [len(line.dots) for line in curve.lines] == [3, 2]
    dots = [dot for line in curve.lines for dot in line.dots]
    assert all(LEFT <= dot.x <= WIDTH - RIGHT and TOP <= dot.y <= HEIGHT - BOTTOM for dot in dots)
    assert dots[-1].text == "01:05: 65 trials per minute"
    assert [tick.label for tick in curve.moments] == ["00:00", "00:15", "00:30", "00:45", "01:00"]
    assert rate_curve(rates[:1]) is None
    still = [RateReply(begin_s=s, trials_per_minute=0.0, busy_slots=0.0) for s in begins]
    assert rate_curve(still) is not None
