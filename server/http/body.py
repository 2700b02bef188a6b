"""Request bodies: read with limits of size and time, then parsed strictly."""

import asyncio
import json
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, TypeVar

from fastapi import HTTPException, Request
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ValidationError

from ansorpy.server.access.errors import OverloadedError
from ansorpy.server.http.validation import InvalidBodyError, mistakes
from ansorpy.server.schemas.problem import Mistake

BODY_S: Final = 30.0  # time limit for a complete body; for that of a file, beside its bytes
FILE_BYTES_PER_S: Final = 1 << 18  # a file may arrive as slowly as that
WRITE_BYTES: Final = 1 << 20  # received bytes of a file that are written at once
JSON: Final = "application/json"
CURL: Final = "application/x-www-form-urlencoded"  # the default of `curl -d`
RETRY_S: Final = 60  # Retry-After if the disk is full
MAX_DIGITS: Final = 40  # digits of one number
MAX_KEYS: Final = 1024  # keys of one object

Model = TypeVar("Model", bound=BaseModel)


# The field `expected` of a mistake, by its code.
_EXPECTED: Final = {
    "json_invalid": "one JSON object in UTF-8",
    "json_too_deep": "an object of few levels",
    "json_key_twice": "each key once",
    "json_not_finite": "finite numbers",
    "json_number_too_long": f"at most {MAX_DIGITS} digits",
    "json_too_many_keys": f"at most {MAX_KEYS} keys",
}


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
            RETRY_S,
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


def parse(model: type[Model], body: bytes) -> Model:
    """Return the model of a JSON body.

    Duplicate keys, NaN, infinity, numbers of more than MAX_DIGITS digits, objects of more than
    MAX_KEYS keys and bytes that are not UTF-8 are errors.

    Raises:
        InvalidBodyError: the body is not JSON, or does not match the model.
    """
    try:
        found = json.loads(
            body.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_short_int,
            parse_float=_finite_float,
        )
    except RecursionError:
        raise _malformed("json_too_deep") from None
    except ValueError as error:
        raise _malformed(str(error)) from None
    try:
        return model.model_validate(found)
    except ValidationError as error:
        raise InvalidBodyError(mistakes(error.errors(include_input=False), model)) from None


def _malformed(kind: str) -> InvalidBodyError:
    code = kind if kind in _EXPECTED else "json_invalid"
    return InvalidBodyError([Mistake(place="body", code=code, expected=_EXPECTED[code])])


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS:
        raise ValueError("json_too_many_keys")
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("json_key_twice")
    return found


def _no_constant(_: str) -> float:
    raise ValueError("json_not_finite")


def _short_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("json_number_too_long")
    return int(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("json_not_finite")
    return value
