"""Errors of requests about jobs.

NotFoundError    no such resource, or it belongs to another tenant   -> HTTP 404
StateError       the state of the job does not allow the transition  -> HTTP 409
KeyReusedError   the Idempotency-Key belongs to another request      -> HTTP 422
QuotaError       a limit of the tenant is reached                    -> HTTP 429
NotInstalledError  the installation lacks a part that the request needs  -> HTTP 501
"""

from ansorpy.errors import AnsorError


class NotFoundError(AnsorError):
    """The job, task or kernel does not exist, or belongs to another tenant."""


class StateError(AnsorError):
    """The state of the job does not allow the transition."""


class KeyReusedError(AnsorError):
    """The Idempotency-Key belongs to another request."""


class NotInstalledError(AnsorError):
    """The installation of the service lacks a part that the request needs."""


class QuotaError(AnsorError):
    """A limit of the tenant is reached."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
