"""Logs: one line per event, JSON for machines, plain for people.

    log.info("claimed", extra=facts(job=job_id, attempt=2))
    {"at": "2026-01-01T12:00:00.000Z", "level": "info", "from": "ansorpy.server.worker.keeper",
     "message": "claimed", "job": "...", "attempt": 2}

Nothing that came from outside is ever part of a message: it goes into the facts, as JSON.
"""

import json
import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal

FACTS: Final = "facts"
MAX_VALUE: Final = 2_000  # characters of one fact or traceback


def facts(**values: Any) -> dict[str, Any]:
    """Return what `extra` of a logging call takes."""
    return {FACTS: values}


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, Any] = {
            "at": _time(record),
            "level": record.levelname.lower(),
            "from": record.name,
            "message": record.getMessage(),
            **_facts(record),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)[-MAX_VALUE:]
        return json.dumps(line, default=str)


class TextFormatter(logging.Formatter):
    """A line for people, and a traceback below it."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        told = "".join(
            f" {name}={json.dumps(value, default=str)}" for name, value in _facts(record).items()
        )
        line = f"{_time(record)} {record.levelname.lower()} {record.name}: {record.getMessage()}"
        trace = "\n" + self.formatException(record.exc_info) if record.exc_info else ""
        return line + told + trace


def configure(form: Literal["text", "json"], level: str = "INFO") -> None:
    """Send the logs of this process to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if form == "json" else TextFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("alembic").setLevel(logging.WARNING)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _facts(record: logging.LogRecord) -> Mapping[str, Any]:
    found: Mapping[str, Any] = getattr(record, FACTS, {})
    return {
        name: value[:MAX_VALUE] if isinstance(value, str) else value
        for name, value in found.items()
    }
