"""The store in a file, one JSON object per line."""

import fcntl
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from ansorpy.folders import data_dir
from ansorpy.records.reader import import_jsonl
from ansorpy.records.record import IMPORTED, MEASURED, Origin, Record, encode
from ansorpy.records.store import MemoryStore

ID: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
MEASURED_SUFFIX: Final = ".measured"  # end of the name of the list of measured records


class JsonlStore(MemoryStore):
    """One JSON object per line, flushed to disk before `append` returns.

    Several processes may append to one file (an advisory lock orders them). A last line that was
    torn by a crash was never acknowledged: it is skipped on reading and cut off by the next
    append. A broken line anywhere else is a RecordError.

    The ids of the records that a tuner measured stand in a second file, `<name>.measured`. Lines
    that were pasted, or a file that came from elsewhere, are `imported` (ADR-0021).
    """

    def __init__(self, path: os.PathLike[str] | str) -> None:
        super().__init__()
        self.path = path = Path(path)
        self.measured_path = path.with_name(f"{path.name}{MEASURED_SUFFIX}")
        if path.exists():
            # Bytes that are not UTF-8 become surrogates, which the reader refuses.
            text = path.read_bytes().rpartition(b"\n")[0].decode(errors="surrogateescape")
            measured = self._measured_ids()
            for record in import_jsonl(text.split("\n"), str(path)):
                key = record.id
                self._add({key: record}, MEASURED if key in measured else IMPORTED)

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Write and fsync the records that are new."""
        asked = {record.id: record for record in records}
        new = {key: record for key, record in asked.items() if key not in self._records}
        if not new:
            return
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lines = "".join(encode(record) + "\n" for record in new.values()).encode()
        with open(self.path, "ab+", opener=_open_private) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            _append(file, lines)
            # After the records: a crash in between leaves them imported, never the reverse.
            if origin == MEASURED:
                with open(self.measured_path, "ab+", opener=_open_private) as ids:
                    _append(ids, "".join(f"{id_}\n" for id_ in new).encode())
        self._add(new, origin)

    def _measured_ids(self) -> frozenset[str]:
        if not self.measured_path.exists():
            return frozenset()
        text = self.measured_path.read_bytes().decode("ascii", errors="replace")
        return frozenset(filter(ID.fullmatch, text.split("\n")))


def _open_private(path: str, flags: int) -> int:
    """Open a file; a new one is readable for its user only."""
    return os.open(path, flags, mode=0o600)


def _append(file: BinaryIO, lines: bytes) -> None:
    _cut_torn_line(file)
    file.write(lines)
    file.flush()
    os.fsync(file.fileno())


def _cut_torn_line(file: BinaryIO) -> None:
    """Truncate `file` after its last newline."""
    size_bytes = end_bytes = file.seek(0, os.SEEK_END)
    while end_bytes > 0:
        start_bytes = max(0, end_bytes - 4096)
        file.seek(start_bytes)
        at = file.read(end_bytes - start_bytes).rfind(b"\n")
        if at >= 0:
            end_bytes = start_bytes + at + 1
            break
        end_bytes = start_bytes
    if end_bytes < size_bytes:
        file.truncate(end_bytes)


def file_store() -> JsonlStore:
    """Return the store in a file of the data folder."""
    return JsonlStore(file_store_path())


def file_store_path() -> Path:
    """Return the file of the store in the data folder."""
    return data_dir() / "records.jsonl"
