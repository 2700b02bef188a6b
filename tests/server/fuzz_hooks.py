"""Hooks of Schemathesis: bodies of lines, a check of the size of replies, a count of the cases.

`schemathesis` loads this module (SCHEMATHESIS_HOOKS) and writes the counts to FUZZ_COUNTS.
"""

import atexit
import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import schemathesis

MAX_REPLY_BYTES = 16 * 1024
DOWNLOADS = (
    "application/zip",
    "application/octet-stream",
    "application/x-ndjson",
    "text/event-stream",
    "text/plain",
)

statuses: Counter[str] = Counter()
largest = [0]


@schemathesis.serializer("application/x-ndjson")
def lines(_ctx: Any, value: Any) -> bytes:
    """Return the body of an import of records, whose schema is one string."""
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode("utf-8", errors="replace")


@schemathesis.check
def small_reply(_ctx: Any, response: Any, case: Any) -> None:
    """Check that a reply, unless it is a download, is smaller than 16 KB."""
    statuses[str(response.status_code)] += 1
    media = response.headers.get("content-type", [""])[0]
    if not media.startswith(DOWNLOADS) and "/v1/kernels/" not in case.path:
        size = len(response.content)
        largest[0] = max(largest[0], size)
        assert size < MAX_REPLY_BYTES, f"{size} bytes"


@atexit.register
def tell() -> None:
    """Write the counts."""
    place = os.environ.get("FUZZ_COUNTS")
    if place and statuses:
        told = {"statuses": dict(statuses), "largest_bytes": largest[0]}
        Path(place).write_text(json.dumps(told))
