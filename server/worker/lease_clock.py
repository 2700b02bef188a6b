"""Jumps of the clock that leases are counted by, seen from a clock that does not jump."""

from collections.abc import Callable
from typing import Final

JUMP: Final = 0.5  # leases that the two clocks may part between two looks
REST: Final = 0.5  # leases without a judgement after a jump: every living worker extends its own


class LeaseClock:
    """Tells whether the end of a lease can be trusted.

    If the clock of the database is set (by hand, after a suspended machine wakes, by a first
    synchronisation), the leases of living workers seem over until their next heartbeat. A jump by
    more than half a lease is noticed, and nobody's lease is judged for half a lease after it. With
    `ansorpy.server.jobs.lease.LONGEST` no recovery is later than two leases, whatever the jump.
    """

    def __init__(self, lease_s: float, clock: Callable[[], float]) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._offset_s: float | None = None  # of the database's clock, at the last look
        self._rest_until_s = 0.0  # by the steady clock

    def is_steady(self, now_s: float) -> bool:
        """Return whether no jump was seen within the last half lease.

        Args:
            now_s: by the clock of the database.
        """
        steady_s = self._clock()
        before_s, self._offset_s = self._offset_s, now_s - steady_s
        if before_s is not None and abs(self._offset_s - before_s) > JUMP * self._lease_s:
            self._rest_until_s = steady_s + REST * self._lease_s
        return steady_s >= self._rest_until_s
