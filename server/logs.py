"""Structured logging: one line per event, as JSON for programs or as text for people.

    log.info("job claimed", extra=fields(job=job_id, token=2))
    {"at": "2026-01-01T12:00:00.000Z", "level": "info", "from": "ansorpy.server.worker.worker_loop",
     "message": "job claimed", "job": "...", "token": 2}

Messages are constants. Values that come from clients are fields, encoded as JSON.
"""

import json
import logging
import sys
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

FIELDS: Final = "fields"
MAX_VALUE: Final = 2_000  # characters of one field or traceback
LIMITED: Final = frozenset(("asyncio", "uvicorn.error"))  # loggers that clients can trigger
MAX_MESSAGES: Final = 256  # distinct messages with a counter
MINUTE_S: Final = 60.0


def fields(**values: Any) -> dict[str, Any]:
    """Return the `extra` argument of a logging call that adds fields to its line."""
    return {FIELDS: values}


class JsonFormatter(logging.Formatter):
    """Format a record as one JSON object."""

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
    """Format a record as a line of text, followed by its traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told = "".join(
            f" {name}={json.dumps(value, default=str)}" for name, value in _fields(record).items()
        )
        line = f"{_time(record)} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        trace = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        return line + told + trace


class LogRateLimit(logging.Filter):
    """Pass at most `most` records a minute of each message of the loggers LIMITED.

    asyncio logs each connection that it fails to accept, uvicorn each malformed request. The first
    record of the next minute has the number of suppressed ones in its field `left_out`.
    """

    def __init__(self, most: int = 10, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.most = most
        self.clock = clock
        self._seen: dict[tuple[str, str], tuple[float, int]] = {}  # start of a minute, records

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the record is written."""
        if record.name not in LIMITED:
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
