"""Records of trials, their JSON, and the stores that keep them."""

from ansorpy.records.jsonl import JsonlStore, file_store, file_store_path
from ansorpy.records.reader import MAX_LINE_BYTES, decode, import_jsonl, lines_of
from ansorpy.records.record import (
    ESTIMATED,
    FORMAT,
    IMPORTED,
    MEASURED,
    MEASURED_BY,
    Carried,
    Origin,
    Race,
    RacedOwn,
    Record,
    carried,
    copies_of,
    encode,
    items_per_s,
    target_digest,
    task_key,
)
from ansorpy.records.store import MemoryStore, RecordStore, best_of, best_of_each

__all__ = [
    "ESTIMATED",
    "FORMAT",
    "IMPORTED",
    "MAX_LINE_BYTES",
    "MEASURED",
    "MEASURED_BY",
    "Carried",
    "JsonlStore",
    "MemoryStore",
    "Origin",
    "Race",
    "RacedOwn",
    "Record",
    "RecordStore",
    "best_of",
    "best_of_each",
    "carried",
    "copies_of",
    "decode",
    "encode",
    "file_store",
    "file_store_path",
    "import_jsonl",
    "items_per_s",
    "lines_of",
    "target_digest",
    "task_key",
]
