"""Files of models and bundles in the database, in chunks, each in a transaction of its own.

Such a file may be larger than a value of the database, and than the memory of the service. A file
without an owner (`ModelRow`, `BundleRow`) is invisible: it is being written, or its writer died.
"""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Final

from sqlalchemy import ColumnElement, Engine, delete, func, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import InstrumentedAttribute, Session

from ansorpy.server.db.engine import now, reading, transaction
from ansorpy.server.db.models import BundleRow, ModelChunkRow, ModelFileRow, ModelRow

CHUNK_BYTES: Final = 4 << 20
DROPPED: Final = 8  # chunks that one transaction deletes
ABANDONED_S: Final = 600.0  # time after its last chunk until a file without an owner is removed


def chunk_count(size_bytes: int) -> int:
    """Return the number of chunks of a file."""
    return -(-size_bytes // CHUNK_BYTES)


def write(engine: Engine, sha256: str, size_bytes: int, file: BinaryIO) -> bool:
    """Write the chunks that the database does not have yet.

    Returns:
        False if the file was removed meanwhile, by the deletion of its last owner: write it again.
    """
    with suppress(IntegrityError), transaction(engine) as tx:  # another upload added it just now
        if tx.get(ModelFileRow, sha256) is None:
            now_s = now(tx)
            tx.add(
                ModelFileRow(sha256=sha256, size_bytes=size_bytes, created_s=now_s, touched_s=now_s)
            )
    for number in range(chunk_count(size_bytes)):
        with transaction(engine) as tx:
            # The lock on the row of the file serialises the writers of its chunks.
            touched = update(ModelFileRow).where(ModelFileRow.sha256 == sha256)
            if not tx.execute(touched.values(touched_s=now(tx))).rowcount:  # type: ignore[attr-defined]
                return False
            if tx.get(ModelChunkRow, (sha256, number)) is None:
                file.seek(number * CHUNK_BYTES)
                content = file.read(CHUNK_BYTES)
                tx.add(ModelChunkRow(sha256=sha256, number=number, content=content))
    return True


def lock_complete(tx: Session, sha256: str) -> ModelFileRow | None:
    """Return the locked row of a file, or None unless all its chunks are there."""
    row = tx.get(ModelFileRow, sha256, with_for_update=True)
    count = select(func.count()).where(ModelChunkRow.sha256 == sha256)
    return None if row is None or tx.scalar(count) != chunk_count(row.size_bytes) else row


def chunks(engine: Engine, sha256: str, begin: int = 0, end: int | None = None) -> Iterator[bytes]:
    """Yield the bytes [begin, end) of a file, to its end if that is None.

    Raises:
        LookupError: the file is not there, or was removed meanwhile.
    """
    with reading(engine) as tx:
        row = tx.get(ModelFileRow, sha256)
    size_bytes = 0 if row is None else row.size_bytes
    end = size_bytes if end is None else min(end, size_bytes)
    for number in range(begin // CHUNK_BYTES, chunk_count(end)):
        with reading(engine) as tx:
            content = tx.scalar(
                select(ModelChunkRow.content).where(
                    ModelChunkRow.sha256 == sha256, ModelChunkRow.number == number
                )
            )
        if content is None:
            row = None
            break
        at = number * CHUNK_BYTES
        yield content[max(0, begin - at) : end - at]
    if row is None:
        raise LookupError(f"file {sha256} was removed")


def export(engine: Engine, sha256: str, path: Path) -> None:
    """Write the content of a file to `path`, which does not exist.

    Raises:
        LookupError: the file is not there, or was removed meanwhile; `path` is then removed.
    """
    try:
        with path.open("xb") as target:
            for content in chunks(engine, sha256):
                target.write(content)
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def drop_unowned(engine: Engine, sha256: str, before_s: float) -> None:
    """Remove a file, unless it has an owner, or an upload touched it at `before_s` or later."""
    left = True
    while left:
        with transaction(engine) as tx:
            row = tx.get(ModelFileRow, sha256, with_for_update=True)
            if row is None or row.touched_s >= before_s or tx.scalar(select(_owned(sha256))):
                return
            one = ModelChunkRow.sha256 == sha256
            numbers = tx.scalars(select(ModelChunkRow.number).where(one).limit(DROPPED)).all()
            tx.execute(delete(ModelChunkRow).where(one, ModelChunkRow.number.in_(numbers)))
            left = len(numbers) == DROPPED
            if not left:
                tx.delete(row)


def sweep(engine: Engine) -> int:
    """Remove files that killed uploads and deletions left; return their number."""
    with reading(engine) as tx:
        before_s = now(tx) - ABANDONED_S
        owned = _owned(ModelFileRow.sha256)
        query = select(ModelFileRow.sha256).where(~owned, ModelFileRow.touched_s < before_s)
        found = tx.scalars(query).all()
    for sha256 in found:
        drop_unowned(engine, sha256, before_s)
    return len(found)


def _owned(sha256: str | InstrumentedAttribute[str]) -> ColumnElement[bool]:
    """Return the SQL condition that a file has an owner."""
    return or_(
        *(select(kind.seq).where(kind.sha256 == sha256).exists() for kind in (ModelRow, BundleRow))
    )
