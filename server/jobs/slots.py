"""Slots of clusters: the lease of a survey, its reports, and the rate of trials by minute.

Of several workers with one cluster a single worker surveys it, as long as it extends its lease.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from ansorpy.server.db.models import SlotMinuteRow, SlotRow, SurveyRow
from ansorpy.server.schemas.survey import SlotReport, SurveyReport

LEASE_S: Final = 30.0
MINUTE_S: Final = 60.0
LEFT_S: Final = 60.0  # age of the last report from which on a slot has left
FORGET_S: Final = 3_600.0  # age at which the row of a slot that left is deleted
KEPT_MINUTES: Final = 24 * 60
RATE_MINUTES: Final = 6 * 60  # minutes behind the rates of `rates`
MEAN_MINUTES: Final = 5  # minutes of a rate
GONE: Final[Mapping[str, object]] = {"state": "left", "doing": None, "waiting": 0, "until": ""}


@dataclass(frozen=True, slots=True)
class KnownSlot:
    """A slot of a cluster, and the share of the last minute in which it worked."""

    cluster: str
    report: SlotReport
    busy: float
    seen_s: float


@dataclass(frozen=True, slots=True)
class TrialRate:
    """Trials per minute, and slots that work on average, from `begin_s` on."""

    begin_s: float
    trials_per_minute: float
    busy_slots: float


def take_survey(tx: Session, cluster: str, owner: str, now_s: float) -> bool:
    """Take or extend the lease of a survey; return False while another worker has it."""
    free = or_(
        SurveyRow.owner == owner,
        SurveyRow.until_s < now_s,
        SurveyRow.until_s > now_s + 2 * LEASE_S,  # the clock was set back
    )
    mine = update(SurveyRow).where(SurveyRow.cluster == cluster, free)
    taken = tx.execute(mine.values(owner=owner, until_s=now_s + LEASE_S))
    if taken.rowcount:  # type: ignore[attr-defined]
        return True
    if tx.scalar(select(SurveyRow.owner).where(SurveyRow.cluster == cluster)) is not None:
        return False
    try:
        with tx.begin_nested():
            tx.add(
                SurveyRow(
                    cluster=cluster, owner=owner, until_s=now_s + LEASE_S, seen_s=now_s, reason=""
                )
            )  # fmt: skip
    except IntegrityError:  # another worker was faster
        return False
    return True


def end_survey(tx: Session, cluster: str, owner: str) -> None:
    """Give the lease back, so that another worker can survey at once."""
    mine = update(SurveyRow).where(SurveyRow.cluster == cluster, SurveyRow.owner == owner)
    tx.execute(mine.values(until_s=0.0))


def store_report(tx: Session, cluster: str, report: SurveyReport, now_s: float) -> None:
    """Store a report of the worker that has the lease, and delete old rows."""
    survey = update(SurveyRow).where(SurveyRow.cluster == cluster)
    tx.execute(survey.values(seen_s=now_s, reason=report.reason))
    known = {row.name: row for row in tx.scalars(select(SlotRow).where(SlotRow.cluster == cluster))}
    trials, busy_s = 0, 0.0
    for slot in report.slots:
        row = known.get(slot.name)
        if slot.state == "left":  # its row ages
            if row is not None:
                row.facts = slot.model_dump_json()
            continue
        if row is None:
            row = SlotRow(cluster=cluster, name=slot.name, seen_s=0.0)
            tx.add(row)
        more = _store_slot(row, slot, now_s)
        trials, busy_s = trials + more[0], busy_s + more[1]
    if not report.reason:
        _count(tx, cluster, int(now_s // MINUTE_S), trials, busy_s)
    tx.execute(delete(SlotRow).where(SlotRow.seen_s < now_s - FORGET_S))
    oldest = int(now_s // MINUTE_S) - KEPT_MINUTES
    tx.execute(delete(SlotMinuteRow).where(SlotMinuteRow.minute < oldest))


def _store_slot(row: SlotRow, slot: SlotReport, now_s: float) -> tuple[int, float]:
    """Write the row of a slot; return trials and working seconds since the last report.

    Totals of a slot without a recent report count only if the slot is as young.
    """
    recent = now_s - row.seen_s <= LEFT_S
    anew = not recent or slot.up_s < row.up_s
    if anew:
        row.from_busy_s = row.from_up_s = row.busy_s = row.up_s = 0.0
        row.trials = 0
    more = (max(0, slot.trials - row.trials), max(0.0, slot.busy_s - row.busy_s))
    past_s = slot.up_s - row.from_up_s
    if past_s >= MINUTE_S or row.from_up_s == 0.0:
        share = (slot.busy_s - row.from_busy_s) / past_s if past_s > 0.0 else 0.0
        row.busy = min(1.0, max(0.0, share))
    if past_s >= MINUTE_S:
        row.from_busy_s, row.from_up_s = slot.busy_s, slot.up_s
    row.facts = slot.model_dump_json()
    row.trials, row.busy_s, row.up_s, row.seen_s = slot.trials, slot.busy_s, slot.up_s, now_s
    return more if recent or slot.up_s <= LEFT_S else (0, 0.0)


def _count(tx: Session, cluster: str, minute: int, trials: int, busy_s: float) -> None:
    row = tx.get(SlotMinuteRow, (cluster, minute))
    if row is None:
        row = SlotMinuteRow(cluster=cluster, minute=minute, trials=0, busy_s=0.0)
        tx.add(row)
    row.trials += trials
    row.busy_s += busy_s


def surveys(tx: Session, now_s: float) -> Sequence[SurveyRow]:
    """Return the clusters with a report or a lease within the last hour."""
    recent = or_(SurveyRow.seen_s > now_s - FORGET_S, SurveyRow.until_s > now_s)
    return tx.scalars(select(SurveyRow).where(recent).order_by(SurveyRow.cluster)).all()


def slots(tx: Session, now_s: float) -> Iterator[KnownSlot]:
    """Yield the slots by cluster and name; slots without a recent report have left."""
    query = select(SlotRow).where(SlotRow.seen_s > now_s - FORGET_S)
    for row in tx.scalars(query.order_by(SlotRow.cluster, SlotRow.name)):
        report, busy = SlotReport.model_validate_json(row.facts), row.busy
        if report.state == "left" or now_s - row.seen_s > LEFT_S:
            report, busy = report.model_copy(update=GONE), 0.0
        yield KnownSlot(row.cluster, report, busy, row.seen_s)


def rates(tx: Session, now_s: float) -> list[TrialRate]:
    """Return the rates of the last hours, of all slots together; minutes without a report lack."""
    last = int(now_s // MINUTE_S)  # has not ended
    totals = select(
        SlotMinuteRow.minute, func.sum(SlotMinuteRow.trials), func.sum(SlotMinuteRow.busy_s)
    ).where(SlotMinuteRow.minute >= last - RATE_MINUTES, SlotMinuteRow.minute < last)
    rows = tx.execute(totals.group_by(SlotMinuteRow.minute).order_by(SlotMinuteRow.minute)).all()
    means = []
    for part, group in groupby(rows, lambda row: row[0] // MEAN_MINUTES):
        minutes = list(group)
        means.append(
            TrialRate(
                part * MEAN_MINUTES * MINUTE_S,
                float(sum(row[1] for row in minutes)) / len(minutes),
                sum(row[2] for row in minutes) / len(minutes) / MINUTE_S,
            )
        )
    return means
