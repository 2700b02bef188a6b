"""Logs: one line per event, JSON for machines, plain for people.

    log.info("claimed", extra=fields(job=job_id, attempt=2))
    {"at": "2026-01-01T12:00:00.000Z", "level": "info", "from": "ansorpy.server.worker.worker_loop",
     "message": "claimed", "job": "...", "attempt": 2}

Nothing that came from outside is ever part of a message: it goes into the facts, as JSON.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

FIELDS: Final = "fields"
MAX_VALUE: Final = 2_000  # characters of one fact or traceback
SPARSE: Final = frozenset(("asyncio", "uvicorn.error"))
MAX_MESSAGES: Final = 256  # different ones that are counted
MINUTE_S: Final = 60.0


def fields(**values: Any) -> dict[str, Any]:
    """Return what `extra` of a logging call takes."""
    return {FIELDS: values}


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-MAX_VALUE:]
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """A line for people, and a traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told = "".join(
            f" {name}={json.dumps(value, default=str)}" for name, value in _fields(record).items()
        )
        line = f"{_time(record)} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        trace = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        return line + told + trace


class LogRateLimit(logging.Filter):
    """At most `most` records a minute of one message of a logger that clients can make talk.

    The next record that passes says how many were left out. asyncio logs each connection that
    cannot be accepted, uvicorn each request that is not HTTP.
    """

    def __init__(self, most: int = 10, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.most = most
        self.clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # begin of a minute, records

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether a record is written."""
        if record.name not in SPARSE:
            return True
        now_s = self.clock()
        key = (record.name, record.getMessage().partition("\n")[0])
        begin_s, count = self._seen.pop(key, (now_s, 0))
        if now_s - begin_s >= MINUTE_S:
            if count > self.most:
                setattr(record, FIELDS, {**_fields(record), "left_out": count - self.most})
            begin_s, count = now_s, 0
        while len(self._seen) >= MAX_MESSAGES:
            del self._seen[next(iter(self._seen))]
        self._seen[key] = (begin_s, count + 1)
        return count < self.most


def configure(form: Literal["text", "json"], level: str = "INFO") -> None:
    """Send the logs of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    handler.addFilter(LogRateLimit())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(record, FIELDS, {})
    return {
        name: value[:MAX_VALUE] if isinstance(value, str) else value
        for name, value in found.items()
    }
