"""Limits of open connections: a deadline for every request to arrive, and a number in all.

A connection *waits* until a whole request has come in, and again after each answer; else it is
*busy*. A busy connection belongs to the routes, which bound it themselves. A waiting one costs its
client nothing, so it has a deadline, and the one that has waited longest makes room if there are
too many. Nothing here is logged: an attack would fill the disk. The metrics count it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, ClassVar, Final

from starlette.types import Receive, Scope, Send

from ansorpy.server.http.body import BODY_S

if TYPE_CHECKING:  # any protocol of uvicorn has what this one has
    from uvicorn.protocols.http.h11_impl import H11Protocol as UvicornProtocol
else:
    UvicornProtocol = object

FULL: Final = "ansorpy.full"  # key of the scope: too many requests are being answered
SUBNET_BITS: Final = 64  # of an IPv6 address: one client has as many addresses as it likes below
ABORT_S: Final = 1.0  # for the last bytes to leave after a close
BUSY_SHARE: Final = 7 / 8  # of all connections; the others stay free for requests to arrive
# The answer to a client that sent part of a request.
SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the connections of one process; times in seconds."""

    most: int  # open in all
    most_of_address: int  # open from one address
    head_s: float = 10.0  # from the beginning of a wait to the end of the header
    body_s: float = BODY_S + 5.0  # from there to the end of the body; routes answer 408 before
    unread_s: float = 60.0  # a client that reads nothing of its answer
    head_bytes: int = 1 << 16


class ConnectionPhase(Enum):
    """The part of a request that a connection waits for."""

    HEAD = auto()
    BODY = auto()
    BUSY = auto()  # none: a request is being answered


@dataclass
class Connections:
    """The open connections of a process, in the order in which they make room."""

    limits: ConnectionLimits
    tell: Callable[[str], None]  # why a connection was closed: one word for the metrics
    _open: dict["LimitedProtocol", None] = field(default_factory=dict)
    _of: Counter[str] = field(default_factory=Counter)
    _waiting: dict["LimitedProtocol", None] = field(default_factory=dict)
    _waiting_of: dict[str, dict["LimitedProtocol", None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def enter(self, one: "LimitedProtocol") -> None:
        """Add a connection, and end the one that has waited longest if there are too many."""
        self._open[one] = None
        self._of[one.address] += 1
        self.wait(one)
        if one.address and self._of[one.address] > self.limits.most_of_address:
            self._make_room(self._waiting_of[one.address])
        elif len(self._open) > self.limits.most:
            self._make_room(self._waiting)

    def leave(self, one: "LimitedProtocol") -> None:
        """Forget a connection."""
        if one not in self._open:
            return
        self.busy(one)
        del self._open[one]
        self._of[one.address] -= 1
        if not self._of[one.address]:
            del self._of[one.address]

    def wait(self, one: "LimitedProtocol") -> None:
        """Note that a connection waits for a request; it keeps its place if it did already."""
        if one in self._open:
            self._waiting.setdefault(one)
            self._waiting_of.setdefault(one.address, {}).setdefault(one)

    def busy(self, one: "LimitedProtocol") -> None:
        """Note that a request of a connection is being answered."""
        self._waiting.pop(one, None)
        of_address = self._waiting_of.get(one.address, {})
        of_address.pop(one, None)
        if not of_address:
            self._waiting_of.pop(one.address, None)

    def are_full(self, address: str) -> bool:
        """Return whether too many requests, in all or from one address, are being answered."""
        busy = len(self._open) - len(self._waiting)
        busy_of = self._of[address] - len(self._waiting_of.get(address, ()))
        limits = self.limits
        return busy > limits.most * BUSY_SHARE or (
            address != "" and busy_of > limits.most_of_address * BUSY_SHARE
        )

    def _make_room(self, waiting: dict["LimitedProtocol", None]) -> None:
        oldest = next(iter(waiting))
        self.leave(oldest)
        self.tell("room")
        oldest.transport.abort()


class LimitedProtocol(UvicornProtocol):
    """A protocol of uvicorn with deadlines; `bounded` makes the class."""

    tracker: ClassVar[Connections]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""  # of the peer; "" for a UNIX socket
        self._answer, self.app = self.app, self._admitted
        self._phase: tuple[ConnectionPhase, object] = (ConnectionPhase.BUSY, None)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._head_bytes = 0

    async def _admitted(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[FULL] = self.tracker.are_full(self.address)
        await self._answer(scope, receive, send)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.address = subnet(self.client[0]) if self.client else ""
        self.tracker.enter(self)
        self._settle()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection."""
        self.tracker.leave(self)
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        # Without cycles of references a closed connection is gone at once. Under an attack a
        # collection of the garbage of thousands takes 0.1 s, several times a minute.
        self.app, self._phase = self._answer, (ConnectionPhase.BUSY, None)
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Take in part of a request."""
        super().data_received(data)
        self._settle()
        if self._phase[0] is ConnectionPhase.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > self.tracker.limits.head_bytes:
                self._end("head")

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it is there already."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._settle()

    def pause_writing(self) -> None:
        """Give the client some time to read its answer."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.tracker.limits.unread_s, self._end, "unread")

    def resume_writing(self) -> None:
        """Go on writing."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _settle(self) -> None:
        """Begin the deadline of the phase, if it is another one than before."""
        phase = (connection_phase(self.cycle), self.cycle)
        if phase == self._phase:
            return
        self._phase, self._head_bytes = phase, 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase[0] is ConnectionPhase.BUSY:
            self.tracker.busy(self)
            return
        self.tracker.wait(self)
        limits = self.tracker.limits
        limit_s = limits.head_s if phase[0] is ConnectionPhase.HEAD else limits.body_s
        self._deadline = self.loop.call_later(limit_s, self._late)

    def _late(self) -> None:
        if self._head_bytes and not self.transport.is_closing():
            self.transport.write(SLOW)
        self._end("late")

    def _end(self, why: str) -> None:
        self.tracker.leave(self)
        self.tracker.tell(why)
        self.transport.close()
        self.loop.call_later(ABORT_S, self.transport.abort)


def connection_phase(cycle: Any) -> ConnectionPhase:
    """Return the phase of a connection by the latest request whose header was read, if any."""
    if cycle is not None and cycle.more_body:
        return ConnectionPhase.BODY
    return (
        ConnectionPhase.HEAD if cycle is None or cycle.response_complete else ConnectionPhase.BUSY
    )


def subnet(host: str) -> str:
    """Return what counts as one address: an IPv4 address, or the first 64 bits of an IPv6 one."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(IPv6Address(int(address) >> SUBNET_BITS << SUBNET_BITS))


def limited_protocol(base: type[asyncio.Protocol], tracker: Connections) -> type[asyncio.Protocol]:
    """Return a protocol of uvicorn, h11 or httptools, with the limits of `house`."""
    return type("LimitedProtocol", (LimitedProtocol, base), {"tracker": tracker})
