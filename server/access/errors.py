"""How a request is turned away before its work begins."""

from ansorpy.errors import AnsorError


class UnauthenticatedError(AnsorError):
    """No key, or one that is unknown, expired or revoked."""


class ForbiddenError(AnsorError):
    """The key is good, but not for this."""


class RateLimitError(AnsorError):
    """Too much at once."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class OverloadedError(AnsorError):
    """The service has no room for it now, whoever asks."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
