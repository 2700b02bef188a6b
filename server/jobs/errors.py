"""What a request about a job can be told.

UnknownError     no such job or kernel, or somebody else's   -> HTTP 404
MoveError        the job's state does not allow it           -> HTTP 409
KeyReusedError   an Idempotency-Key with another request     -> HTTP 422
BusyError        a limit is reached; try again later         -> HTTP 429
"""

from ansorpy.errors import AnsorError


class NotFoundError(AnsorError):
    """There is no such job or kernel, or it belongs to somebody else."""


class StateError(AnsorError):
    """The state of the job does not allow what was asked."""


class KeyReusedError(AnsorError):
    """The Idempotency-Key was used for another request."""


class QuotaError(AnsorError):
    """A limit of the tenant is reached."""

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
