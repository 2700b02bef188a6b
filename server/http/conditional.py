"""Conditional and partial requests (RFC 9110): ETags and byte ranges."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from fastapi import HTTPException, Response
from fastapi.responses import StreamingResponse

MAX_HEADER: Final = 2000  # characters of a header that are parsed
_TAG: Final = re.compile(r'(?:W/)?("[\x21\x23-\x7e]*")')
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def matches(if_none_match: str | None, etag: str) -> bool:
    """Return whether If-None-Match contains `etag` (weak comparison) or is `*`."""
    if if_none_match is None:
        return False
    if if_none_match.strip() == "*":
        return True
    own = etag.removeprefix("W/")
    return own in _TAG.findall(if_none_match[:MAX_HEADER])


def not_modified(headers: Mapping[str, str]) -> Response:
    """Return a 304 response with the headers of the full response."""
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers=dict(headers))


@dataclass(frozen=True, slots=True)
class Conditions:
    """The headers of a request that make it conditional or partial."""

    if_none_match: str | None = None
    range_header: str | None = None
    if_range: str | None = None

    def know(self, headers: Mapping[str, str]) -> bool:
        """Return whether the caller has the content of the response with these headers."""
        return matches(self.if_none_match, headers["ETag"])

    def span(self, headers: Mapping[str, str], size_bytes: int) -> "ByteRange | None":
        """Return the requested range of the response with these headers; as `requested_range`."""
        return requested_range(self.range_header, self.if_range, headers["ETag"], size_bytes)


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes [begin, end)."""

    begin: int
    end: int

    def header(self, size_bytes: int) -> str:
        """Return the value of Content-Range."""
        return f"bytes {self.begin}-{self.end - 1}/{size_bytes}"


def requested_range(
    range_header: str | None, if_range: str | None, etag: str, size_bytes: int
) -> ByteRange | None:
    """Return the requested range, or None if the full content is to be sent.

    A request for several ranges, for another unit, or with a stale If-Range gets the full content,
    as RFC 9110 allows.

    Raises:
        HTTPException: 416, if the range begins beyond the content.
    """
    if range_header is None or (if_range is not None and if_range.strip() != etag):
        return None
    found = _RANGE.fullmatch(range_header.strip())
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if first == "":
        begin, end = max(0, size_bytes - int(last)), size_bytes
    else:
        begin, end = int(first), min(size_bytes, int(last) + 1) if last else size_bytes
        if last and int(last) < begin:
            return None
    if begin >= end:
        raise HTTPException(
            HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE,
            f"cannot send this range because the file has {size_bytes} bytes; expected a range"
            " that begins within them",
            headers={"Content-Range": f"bytes */{size_bytes}"},
        )
    return ByteRange(begin, end)


def content(
    data: bytes, media_type: str, headers: Mapping[str, str], asked: Conditions
) -> Response:
    """Return a response with all of `data` (200), with the requested range (206) or without (304).

    Args:
        headers: have an ETag.
    """
    if asked.know(headers):
        return not_modified(headers)
    fields = {**headers, "Accept-Ranges": "bytes"}
    span = asked.span(headers, len(data))
    if span is None:
        return Response(data, media_type=media_type, headers=fields)
    fields["Content-Range"] = span.header(len(data))
    part = data[span.begin : span.end]
    return Response(part, HTTPStatus.PARTIAL_CONTENT, media_type=media_type, headers=fields)


def streamed(
    read: Callable[[int, int], Iterator[bytes]],
    size_bytes: int,
    media_type: str,
    headers: Mapping[str, str],
    asked: Conditions,
) -> Response:
    """Return a response as `content` does, whose bytes are read while they are sent.

    Args:
        read: yields the bytes [begin, end).
    """
    if asked.know(headers):
        return not_modified(headers)
    span = asked.span(headers, size_bytes)
    part = ByteRange(0, size_bytes) if span is None else span
    fields = {
        **headers, "Accept-Ranges": "bytes",
        "Content-Length": str(part.end - part.begin),
    }  # fmt: skip
    if span is not None:
        fields["Content-Range"] = span.header(size_bytes)
    status = HTTPStatus.OK if span is None else HTTPStatus.PARTIAL_CONTENT
    return StreamingResponse(read(part.begin, part.end), status, fields, media_type)
