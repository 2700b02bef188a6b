"""The body of a request: bounded in bytes and in time, then read strictly."""

import asyncio
import json
from http import HTTPStatus
from typing import Any, Final, TypeVar

from fastapi import HTTPException, Request
from pydantic import BaseModel, ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

BODY_S: Final = 30.0  # for the whole body to arrive
MAX_DIGITS: Final = 40  # of one number

Model = TypeVar("Model", bound=BaseModel)


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
    return HTTPException(HTTPStatus.CONTENT_TOO_LARGE, detail)


def parse(model: type[Model], body: bytes) -> Model:
    """Return what a JSON body says.

    Refused besides what the model refuses: a key that is there twice, NaN and infinity, numbers
    of more than 40 digits, and bytes that are not UTF-8.

    Raises:
        ValidationError
    """
    try:
        text = body.decode("utf-8")
        found = json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_int=_short_int,
            parse_float=_finite_float,
        )
    except (ValueError, RecursionError) as error:
        kind = _KINDS.get(str(error), "json_invalid")
        if isinstance(error, RecursionError):
            kind = "json_too_deep"
        raise ValidationError.from_exception_data(
            model.__name__,
            [InitErrorDetails(type=PydanticCustomError(kind, "not JSON"), loc=(), input=None)],  # type: ignore[arg-type]
            hide_input=True,
        ) from None
    return model.model_validate(found)


_TWICE: Final = "a key is there twice"
_CONSTANT: Final = "NaN and infinity are not JSON"
_LONG: Final = "a number of too many digits"
_KINDS: Final = {
    _TWICE: "json_key_twice", _CONSTANT: "json_not_finite", _LONG: "json_number_too_long"
}  # fmt: skip


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(_TWICE)
    return found


def _no_constant(_: str) -> float:
    raise ValueError(_CONSTANT)


def _short_int(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(_LONG)
    return int(text)


def _finite_float(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(_CONSTANT)
    return value
