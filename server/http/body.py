"""The body of a request: bounded in bytes and in time, then read strictly."""

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final, TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel, ValidationError

from ansorpy.server.http.validation import InvalidBodyError, mistakes
from ansorpy.server.schemas.problem import Mistake

BODY_S: Final = 30.0  # for the whole body to arrive
JSON: Final = "application/json"
CURL: Final = "application/x-www-form-urlencoded"
MAX_DIGITS: Final = 40  # of one number
MAX_KEYS: Final = 1024  # of one object

Model = TypeVar("Model", bound=BaseModel)


# What would be right, by the kind of mistake.
_EXPECTED: Final = {
    "json_invalid": "one JSON object in UTF-8",
    "json_too_deep": "an object of few levels",
    "json_key_twice": "each key once",
    "json_not_finite": "finite numbers",
    "json_number_too_long": f"at most {MAX_DIGITS} digits",
    "json_too_many_keys": f"at most {MAX_KEYS} keys",
}


def check_json(request: Request) -> None:
    """Refuse a body that a form of another site could have sent.

    A page of any site may send text/plain, multipart/form-data and CURL without asking. A program
    may leave the type out, or send CURL, the default of curl; a browser, which says where it comes
    from, may not.

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
        HTTPException: 413 as soon as it is known to be too long, 408 where it comes too slowly.
    """
    declared = request.headers.get("content-length", "")
    if declared.isdecimal() and int(declared[:20]) > limit_bytes:
        raise _too_long(limit_bytes)
    body = bytearray()
    try:
        async with asyncio.timeout(limit_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit_bytes:
                    raise _too_long(limit_bytes)
    except TimeoutError:
        detail = f"the body did not arrive within {limit_s:.0f} s"
        raise HTTPException(HTTPStatus.REQUEST_TIMEOUT, detail) from None
    return bytes(body)


def _too_long(limit_bytes: int) -> HTTPException:
    detail = f"the body is longer than {limit_bytes} bytes"
    return HTTPException(413, detail)


def parse(model: type[Model], body: bytes) -> Model:
    """Return what a JSON body says.

    Refused besides what the model refuses: a key that is there twice, NaN and infinity, numbers
    of more than 40 digits, objects of more than 1024 keys, and bytes that are not UTF-8.

    Raises:
        ShapeError: it is not JSON, or not what the model wants.
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
