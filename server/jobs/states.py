"""State machine of a job; `move` is the only function that changes a state."""

from collections.abc import Mapping
from typing import Final, Literal

from ansorpy.server.db.models import JobRow
from ansorpy.server.jobs.errors import StateError
from ansorpy.target import listed

State = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]

# Possible next states. `queued` follows `running` if the worker was lost or released the job.
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
    """Change the state of a locked job; leaving `running` invalidates the lease.

    Raises:
        StateError: MOVES does not contain the transition.
    """
    if state not in MOVES[row.state]:
        after = MOVES[row.state]
        raise StateError(
            f"cannot change the job from {row.state} to {state} because no such transition exists;"
            f" expected {listed(after) if after else 'a job that has not ended'}"
        )
    if row.state == "running":
        row.lease_token += 1
        row.lease_owner, row.lease_until_s = "", 0.0
    row.state, row.reason = state, reason
    row.ended_s = now_s if state in ENDED else None
    touch(row, now_s)


def touch(row: JobRow, now_s: float) -> None:
    """Increment the version, which is part of the ETag, after a visible change."""
    row.version += 1
    row.updated_s = now_s
