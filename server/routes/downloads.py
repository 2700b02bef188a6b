"""Parts of the routes that send immutable bytes: headers, conditions, replies."""

from typing import Annotated, Any

from fastapi import Depends, Header

from ansorpy.server.http.conditional import MAX_HEADER, Conditions
from ansorpy.server.schemas.problem import problems

FOREVER = "private, max-age=31536000, immutable"
Given = Annotated[str | None, Header(max_length=MAX_HEADER)]


def conditions(
    if_none_match: Given = None,
    range_: Annotated[Given, Header(alias="Range")] = None,
    if_range: Given = None,
) -> Conditions:
    """Return the conditions of a request."""
    return Conditions(if_none_match, range_, if_range)


Asked = Annotated[Conditions, Depends(conditions)]


def answers(*media_types: str) -> dict[int | str, dict[str, Any]]:
    """Return the replies of a route that sends bytes, for the OpenAPI document."""
    binary = {media: {"schema": {"type": "string", "format": "binary"}} for media in media_types}
    return {
        200: {"description": "The bytes; the ETag is their sha256.", "content": binary},
        206: {"description": "The requested range.", "content": binary},
        304: {"description": "Not modified."},
        **problems(404, 416, 422),
    }


def immutable(digest: str, name: str = "") -> dict[str, str]:
    """Return the headers of a download that never changes: its ETag, and a name for the file."""
    headers = {"ETag": f'"{digest}"', "Cache-Control": FOREVER}
    return headers | ({"Content-Disposition": f'attachment; filename="{name}"'} if name else {})
