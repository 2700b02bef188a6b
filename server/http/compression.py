"""Compressed pages (RFC 9110, content codings): gzip if the request accepts it.

Only replies that have neither an ETag nor ranges pass through here: see docs/adr/0090.
"""

import gzip
from typing import Final

from fastapi import Request, Response
from fastapi.concurrency import run_in_threadpool

MEDIA_TYPES: Final = ("text/html", "text/csv", "application/x-ndjson")
MIN_BYTES: Final = 1024  # a smaller reply fits one packet as it is
LEVEL: Final = 6  # of 9: beyond it a page of 100 KB is 1 % smaller, and takes twice as long
MAX_HEADER: Final = 2000  # characters that are looked at


async def compressed(request: Request, reply: Response) -> Response:
    """Compress the body of a page in place, if that is worth it and the request accepts gzip."""
    media_type = reply.headers.get("content-type", "").partition(";")[0]
    if media_type not in MEDIA_TYPES or "etag" in reply.headers:
        return reply
    reply.headers.add_vary_header("Accept-Encoding")
    accepted = request.headers.get("accept-encoding", "")
    if len(reply.body) < MIN_BYTES or not accepts_gzip(accepted):
        return reply
    # In a thread: the loop serves all other requests meanwhile. mtime 0: equal pages, equal bytes.
    reply.body = await run_in_threadpool(gzip.compress, bytes(reply.body), LEVEL, mtime=0)
    reply.headers["Content-Encoding"] = "gzip"
    reply.headers["Content-Length"] = str(len(reply.body))
    return reply


def accepts_gzip(accept_encoding: str) -> bool:
    """Return whether a header Accept-Encoding allows gzip: named or by `*`, not with weight 0."""
    weights: dict[str, bool] = {}
    for part in accept_encoding[:MAX_HEADER].lower().split(","):
        coding, *parameters = (word.strip() for word in part.split(";"))
        weights[coding] = not any(_is_zero(parameter) for parameter in parameters)
    return weights.get("gzip", weights.get("*", False))


def _is_zero(parameter: str) -> bool:
    name, _, value = parameter.partition("=")
    return name.strip() == "q" and value.strip().strip("0.") == ""
