"""Errors of requests about jobs.

NotFoundError    no such resource, or it belongs to another tenant   -> HTTP 404
StateError       the state of the job does not allow the transition  -> HTTP 409
KeyReusedError   the Idempotency-Key belongs to another request      -> HTTP 422
QuotaError       a limit of the tenant is reached                    -> HTTP 429
FieldError       a field is wrong by a rule that no schema expresses  -> HTTP 422
NotInstalledError  the installation lacks a part that the request needs  -> HTTP 501
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ansorpy.errors import AnsorError, GraphError, ShapeError, SpecError
from ansorpy.tuner.options.conflicts import ConflictError


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


class FieldError(SpecError):
    """A field of a request is wrong by a rule that no schema expresses; `place` names the field."""

    def __init__(self, message: str, place: str) -> None:
        super().__init__(message)
        self.place = place


@contextmanager
def naming(place: str) -> Iterator[None]:
    """Add the field to errors of the request that name none.

    Raises:
        FieldError
    """
    try:
        yield
    except (FieldError, ShapeError, GraphError, ConflictError):
        raise
    except SpecError as error:
        raise FieldError(str(error), place) from None
