"""A slot that several tunings share: a daemon for each of them, turns, and hours.

Its methods are coroutines of one event loop.
"""

import asyncio
import os
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ansorpy.cluster.hours import Hours
from ansorpy.cluster.messages import FRAME_BYTES, LENGTH, answered, outcomes
from ansorpy.cluster.scale import drift
from ansorpy.cluster.share import ClusterUser
from ansorpy.cluster.slot_daemon import GIVE_WAY
from ansorpy.cluster.turns import SlotTurn, Turns
from ansorpy.errors import WireError

LOOK_S: Final = 0.5  # seconds between two looks at hours and tunings
LEAVE_S: Final = 30.0  # seconds in which a question ends after the hours of the slot
ABSENT_S: Final = 60.0  # seconds without a sign of a tuning until its daemon ends
LEAVING: Final = "leaving"
BUSY: Final = "busy-"
AT_ONCE: Final = frozenset({"hello", "close"})  # need no turn: they take no time of the cores
Reply = tuple[str, bytes]  # "answer", "returned" or "lost"; a frame, or a reason


@dataclass(slots=True)
class TuningDaemon:
    """A tuning, and its daemon."""

    share: ClusterUser
    process: Process
    seen_s: float
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)


@dataclass(slots=True)
class Activity:
    """The question that has the slot."""

    daemon: TuningDaemon
    method: str
    trials: int
    begin_s: float
    asked: bool = False  # to give way


class SharedSlot:
    """The daemons of the tunings that use one core set, and whose turn it is.

    Args:
        command: of a daemon.
        hours: in which questions begin.
        folder: of the machine: a file LEAVING in it ends the work; a file BUSY and a number is
            there as long as a daemon runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        hours: Hours | None = None,
        folder: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now().astimezone(),
    ) -> None:
        self._command, self._hours, self._folder = command, hours or Hours(), folder
        self._clock, self._now = clock, now
        self._daemons: dict[str, TuningDaemon] = {}
        self._turns = Turns(clock)
        self._granted: dict[SlotTurn, asyncio.Future[bool]] = {}
        self._activity: Activity | None = None
        self._begin_s, self._busy_s, self._trials = clock(), 0.0, 0
        self._drift: float | None = None
        self._closed_s: float | None = None  # since when the slot rests
        self._watch: asyncio.Task[None] | None = None

    def _is_open(self) -> bool:
        leaves = self._folder is not None and (self._folder / LEAVING).exists()
        return self._hours.open_at(self._now()) and not leaves

    def _back(self) -> str:
        """Return when the hours begin again; "" within them."""
        now = self._now()
        return "" if self._hours.open_at(now) else self._hours.until(now)

    def _tell_busy(self) -> None:
        """Make or remove the file that tells whether a daemon runs."""
        if self._folder is not None:
            file = self._folder / f"{BUSY}{os.getpid()}"
            with suppress(OSError):
                file.touch() if self._daemons else file.unlink(missing_ok=True)

    async def join(self, share: ClusterUser) -> None:
        """Start the daemon of a tuning, within the hours; an older one of it ends."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._look_for_ever())
        await self.leave(share.driver)
        while not self._is_open():
            await asyncio.sleep(LOOK_S)
        process = await asyncio.create_subprocess_exec(*self._command, stdin=PIPE, stdout=PIPE)
        self._daemons[share.driver] = TuningDaemon(share, process, self._clock())
        self._tell_busy()

    async def ask(
        self, driver: str, frame: bytes, limit_s: float, method: str, trials: int
    ) -> Reply:
        """Return the answer to a question, once its turn has come.

        Args:
            limit_s: seconds from its begin until its daemon ends.
        """
        daemon = self._daemons.get(driver)
        if daemon is None:
            return "returned", b"the slot rests, or does not know this tuning"
        daemon.seen_s = self._clock()
        async with daemon.lock:
            if method in AT_ONCE:
                return await self._answer(daemon, frame, limit_s)
            turn = self._turns.enter(daemon.share)
            try:
                if not await self._turn(turn):
                    return "returned", b"the slot rests"
                return await self._carry_out(daemon, frame, limit_s, method, trials)
            finally:
                self._turns.end(turn)
                self._go_on()

    async def _turn(self, turn: SlotTurn) -> bool:
        """Wait for a turn; False if the slot rests first."""
        granted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._granted[turn] = granted
        self._go_on()
        self._make_way()
        try:
            return await granted
        finally:
            self._granted.pop(turn, None)

    def _go_on(self) -> None:
        """Begin the next question, or look again in a moment."""
        turn, wait_s = self._turns.next()
        if turn is not None and self._is_open():
            self._turns.begin(turn)
            self._granted[turn].set_result(True)
        elif wait_s:
            asyncio.get_running_loop().call_later(wait_s, self._go_on)

    async def _carry_out(
        self, daemon: TuningDaemon, frame: bytes, limit_s: float, method: str, trials: int
    ) -> Reply:
        begin_s = self._clock()
        self._activity = Activity(daemon, method, trials, begin_s)
        try:
            self._make_way()
            reply = await self._answer(daemon, frame, limit_s)
        finally:
            self._activity = None
            self._busy_s += self._clock() - begin_s
        if method == "measure" and reply[0] == "answer":
            with suppress(WireError):
                measured = [one for one in outcomes(answered(reply[1]), trials) if one is not None]
                self._trials += len(measured)
                self._drift = drift(measured) or self._drift
        return reply

    async def _answer(self, daemon: TuningDaemon, frame: bytes, limit_s: float) -> Reply:
        process = daemon.process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                process.stdin.write(len(frame).to_bytes(LENGTH, "little") + frame)
                await process.stdin.drain()
                count = int.from_bytes(await process.stdout.readexactly(LENGTH), "little")
                if count <= FRAME_BYTES:
                    return "answer", await process.stdout.readexactly(count)
                reason = f"the slot answered with {count} bytes"
        except TimeoutError:
            reason = f"the slot did not answer within {limit_s:.0f} s"
        except (asyncio.IncompleteReadError, OSError) as error:
            reason = f"the process of the slot ended before it answered: {error}"
        await self._end(daemon)
        return "lost", reason.encode()

    async def _end(self, daemon: TuningDaemon) -> None:
        """End the daemon of a tuning, and forget it."""
        if self._daemons.get(daemon.share.driver) is daemon:
            del self._daemons[daemon.share.driver]
        with suppress(ProcessLookupError):
            daemon.process.kill()
        await daemon.process.wait()
        self._tell_busy()

    async def leave(self, driver: str) -> None:
        """End the daemon of a tuning that has ended; others and unknown ones are left alone."""
        daemon = self._daemons.get(driver)
        if daemon is not None:
            await self._end(daemon)

    def seen(self, driver: str) -> str:
        """Note that a tuning is there; return "known", "unknown", or until when the slot rests."""
        daemon = self._daemons.get(driver)
        if daemon is not None:
            daemon.seen_s = self._clock()
            return "known"
        return "unknown" if self._is_open() else self._back()

    def state(self) -> dict[str, Any]:
        """Return the activity and the totals of the slot: values of JSON."""
        now_s, activity = self._clock(), self._activity
        doing = activity and {
            "tenant": activity.daemon.share.tenant,
            "job": activity.daemon.share.job,
            "method": activity.method,
            "trials": activity.trials,
            "seconds": now_s - activity.begin_s,
        }
        return {
            "state": "busy" if doing else "idle" if self._is_open() else "resting",
            "until": self._back(),
            "doing": doing,
            "waiting": self._turns.waiting,
            "busy_s": self._busy_s + (now_s - activity.begin_s if activity else 0.0),
            "up_s": now_s - self._begin_s,
            "trials": self._trials,
            "drift": self._drift,
        }

    async def _look_for_ever(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            await self.look()

    async def look(self) -> None:
        """End daemons of tunings that are gone; end all work outside the hours."""
        now_s = self._clock()
        for daemon in [one for one in self._daemons.values() if one.seen_s < now_s - ABSENT_S]:
            await self._end(daemon)
        self._make_way()
        if self._is_open():
            self._closed_s = None
            return
        self._closed_s = now_s if self._closed_s is None else self._closed_s
        for granted in self._granted.values():
            if not granted.done():
                granted.set_result(False)
        activity = self._activity
        if activity is None:
            for daemon in list(self._daemons.values()):
                await self._end(daemon)
        elif self._closed_s < now_s - LEAVE_S:
            await self._end(activity.daemon)

    def _make_way(self) -> None:
        """Ask a measurement for its outcomes by now if a higher priority waits, or hours end."""
        activity = self._activity
        if activity is None or activity.method != "measure" or activity.asked:
            return
        if self._turns.urgent() or not self._is_open():
            activity.asked = True
            with suppress(ProcessLookupError):
                activity.daemon.process.send_signal(GIVE_WAY)
