"""Request bodies, read with limits of size and time."""

import asyncio
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Final

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool

from ansorpy.server.access.errors import OverloadedError

BODY_S: Final = 30.0  # time limit for a complete body; the body of a file has more, by its bytes
FILE_BYTES_PER_S: Final = 1 << 18  # a file may arrive as slowly as that
WRITE_BYTES: Final = 1 << 20  # received bytes of a file that are written at once
JSON: Final = "application/json"
CURL: Final = "application/x-www-form-urlencoded"  # the default of `curl -d`
DISK_RETRY_S: Final = 60  # Retry-After if the disk is full


def check_json(request: Request) -> None:
    """Refuse a body that a form of another site could have sent (CSRF).

    Without a CORS preflight, a page of any site can send text/plain, multipart/form-data and CURL.
    So requests with the headers of a browser must have the type JSON. Programs may also omit the
    type or send CURL.

    Raises:
        HTTPException: 415.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    browser = "origin" in request.headers or "sec-fetch-site" in request.headers
    if kind != JSON and (browser or kind not in ("", CURL)):
        detail = f"cannot read the body because of its Content-Type; expected {JSON}"
        raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, detail)


async def read_bounded(request: Request, limit_bytes: int, limit_s: float = BODY_S) -> bytes:
    """Return the body.

    Raises:
        HTTPException: 413 as soon as the body exceeds `limit_bytes`, 408 after `limit_s`.
    """
    check_length(request, limit_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(limit_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit_bytes:
                    raise _too_long(limit_bytes)
    except TimeoutError:
        raise _too_slow(f"all of it within {limit_s:.0f} s") from None
    return bytes(body)


async def spool(request: Request, path: Path, limit_bytes: int, limit_s: float = BODY_S) -> str:
    """Write the body to a new file and return its sha256.

    The body may take `limit_s`, and a second more for every FILE_BYTES_PER_S received.

    Raises:
        HTTPException: 413 as soon as the body exceeds `limit_bytes`, 408 if it arrives too slowly.
        OverloadedError: the disk is full.
    """
    check_length(request, limit_bytes)
    digest, size, part = sha256(), 0, bytearray()

    def write() -> None:
        digest.update(part)
        file.write(part)
        part.clear()

    try:
        with path.open("xb") as file:
            begin_s = asyncio.get_running_loop().time()
            async with asyncio.timeout(limit_s) as deadline:
                async for chunk in request.stream():
                    size += len(chunk)
                    if size > limit_bytes:
                        raise _too_long(limit_bytes)
                    deadline.reschedule(begin_s + limit_s + size / FILE_BYTES_PER_S)
                    part += chunk
                    if len(part) >= WRITE_BYTES:
                        await run_in_threadpool(write)
            await run_in_threadpool(write)
    except TimeoutError:
        raise _too_slow(
            f"{FILE_BYTES_PER_S} bytes a second, after the first {limit_s:.0f} s"
        ) from None
    except OSError as error:
        raise OverloadedError(
            f"cannot store the body because of {error.strerror}; expected room on the disk of the"
            " service: try again later",
            DISK_RETRY_S,
        ) from error
    return digest.hexdigest()


def check_length(request: Request, limit_bytes: int) -> None:
    """Refuse a body that declares more than `limit_bytes`, before a byte of it is read.

    Raises:
        HTTPException: 413.
    """
    if declared_bytes(request) > limit_bytes:
        raise _too_long(limit_bytes)


def declared_bytes(request: Request) -> int:
    """Return the Content-Length of a request, 0 if it has none."""
    declared = request.headers.get("content-length", "")
    return int(declared[:20]) if declared.isdecimal() else 0


def _too_slow(expected: str) -> HTTPException:
    detail = f"cannot read the body because it arrived too slowly; expected {expected}"
    return HTTPException(HTTPStatus.REQUEST_TIMEOUT, detail)


def _too_long(limit_bytes: int) -> HTTPException:
    detail = f"cannot read the body because it is too long; expected at most {limit_bytes} bytes"
    return HTTPException(413, detail)
