"""Limits of open connections: deadlines for requests, and numbers in total and per address.

A connection is *waiting* until a complete request has arrived, and *busy* until the response is
complete. Routes limit busy connections themselves. Waiting connections cost a client nothing, so
they have a deadline, and the oldest of them is closed if there are too many connections. Closed
connections are counted in the metrics, but not logged, because an attack would fill the disk.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, auto
from ipaddress import IPv6Address, ip_address
from typing import TYPE_CHECKING, Any, ClassVar, Final

from starlette.types import Receive, Scope, Send

from ansorpy.server.http.body import BODY_S, FILE_BYTES_PER_S

if TYPE_CHECKING:  # all HTTP protocols of uvicorn have the attributes of this one
    from uvicorn.protocols.http.h11_impl import H11Protocol as UvicornProtocol
else:
    UvicornProtocol = object

FULL: Final = "ansorpy.full"  # key of the ASGI scope: True if too many connections are busy
SUBNET_BITS: Final = 64  # prefix of an IPv6 address that counts as one client
ABORT_S: Final = 1.0  # time between close and abort, for the last bytes to leave
BUSY_SHARE: Final = 7 / 8  # share of the connections that may be busy; the rest receives requests
# The response to a client that sent an incomplete request.
SLOW: Final = b"HTTP/1.1 408 Request Timeout\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """Limits of the connections of one process; times in seconds."""

    most: int  # open connections in total
    most_of_address: int  # open connections of one address
    head_s: float = 10.0  # from the start of the wait to the end of the header
    # From there to the end of the body, beside a second per FILE_BYTES_PER_S received; routes
    # answer 408 earlier.
    body_s: float = BODY_S + 5.0
    unread_s: float = 60.0  # without the client reading its response
    head_bytes: int = 1 << 16


class ConnectionPhase(Enum):
    """The part of a request that a connection waits for."""

    HEAD = auto()
    BODY = auto()
    BUSY = auto()  # no part: a request is in progress


@dataclass
class Connections:
    """The open connections of a process, waiting ones ordered by the start of their wait."""

    limits: ConnectionLimits
    count_closed: Callable[[str], None]  # called with the reason, a label of the metrics
    _open: dict["LimitedProtocol", None] = field(default_factory=dict)
    _of: Counter[str] = field(default_factory=Counter)
    _waiting: dict["LimitedProtocol", None] = field(default_factory=dict)
    _waiting_of: dict[str, dict["LimitedProtocol", None]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, connection: "LimitedProtocol") -> None:
        """Add a connection; close the longest waiting one if a limit is exceeded."""
        self._open[connection] = None
        self._of[connection.address] += 1
        self.set_waiting(connection)
        if connection.address and self._of[connection.address] > self.limits.most_of_address:
            self._make_room(self._waiting_of[connection.address])
        elif len(self._open) > self.limits.most:
            self._make_room(self._waiting)

    def remove(self, connection: "LimitedProtocol") -> None:
        """Remove a connection, if it is still in the collection."""
        if connection not in self._open:
            return
        self.set_busy(connection)
        del self._open[connection]
        self._of[connection.address] -= 1
        if not self._of[connection.address]:
            del self._of[connection.address]

    def set_waiting(self, connection: "LimitedProtocol") -> None:
        """Mark a connection as waiting; a waiting connection keeps its position."""
        if connection in self._open:
            self._waiting.setdefault(connection)
            self._waiting_of.setdefault(connection.address, {}).setdefault(connection)

    def set_busy(self, connection: "LimitedProtocol") -> None:
        """Mark a connection as busy with a request."""
        self._waiting.pop(connection, None)
        of_address = self._waiting_of.get(connection.address, {})
        of_address.pop(connection, None)
        if not of_address:
            self._waiting_of.pop(connection.address, None)

    def are_full(self, address: str) -> bool:
        """Return whether too many connections are busy, in total or of one address."""
        busy = len(self._open) - len(self._waiting)
        busy_of = self._of[address] - len(self._waiting_of.get(address, ()))
        limits = self.limits
        return busy > limits.most * BUSY_SHARE or (
            address != "" and busy_of > limits.most_of_address * BUSY_SHARE
        )

    def _make_room(self, waiting: dict["LimitedProtocol", None]) -> None:
        oldest = next(iter(waiting))
        self.remove(oldest)
        self.count_closed("room")
        oldest.transport.abort()


class LimitedProtocol(UvicornProtocol):
    """Mix-in for a protocol of uvicorn that enforces ConnectionLimits; see `limited_protocol`."""

    tracker: ClassVar[Connections]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.address = ""  # address of the peer; "" for a UNIX socket
        self._inner_app, self.app = self.app, self._app_with_load
        self._phase: tuple[ConnectionPhase, object] = (ConnectionPhase.BUSY, None)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._head_bytes = 0
        self._body_bytes = 0
        self._body_begin_s = 0.0

    async def _app_with_load(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[FULL] = self.tracker.are_full(self.address)
        await self._inner_app(scope, receive, send)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Start the deadline of the first request."""
        super().connection_made(transport)
        self.address = subnet(self.client[0]) if self.client else ""
        self.tracker.add(self)
        self._update_phase()

    def connection_lost(self, exc: Exception | None) -> None:
        """Remove the connection and cancel its timers."""
        self.tracker.remove(self)
        for timer in (self._deadline, self._unread):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)
        # Without reference cycles a closed connection is freed at once. Garbage collection of
        # thousands of connections would take 0.1 s, several times a minute during an attack.
        self.app, self._phase = self._inner_app, (ConnectionPhase.BUSY, None)
        self.cycle = None  # type: ignore[assignment]

    def data_received(self, data: bytes) -> None:
        """Parse received bytes, and update the phase."""
        before = self._phase
        super().data_received(data)
        self._update_phase()
        if self._phase[0] is ConnectionPhase.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > self.tracker.limits.head_bytes:
                self._end("head")
        elif self._phase[0] is ConnectionPhase.BODY and self._phase == before:
            self._body_bytes += len(data)

    def on_response_complete(self) -> None:
        """Wait for the next request, unless it was pipelined."""
        super().on_response_complete()
        if not self.transport.is_closing():
            self._update_phase()

    def pause_writing(self) -> None:
        """Start the deadline for the client to read its response."""
        super().pause_writing()
        self._unread = self.loop.call_later(self.tracker.limits.unread_s, self._end, "unread")

    def resume_writing(self) -> None:
        """Cancel the deadline for reading the response."""
        super().resume_writing()
        if self._unread is not None:
            self._unread.cancel()

    def _update_phase(self) -> None:
        """Start the deadline of the current phase if the phase has changed."""
        phase = (connection_phase(self.cycle), self.cycle)
        if phase == self._phase:
            return
        self._phase, self._head_bytes, self._body_bytes = phase, 0, 0
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if phase[0] is ConnectionPhase.BUSY:
            self.tracker.set_busy(self)
            return
        self.tracker.set_waiting(self)
        limits = self.tracker.limits
        self._body_begin_s = self.loop.time()
        limit_s = limits.head_s if phase[0] is ConnectionPhase.HEAD else limits.body_s
        self._deadline = self.loop.call_later(limit_s, self._late)

    def _late(self) -> None:
        if self._phase[0] is ConnectionPhase.BODY:
            allowed_s = self.tracker.limits.body_s + self._body_bytes / FILE_BYTES_PER_S
            end_s = self._body_begin_s + allowed_s
            if end_s > self.loop.time():
                self._deadline = self.loop.call_at(end_s, self._late)
                return
        if self._head_bytes and not self.transport.is_closing():
            self.transport.write(SLOW)
        self._end("late")

    def _end(self, why: str) -> None:
        self.tracker.remove(self)
        self.tracker.count_closed(why)
        self.transport.close()
        self.loop.call_later(ABORT_S, self.transport.abort)


def connection_phase(cycle: Any) -> ConnectionPhase:
    """Return the phase of a connection, given uvicorn's cycle of its latest request (or None)."""
    if cycle is not None and cycle.more_body:
        return ConnectionPhase.BODY
    return (
        ConnectionPhase.HEAD if cycle is None or cycle.response_complete else ConnectionPhase.BUSY
    )


def subnet(host: str) -> str:
    """Return the IPv4 address, or the /64 prefix of an IPv6 address, that counts as one client."""
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
    """Return a subclass of a uvicorn protocol (h11 or httptools) with the limits of `tracker`."""
    return type("LimitedProtocol", (LimitedProtocol, base), {"tracker": tracker})
