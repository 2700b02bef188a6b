"""RFC 9457 problem details."""

from typing import Any

from pydantic import Field

from ansorpy.server.schemas.base import Wire

MEDIA_TYPE = "application/problem+json"


class Mistake(Wire):
    """One mistake in a request, without the value that was sent."""

    place: str = Field(description="Path into the request.")
    code: str = Field(description="Kind of mistake.")
    expected: str = Field(description="Valid values.")


class Problem(Wire):
    """RFC 9457 problem details."""

    type: str = "about:blank"
    title: str = Field(description="The phrase of the status.")
    status: int
    code: str = Field(description="One word for programs, such as `spec`, `rate` or `unknown`.")
    detail: str = Field(
        min_length=1, description="A sentence for people: the problem, its reason, the remedy."
    )
    errors: list[Mistake] = Field(default_factory=list)


def problems(*codes: int, everywhere: bool = True) -> dict[int | str, dict[str, Any]]:
    """Return the OpenAPI entries of the problems of a route.

    Args:
        everywhere: whether to add the problems of all routes that need a key.
    """
    schema = {"$ref": "#/components/schemas/Problem"}
    return {
        code: {"description": TITLES[code], "content": {MEDIA_TYPE: {"schema": schema}}}
        for code in sorted({*codes, *(EVERYWHERE if everywhere else ())})
    }


EVERYWHERE = (401, 403, 429, 503)
TITLES = {
    401: "The key is missing or invalid",
    403: "The scope of the key is insufficient, or a browser sent the request for another site",
    404: "The resource does not exist, or belongs to another tenant",
    408: "The body arrived too slowly",
    409: "The state of the job does not allow the transition, or a job uses the model",
    413: "The body is too long",
    415: "The Content-Type does not fit the operation",
    416: "The range begins beyond the content",
    422: "The request is invalid; see errors and detail",
    429: "A rate limit or quota is exceeded; see Retry-After",
    501: "The service lacks the isolation that its settings require",
    503: "The service is overloaded, or its database does not answer; see Retry-After",
}
