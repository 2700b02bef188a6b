"""The order in which tunings use a slot: by priority, then fair shares of tenants."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ansorpy.cluster.share import ClusterUser

ANTICIPATE_S: Final = 0.1  # after its turn a tenant with the least use is waited for
ACTIVE_S: Final = 30.0  # a tenant that asked in this time keeps its use


@dataclass(eq=False, slots=True)
class SlotTurn:
    """A question that waits for the slot."""

    share: ClusterUser
    entered_s: float


@dataclass(slots=True)
class Used:
    """The use of a slot by a tenant.

    Args:
        seconds: used; a tenant that comes, or comes back, begins with the least of the others.
        seen_s: when it asked last, or its turn ended.
        ended_s: when its last turn ended.
        priority: of its last turn.
    """

    seconds: float
    seen_s: float
    ended_s: float = float("-inf")
    priority: int = 0


class Turns:
    """Questions that wait for one slot, of several tunings.

    The next one has the highest priority; among them its tenant has used the slot least, then it is
    the oldest. A tenant that asks its next question a moment after its turn is waited for, else it
    could never have two short turns for a long one of another.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: list[SlotTurn] = []
        self._used: dict[str, Used] = {}
        self._begin_s = 0.0
        self.current: SlotTurn | None = None

    @property
    def waiting(self) -> int:
        """Number of questions that wait."""
        return len(self._waiting)

    def enter(self, share: ClusterUser) -> SlotTurn:
        """Add a question."""
        now_s = self._clock()
        turns = [*self._waiting, *([self.current] if self.current else [])]
        busy = {one.share.tenant for one in turns}
        self._used = {
            tenant: one
            for tenant, one in self._used.items()
            if tenant in busy or one.seen_s >= now_s - ACTIVE_S
        }
        if share.tenant not in self._used:
            least = min((one.seconds for one in self._used.values()), default=0.0)
            self._used[share.tenant] = Used(least, now_s)
        self._used[share.tenant].seen_s = now_s
        turn = SlotTurn(share, now_s)
        self._waiting.append(turn)
        return turn

    def leave(self, turn: SlotTurn) -> None:
        """Remove a question that waits no longer; may be called twice."""
        if turn in self._waiting:
            self._waiting.remove(turn)

    def next(self) -> tuple[SlotTurn | None, float]:
        """Return the question whose turn it is, or None and the seconds until it may be known."""
        if self.current is not None or not self._waiting:
            return None, 0.0
        used, now_s = self._used, self._clock()
        best = min(
            self._waiting,
            key=lambda one: (-one.share.priority, used[one.share.tenant].seconds, one.entered_s),
        )
        tenants = {one.share.tenant for one in self._waiting}
        for tenant, one in used.items():
            left_s = one.ended_s + ANTICIPATE_S - now_s
            least = one.seconds < used[best.share.tenant].seconds
            first = least and one.priority >= best.share.priority
            if tenant not in tenants and left_s > 0 and first:
                return None, left_s
        return best, 0.0

    def begin(self, turn: SlotTurn) -> None:
        """Note that a question has the slot."""
        self._waiting.remove(turn)
        self.current, self._begin_s = turn, self._clock()

    def end(self, turn: SlotTurn) -> None:
        """Note that a question has the slot no longer; charge its tenant."""
        if turn is not self.current:
            self.leave(turn)
            return
        now_s = self._clock()
        used = self._used[turn.share.tenant]
        used.seconds += now_s - self._begin_s
        used.seen_s = used.ended_s = now_s
        used.priority = turn.share.priority
        self.current = None

    def urgent(self) -> bool:
        """Return whether a question waits that has a higher priority than the current one."""
        return self.current is not None and any(
            one.share.priority > self.current.share.priority for one in self._waiting
        )
