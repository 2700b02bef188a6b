"""Reports of a survey: their check, their rows, the lease, the rate of trials."""

import json
from typing import Any

import pytest
from pydantic import ValidationError
from sqlalchemy import Engine, func, select

from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import SlotMinuteRow, SlotRow
from ansorpy.server.jobs import slots
from ansorpy.server.jobs.slots import KnownSlot, TrialRate, end_survey, store_report, take_survey
from ansorpy.server.schemas.survey import LONGEST_REASON, MOST_SLOTS, SurveyReport
from tests.server.surveys import line, report, slot, work

AT = "head:6379"
BEGIN_S = 1_800_000_000.0  # the begin of a minute and of five


def store(engine: Engine, now_s: float, *told: dict[str, Any], reason: str = "") -> None:
    with transaction(engine) as tx:
        assert take_survey(tx, AT, "a", now_s)
        store_report(tx, AT, report(*told, reason=reason), now_s)


def known(engine: Engine, now_s: float) -> list[KnownSlot]:
    with transaction(engine) as tx:
        return list(slots.slots(tx, now_s))


def rates(engine: Engine, now_s: float) -> list[TrialRate]:
    with transaction(engine) as tx:
        return slots.rates(tx, now_s)


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", '{"slots": null}', '{"slots": [{}]}', '{"reason": ""}',
        line(slot(name="")), line(slot(name="a\n")), line(slot(name="\ud800")),
        line(slot(name="a" * 256)), line(slot(name="ä")), line(slot(host="a\x00b")),
        line(slot(cores=[-1])), line(slot(cores=["0"])), line(slot(cores=list(range(4097)))),
        line(slot(state="gone")), line(slot(until="tomorrow")),
        line(slot(until="2026-12-01T19:00")), line(slot(until="0001-01-01T00:00:00+23:00")),
        line(slot(doing="measure")), line(slot(doing={"job": ""})),
        line(slot(doing=work("j", trials=-1))), line(slot(waiting=1.5)), line(slot(waiting="1")),
        line(slot(busy_s=-1.0)), line(slot(busy_s=float("nan"))), line(slot(up_s=float("inf"))),
        line(slot(up_s=1e300)), line(slot(trials=2**41)), line(slot(trials=True)),
        line(slot(drift="1.0")), line(slot(), slot()),
        line(*(slot(f"h/{k}") for k in range(MOST_SLOTS + 1))),
        '{"slots": ' + "[" * 100_000 + "]}",
    ],
    ids=range(35),
)  # fmt: skip
def test_a_wrong_line_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        SurveyReport.model_validate_json(text)


def test_a_right_line_is_taken_and_its_reason_is_cut() -> None:
    told = report(slot(until="2026-12-01T19:00:00+00:00", doing=work("j"), later=1))
    assert told.slots[0].doing is not None
    reason = SurveyReport.model_validate_json(
        json.dumps({"slots": [], "reason": "\x00ä" + "x" * 9999})
    )
    assert reason.reason == " ?" + "x" * (LONGEST_REASON - 2)


def test_one_worker_has_the_lease_until_it_ends_or_stops(engine: Engine) -> None:
    def takes(owner: str, now_s: float, cluster: str = AT) -> bool:
        with transaction(engine) as tx:
            return take_survey(tx, cluster, owner, now_s)

    assert takes("a", BEGIN_S)
    assert takes("b", BEGIN_S, "other:1")
    assert not takes("b", BEGIN_S + slots.LEASE_S - 1)
    assert takes("a", BEGIN_S + slots.LEASE_S - 1)
    assert not takes("b", BEGIN_S + slots.LEASE_S + 1)
    assert takes("b", BEGIN_S + 2 * slots.LEASE_S)
    assert not takes("a", BEGIN_S + 2 * slots.LEASE_S)
    assert takes("a", BEGIN_S - 3600.0), "the clock was set back"
    with transaction(engine) as tx:
        end_survey(tx, AT, "b")
    assert not takes("b", BEGIN_S - 3600.0)
    with transaction(engine) as tx:
        end_survey(tx, AT, "a")
    assert takes("b", BEGIN_S - 3600.0)


def test_a_slot_that_is_not_seen_leaves_and_is_forgotten(engine: Engine) -> None:
    busy = slot("north/0", state="busy", doing=work("j"), waiting=2, busy_s=5.0)
    store(engine, BEGIN_S, busy, slot("south/0"))
    store(engine, BEGIN_S + 50, slot("south/0"))
    assert [one.report.state for one in known(engine, BEGIN_S + 60)] == ["busy", "idle"]
    north, _ = known(engine, BEGIN_S + 61)
    assert (north.report.state, north.report.doing, north.report.waiting, north.busy) == (
        "left", None, 0, 0.0,
    )  # fmt: skip
    assert [one.report.name for one in known(engine, BEGIN_S + 3601)] == ["south/0"]
    store(engine, BEGIN_S + 3601, reason="no answer")
    with transaction(engine) as tx:
        assert tx.scalars(select(SlotRow.name)).all() == ["south/0"]


def test_a_slot_that_the_survey_calls_left_is_not_kept_for_ever(engine: Engine) -> None:
    store(engine, BEGIN_S, slot("north/0", trials=9))
    for minutes in range(1, 70):
        store(engine, BEGIN_S + 60 * minutes, slot("north/0", state="left"), slot("east/0"))
    assert [one.report.name for one in known(engine, BEGIN_S + 60 * 69)] == ["east/0"]


def test_utilisation_is_of_the_last_minute(engine: Engine) -> None:
    def share(now_s: float, **totals: Any) -> float:
        store(engine, BEGIN_S + now_s, slot(**totals))
        (one,) = known(engine, BEGIN_S + now_s)
        return one.busy

    assert share(0, up_s=0.0, busy_s=0.0) == 0.0
    assert share(5, up_s=10.0, busy_s=5.0) == 0.5, "since it started"
    assert share(30, up_s=40.0, busy_s=10.0) == 0.25
    assert share(50, up_s=60.0, busy_s=30.0) == 0.5
    assert share(80, up_s=90.0, busy_s=60.0) == 0.5, "the minute has not ended"
    assert share(110, up_s=120.0, busy_s=90.0) == 1.0
    assert share(115, up_s=5.0, busy_s=1.0) == 0.2, "it started again"


def test_trials_are_counted_by_minute(engine: Engine) -> None:
    store(engine, BEGIN_S, slot("old/0", up_s=9000.0, trials=1000), slot("new/0", trials=3))
    store(engine, BEGIN_S + 30, slot("old/0", up_s=9030.0, trials=1010, busy_s=6.0))
    store(engine, BEGIN_S + 65, slot("old/0", up_s=2.0, trials=4, busy_s=1.0))  # started again
    store(engine, BEGIN_S + 70, slot("old/0", up_s=7.0, trials=2))  # a total that falls
    store(engine, BEGIN_S + 75, reason="no answer")
    store(engine, BEGIN_S + 400, slot("old/0", up_s=337.0, trials=900))  # not seen for minutes
    assert rates(engine, BEGIN_S + 59) == []
    assert rates(engine, BEGIN_S + 400) == [TrialRate(BEGIN_S, (13 + 4) / 2, 7.0 / 2 / 60)]
    assert [one.begin_s for one in rates(engine, BEGIN_S + 460)] == [BEGIN_S, BEGIN_S + 300]
    assert rates(engine, BEGIN_S + 460)[1].trials_per_minute == 0.0


def test_rates_of_clusters_are_added_and_a_day_of_them_is_kept(engine: Engine) -> None:
    store(engine, BEGIN_S, slot(trials=4))
    with transaction(engine) as tx:
        assert take_survey(tx, "other:1", "b", BEGIN_S)
        store_report(tx, "other:1", report(slot(trials=6)), BEGIN_S)
    assert [one.trials_per_minute for one in rates(engine, BEGIN_S + 60)] == [10.0]
    store(engine, BEGIN_S + 86_400 + 60, slot())
    with transaction(engine) as tx:
        assert tx.scalar(select(func.count()).select_from(SlotMinuteRow)) == 1
    with transaction(engine) as tx:
        assert [one.cluster for one in slots.surveys(tx, BEGIN_S + 3601)] == [AT]
