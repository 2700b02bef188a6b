"""Configuration of uvicorn: sockets, file descriptors, garbage collection."""

import gc
import resource
import socket
import sys
from typing import Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from ansorpy.server.http.connections import ConnectionLimits, Connections, limited_protocol
from ansorpy.server.http.metrics import Metrics
from ansorpy.server.settings import ServiceSettings

ACCEPTS: Final = 100  # connections that asyncio accepts per iteration of its loop
QUEUE: Final = 1024  # connections that the kernel queues until they are accepted
# File descriptors reserved for the database, the pipes of the worker, and accepted connections that
# are closed some iterations of the loop later.
RESERVE: Final = 5 * ACCEPTS
UNLIMITED: Final = 1 << 20  # file descriptors, if the system has no limit
COLLECT: Final = (1_000, 10, 30)  # a full collection per 300,000 new objects; Python: per 70,000
SWITCH_S: Final = 0.001  # seconds: delay of a thread by another thread that computes
STOP_S: Final = 5  # time for open requests to complete at shutdown


class QueueingServer(uvicorn.Server):
    """uvicorn's server with a kernel queue longer than ACCEPTS.

    asyncio uses one number for both. If it runs out of file descriptors, it fails and logs
    that many times in a row, so that number must be small.
    """

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then lengthen the queue of each socket."""
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                with listener.dup() as same:
                    same.listen(QUEUE)


def tune_interpreter() -> None:
    """Exclude imported modules from garbage collection, collect less often, switch threads often.

    A full collection visits 150,000 objects of imported modules in 0.1 s of CPU time, and the
    objects of open connections: as much again during an attack.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT)
    sys.setswitchinterval(SWITCH_S)


def server_config(
    app: ASGIApp, settings: ServiceSettings, limits: ConnectionLimits, metrics: Metrics
) -> uvicorn.Config:
    """Return the configuration of uvicorn, with limited connections."""
    connections = Connections(limits, metrics.count_closed)
    metrics.connections.set_function(lambda: len(connections))
    # uvicorn's access log would contain raw request targets; RequestMiddleware logs the route.
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
    """Raise the soft limit of open files to the hard limit, and return it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = UNLIMITED if hard == resource.RLIM_INFINITY else hard
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


def connection_limits(settings: ServiceSettings, descriptors: int) -> ConnectionLimits:
    """Return the limits of the settings, reduced to the available file descriptors."""
    most = min(settings.max_connections, max(descriptors // 4, descriptors - RESERVE))
    return ConnectionLimits(most, min(most, settings.max_connections_per_address))
