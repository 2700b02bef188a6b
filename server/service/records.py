"""Export and import of a tenant's records as JSONL."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Engine

from ansorpy.errors import RecordError
from ansorpy.records import IMPORTED, Record, decode
from ansorpy.server.db.engine import reading
from ansorpy.server.db.records import SqlStore
from ansorpy.server.jobs import queries
from ansorpy.server.jobs.errors import FieldError

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

    def take_in(self, tenant_id: int, body: bytes) -> tuple[int, int]:
        """Import the records of a JSONL document, all or none; return their number, and the new.

        Raises:
            FieldError: a line is no record; names the line and the field, without their values.
        """
        try:
            lines = body.decode().split("\n")
        except UnicodeDecodeError:
            raise FieldError(
                "cannot import the records because the body is not UTF-8; expected lines of JSON",
                "body",
            ) from None
        fresh: dict[str, Record] = {}
        count = 0
        for number, line in enumerate(lines, start=1):
            if line.strip():
                record = _record(number, line)
                fresh[record.id] = record
                count += 1
        store = SqlStore(self.engine, tenant_id)
        before = store.count()
        every = list(fresh.values())
        for first in range(0, len(every), PAGE):
            store.append(every[first : first + PAGE], IMPORTED)
        return count, store.count() - before

    def lines(self, tenant_id: int, job_id: str | None, after: int) -> Iterator[str]:
        """Yield the records after number `after` as JSONL, oldest first, one page per item."""
        while True:
            with reading(self.engine) as tx:
                rows = queries.records_after(tx, tenant_id, after, PAGE, job_id)
            yield "".join(f"{row.body}\n" for row in rows)
            if len(rows) < PAGE:
                return
            after = rows[-1].seq


def _record(number: int, line: str) -> Record:
    """Return the record of a line; FieldError names the line and the field."""
    try:
        return decode(line)
    except RecordError as error:
        what = f"its field {error.field} is refused" if error.field else "it is no record"
        expected = error.expected if error.field else "a line that GET /v1/records returns"
        place = f"line {number}" + (f".{error.field}" if error.field else "")
        message = f"cannot import line {number} because {what}; expected {expected}"
        raise FieldError(message, place) from None
