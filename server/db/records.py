"""Record store (`ansorpy.records.Store`) of one tenant in a database."""

import itertools
import json
import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Any, Final

from sqlalchemy import ColumnElement, Engine, Row, Select, func, select
from sqlalchemy.orm import Session

from ansorpy.errors import RecordError
from ansorpy.measure.outcome import Failed, Measured
from ansorpy.records import (
    IMPORTED,
    MEASURED,
    Origin,
    Record,
    best_of_each,
    decode,
    encode,
)
from ansorpy.server.db.engine import transaction
from ansorpy.server.db.models import RecordRow

log = logging.getLogger(__name__)

PAGE: Final = 1000
FEW: Final = 8  # rows of a query whose first row suffices if this version can decode it
SIMILAR: Final = 256  # keys of one structure that are looked at
STORED: Final = (RecordRow.body, RecordRow.origin)  # columns that `records_of` needs


class SqlStore:
    """Record store of one tenant, including the records of its jobs."""

    def __init__(self, engine: Engine, tenant_id: int) -> None:
        self.engine = engine
        self.tenant_id = tenant_id

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Insert the new ones of `records`, in one transaction."""
        unique = {record.id: record for record in records}
        with transaction(self.engine) as tx:
            query = select(RecordRow.id).where(self._mine, RecordRow.id.in_(unique))
            known = set(tx.scalars(query))
            tx.add_all(
                record_row(record, self.tenant_id, origin=origin)
                for id_, record in unique.items()
                if id_ not in known
            )

    def all(self, key: str) -> tuple[Record, ...]:
        """Return the records of one task, oldest first."""
        query = select(*STORED).where(self._mine, RecordRow.key == key)
        with transaction(self.engine) as tx:
            return tuple(records_of(tx.execute(query.order_by(RecordRow.seq))))

    def best(self, key: str) -> Record | None:
        """Return the fastest measured trial of one task, or None."""
        query = (
            select(*STORED)
            .where(self._mine, RecordRow.key == key, RecordRow.cost_s.is_not(None))
            .order_by(RecordRow.cost_s, RecordRow.seq)
        )
        with transaction(self.engine) as tx:
            return next(records_of(paged(tx, query)), None)

    def similar(self, structure: str) -> tuple[Record, ...]:
        """Return the fastest complete trial of each key whose Dags have this structure."""
        with transaction(self.engine) as tx:
            return similar_of(tx, structure, self._mine)

    def count(self, key: str | None = None) -> int:
        """Return the number of records, of one task or of all."""
        query = select(func.count()).select_from(RecordRow).where(self._mine)
        if key is not None:
            query = query.where(RecordRow.key == key)
        with transaction(self.engine) as tx:
            return tx.scalar(query) or 0

    def export(self) -> Iterator[Record]:
        """Yield every record, oldest first, a page per transaction."""
        last = 0
        while True:
            query = select(*STORED, RecordRow.seq).where(self._mine, RecordRow.seq > last)
            with transaction(self.engine) as tx:
                rows = tx.execute(query.order_by(RecordRow.seq).limit(PAGE)).all()
            yield from records_of(rows)
            if len(rows) < PAGE:
                return
            last = rows[-1].seq

    @property
    def _mine(self) -> ColumnElement[bool]:
        return RecordRow.tenant_id == self.tenant_id


def paged(tx: Session, query: Select[*tuple[Any, ...]]) -> Iterator[Row[*tuple[Any, ...]]]:
    """Yield the rows of a query whose first rows usually suffice, FEW at a time."""
    for begin in itertools.count(0, FEW):
        rows = tx.execute(query.limit(FEW).offset(begin)).all()
        yield from rows
        if len(rows) < FEW:
            return


def similar_of(tx: Session, structure: str, *conditions: ColumnElement[bool]) -> tuple[Record, ...]:
    """Return the fastest complete trial of each key whose Dags have this structure.

    At most SIMILAR keys, those that were measured last.
    """
    ranked = (
        select(
            RecordRow.key,
            func.min(RecordRow.cost_s).label("cost_s"),
        )
        .where(*conditions, RecordRow.structure == structure, RecordRow.cost_s.is_not(None))
        .group_by(RecordRow.key)
        .order_by(func.max(RecordRow.seq).desc())
        .limit(SIMILAR)
        .subquery()
    )
    same = (RecordRow.key == ranked.c.key) & (RecordRow.cost_s == ranked.c.cost_s)
    query = select(*STORED).join(ranked, same).where(*conditions).order_by(RecordRow.seq)
    return best_of_each(records_of(tx.execute(query)))


def records_of(rows: Iterable[Row[*tuple[Any, ...]]]) -> Iterator[Record]:
    """Yield the records of rows that begin with the columns STORED, each with its origin.

    Rows that this version cannot decode are skipped with a warning, because one such row must not
    end every tuning of its task.
    """
    for body, origin, *_ in rows:
        try:
            record = decode(body)
        except RecordError as error:
            log.warning("skipping a stored record: %s", error)
            continue
        yield replace(record, origin=MEASURED if origin == MEASURED else IMPORTED)


def record_row(
    record: Record,
    tenant_id: int,
    job_id: str | None = None,
    task: str = "",
    round_: int = 0,
    *,
    origin: Origin,
) -> RecordRow:
    """Return the row of a record; `job_id`, `task` and `round_` name its place in a job."""
    outcome = record.outcome
    complete = isinstance(outcome, Measured) and not outcome.aborted and record.race is None
    return RecordRow(
        tenant_id=tenant_id,
        id=record.id,
        job_id=job_id,
        candidate=candidate_of(record, task),
        task=task,
        round=round_,
        key=record.key,
        cost_s=record.best_s if complete else None,
        failure=outcome.kind if isinstance(outcome, Failed) else None,
        structure=record.structure or None,
        body=encode(record),
        origin=origin,
    )


def candidate_of(record: Record, task: str = "") -> str:
    """Return the digest of a candidate, independent of its outcome; races have their own."""
    kind = "trial" if record.race is None else f"race {record.race.request}"
    tried = [kind, task, record.key, record.plan, *record.row]
    return sha256(json.dumps(tried).encode()).hexdigest()
