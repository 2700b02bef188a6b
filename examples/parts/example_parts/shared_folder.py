"""A store of records in a folder that several machines see: one file per process."""

import os
from collections.abc import Sequence
from pathlib import Path
from platform import node
from uuid import uuid4

from ansorpy.records import IMPORTED, MEASURED, MemoryStore, Origin, Record, encode, import_jsonl

FOLDER = "EXAMPLE_PARTS_RECORDS"  # the variable that names the folder


class SharedFolder(MemoryStore):
    """Records that this machine measured answer requests; those of others start searches."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(os.environ.get(FOLDER, "records"))
        self._id = uuid4().hex
        for path in sorted(self._folder.glob("*.jsonl"), key=lambda path: path.stat().st_mtime_ns):
            origin: Origin = MEASURED if path.name.startswith(_start(MEASURED)) else IMPORTED
            lines = path.read_text(encoding="utf-8").split("\n")[:-1]  # without a torn last one
            super().append([*import_jsonl(lines, str(path))], origin)

    def append(self, records: Sequence[Record], origin: Origin = IMPORTED) -> None:
        """Write and fsync the records that are new."""
        new = [one for one in dict.fromkeys(records) if one.id not in self._records]
        if new:
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{_start(origin)}{self._id}.jsonl"
            with path.open("a", encoding="utf-8") as file:
                file.write("".join(f"{encode(one)}\n" for one in new))
                file.flush()
                os.fsync(file.fileno())
        super().append(new, origin)


def _start(origin: Origin) -> str:
    return f"{origin}-{node()}-"
