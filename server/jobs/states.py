"""The states of a job, and the one door through which it changes them."""

from collections.abc import Mapping
from typing import Final, Literal

from ansorpy.server.db.models import JobRow
from ansorpy.server.jobs.errors import StateError

State = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]

# Which state may follow which. `queued` after `running`: the worker was lost or gave the job back.
MOVES: Final[Mapping[str, tuple[State, ...]]] = {
    "queued": ("running", "paused", "cancelled"),
    "running": ("succeeded", "failed", "cancelled", "paused", "queued"),
    "paused": ("queued", "cancelled"),
    "succeeded": (),
    "failed": (),
    "cancelled": (),
}
ENDED: Final = tuple(state for state, after in MOVES.items() if not after)
WAITING: Final = ("queued", "running", "paused")


def move(row: JobRow, state: State, now_s: float, reason: str = "") -> None:
    """Bring a locked job into another state; whoever had it on lease can write no more.

    Raises:
        MoveError: MOVES does not allow it.
    """
    if state not in MOVES[row.state]:
        raise StateError(f"a job that is {row.state} cannot become {state}")
    if row.state == "running":
        row.lease_token += 1
        row.lease_owner, row.lease_until_s = "", 0.0
    row.state, row.reason = state, reason
    row.ended_s = now_s if state in ENDED else None
    touch(row, now_s)


def touch(row: JobRow, now_s: float) -> None:
    """Count a change that a reader may see: the version is the ETag."""
    row.version += 1
    row.updated_s = now_s
