"""Detection of jumps of the database clock, by comparison with a monotonic clock."""

from collections.abc import Callable
from typing import Final

JUMP: Final = 0.5  # difference of the two clocks that counts as a jump, in lease lengths
REST: Final = 0.5  # time without expiry after a jump, in lease lengths: living workers extend


class LeaseClock:
    """Tells whether the expiry times of leases can be trusted.

    If the clock of the database is set (by hand, on wake-up, by time synchronisation), leases of
    living workers appear expired until their next heartbeat. After a jump by more than half a
    lease, no lease is treated as expired for half a lease. Together with
    `ansorpy.server.jobs.lease.LONGEST` this bounds every recovery by two leases.
    """

    def __init__(self, lease_s: float, clock: Callable[[], float]) -> None:
        self._lease_s = lease_s
        self._clock = clock
        self._offset_s: float | None = None  # database clock minus monotonic clock, last value
        self._rest_until_s = 0.0  # by the monotonic clock

    def is_steady(self, now_s: float) -> bool:
        """Return whether the clock did not jump within the last half lease.

        Args:
            now_s: time of the database clock.
        """
        steady_s = self._clock()
        before_s, self._offset_s = self._offset_s, now_s - steady_s
        if before_s is not None and abs(self._offset_s - before_s) > JUMP * self._lease_s:
            self._rest_until_s = steady_s + REST * self._lease_s
        return steady_s >= self._rest_until_s
