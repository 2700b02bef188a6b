"""Export of a tenant's records as JSONL."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine

from ansorpy.server.db.engine import reading
from ansorpy.server.jobs import queries

PAGE: Final = 500


@dataclass(frozen=True, slots=True)
class RecordService:
    """Use cases of `routes.records`."""

    engine: Engine

    def check(self, tenant_id: int, job_id: str | None) -> None:
        """Raise NotFoundError unless the tenant has the job."""
        if job_id is not None:
            with reading(self.engine) as tx:
                queries.find(tx, tenant_id, job_id)

    def lines(self, tenant_id: int, job_id: str | None, after: int) -> Iterator[str]:
        """Yield the records after number `after` as JSONL, oldest first, one page per item."""
        while True:
            with reading(self.engine) as tx:
                rows = queries.records_after(tx, tenant_id, after, PAGE, job_id)
            yield "".join(f"{row.body}\n" for row in rows)
            if len(rows) < PAGE:
                return
            after = rows[-1].seq
