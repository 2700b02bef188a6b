"""Errors of authentication, authorisation and load; `http.problems` maps them to a status."""

from ansorpy.errors import AnsorError


class UnauthenticatedError(AnsorError):
    """The key is missing, unknown, expired or revoked."""


class ForbiddenError(AnsorError):
    """The key is valid, but its scope is insufficient."""


class RateLimitError(AnsorError):
    """A rate limit is exceeded."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OverloadedError(AnsorError):
    """The service is overloaded, independent of the caller."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
