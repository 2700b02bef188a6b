"""RFC 9457 problem details."""

from typing import Any

from pydantic import Field

from ansorpy.server.schemas.base import Wire

MEDIA_TYPE = "application/problem+json"


class Mistake(Wire):
    """One thing that is wrong with a request; never repeats the value that was sent."""

    place: str = Field(description="Where, as a path into the request.")
    code: str = Field(description="What kind of mistake.")
    expected: str = Field(description="What would be right.")


class Problem(Wire):
    """RFC 9457 problem details."""

    type: str = "about:blank"
    title: str = Field(description="The phrase of the status.")
    status: int
    code: str = Field(description="One word for programs, such as `spec`, `rate` or `unknown`.")
    detail: str = Field(description="A sentence for people: what is wrong and what would be right.")
    errors: list[Mistake] = Field(default_factory=list)


def problems(*codes: int, everywhere: bool = True) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the problems that a route may answer with.

    Args:
        everywhere: those too that any route with a key has.
    """
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        code: {"description": TITLES[code], "content": {MEDIA_TYPE: {"schema": schema}}}
        for code in sorted({*codes, *(EVERYWHERE if everywhere else ())})
    }


EVERYWHERE = (401, 403, 429, 503)
TITLES = {
    401: "No key, or one that is not valid (any more)",
    403: "The key may not do this, or a browser sends it for another site",
    404: "There is no such thing, or it belongs to somebody else",
    408: "The body came too slowly",
    409: "The state does not allow it",
    413: "The body is too long",
    415: "The Content-Type is not application/json",
    416: "No such range",
    422: "The request is wrong; errors and detail say where",
    429: "Too much at once; Retry-After says when to come back",
    503: "The service cannot answer just now; Retry-After says when to come back",
}
