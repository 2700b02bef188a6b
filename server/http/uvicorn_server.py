"""The server process: its sockets, descriptors and signals."""

import gc
import resource
import socket
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ansorpy.server.http.connections import ConnectionLimits, Connections, limited_protocol
from ansorpy.server.http.metrics import Metrics
from ansorpy.server.settings import ServiceSettings

ACCEPTS: Final = 100  # connections that asyncio accepts before it looks at other events
QUEUE: Final = 1024  # connections that the kernel holds until they are accepted
# Descriptors that are not left to clients: the database, the worker's pipes, and connections that
# were accepted but are closed only a few turns of the loop later.
RESERVE: Final = 5 * ACCEPTS
UNLIMITED: Final = 1 << 20  # descriptors, if the system sets no limit
COLLECT: Final = (1_000, 10, 30)  # a full collection per 300,000 new objects; Python: per 70,000
STOP_S: Final = 5  # for open requests to end


class QueueingServer(uvicorn.Server):
    """uvicorn's server with a longer queue than asyncio accepts at once.

    asyncio has one number for both. If it fails to accept for want of descriptors it fails that
    often in a row, and logs as often.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen."""
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                with listener.dup() as same:
                    same.listen(QUEUE)


def tune_garbage_collector() -> None:
    """Make pauses of the garbage collector short and rare.

    A full collection walks 150,000 objects of imported modules, which takes 0.1 s of processor, and
    those of open connections, as much again under an attack.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)


def server_config(
    app: ASGIApp, settings: ServiceSettings, limits: ConnectionLimits, metrics: Metrics
) -> uvicorn.Config:
    """Return the configuration of uvicorn, with connections bounded."""
    connections = Connections(limits, metrics.closed)
    metrics.connections.set_function(lambda: len(connections))
    # No access log of its own: it would write addresses as they came in; ours names the route.
    return uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        http=limited_protocol(AutoHTTPProtocol, connections),
        ws="none",
        access_log=False,
        log_config=None,
        backlog=ACCEPTS,
        timeout_graceful_shutdown=STOP_S,
    )


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def connection_limits(settings: ServiceSettings, descriptors: int) -> ConnectionLimits:
    """Return the limits of the settings, lowered to what the descriptors allow."""
    most = min(settings.max_connections, max(descriptors // 4, descriptors - RESERVE))
    return ConnectionLimits(most, min(most, settings.max_connections_per_address))
