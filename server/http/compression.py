"""Gzip content coding of pages (RFC 9110).

Only replies without ETag and ranges are compressed; docs/adr/0041 has the reasons.
"""

import gzip
from typing import Final

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

MEDIA_TYPES: Final = ("text/html", "text/csv", "application/x-ndjson")
MIN_BYTES: Final = 1024  # size from which compression saves a packet
LEVEL: Final = 6  # gzip level; level 9 takes twice as long and saves 1 %
MAX_HEADER: Final = 2000  # characters of a header that are parsed


async def compressed(request: Request, reply: Response) -> Response:
    """Compress the body of a page in place if it is large enough and the request accepts gzip."""
    media_type = reply.headers.get("content-type", "").partition(";")[0]
    if media_type not in MEDIA_TYPES or "etag" in reply.headers:
        return reply
    reply.headers.add_vary_header("Accept-Encoding")
    accepted = request.headers.get("accept-encoding", "")
    if len(reply.body) < MIN_BYTES or not accepts_gzip(accepted):
        return reply
    # A thread keeps the event loop free. mtime=0 gives equal pages equal bytes.
    reply.body = await run_in_threadpool(gzip.compress, bytes(reply.body), LEVEL, mtime=0)
    reply.headers["Content-Encoding"] = "gzip"
    reply.headers["Content-Length"] = str(len(reply.body))
    return reply


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether Accept-Encoding lists gzip or `*` with a weight above 0."""
    weights: dict[str, bool] = {}
    for part in accept_encoding[:MAX_HEADER].lower().split(","):
        coding, *parameters = (word.strip() for word in part.split(";"))
        weights[coding] = not any(_is_zero(parameter) for parameter in parameters)
    return weights.get("gzip", weights.get("*", False))


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().strip("0.") == ""
