"""Records of the file in which Python kept them, taken into the database once (ADR-0021)."""

import fcntl
import logging
from pathlib import Path
from typing import Final

from ansorpy.errors import RecordError
from ansorpy.records import IMPORTED, MEASURED, JsonlStore, RecordStore
from ansorpy.records.jsonl import MEASURED_SUFFIX

log = logging.getLogger(__name__)

BATCH: Final = 500  # records per transaction
SUFFIX: Final = ".imported"  # end of the name of a file whose records are in the database


def take_in(path: Path, store: RecordStore) -> None:
    """Append the records of a JSONL store to `store`, each with its origin, and rename the file.

    Nothing happens if there is no file, or if one was taken in before: a later file belongs to the
    store `file`. After a crash in between the next call starts again, and equal records are kept
    once. A file that has a wrong line, or cannot be renamed, is left with a warning.
    """
    done = path.with_name(f"{path.name}{SUFFIX}")
    if done.exists():
        return
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_EX)  # the lock under which a JSONL store appends
            if not done.exists():  # else another process was first
                count = _append(JsonlStore(path), store)
                _rename(path, done)
                log.warning("took %d records of %s into the database; it is %s", count, path, done)
    except FileNotFoundError:
        return
    except (OSError, RecordError) as error:
        log.warning("cannot take in the records of %s because of %s", path, error)


def _append(old: JsonlStore, store: RecordStore) -> int:
    """Append the records of a store to another one, each with its origin; return their number."""
    records = list(old.export())
    for origin in (MEASURED, IMPORTED):
        mine = [record for record in records if record.origin == origin]
        for start in range(0, len(mine), BATCH):
            store.append(mine[start : start + BATCH], origin)
    return len(records)


def _rename(path: Path, done: Path) -> None:
    """Rename the files of a JSONL store, the list of measured records first."""
    measured = path.with_name(f"{path.name}{MEASURED_SUFFIX}")
    if measured.exists():
        measured.rename(done.with_name(f"{done.name}{MEASURED_SUFFIX}"))
    path.rename(done)
