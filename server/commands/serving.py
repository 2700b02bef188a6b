"""The HTTP server of `ansorpy serve`: it says where the dashboard is once it listens."""

import socket
from contextlib import suppress
from ipaddress import ip_address

import typer
import uvicorn
from fastapi import FastAPI

from ansorpy.server.settings import Settings

STOP_S = 5  # until open connections are closed


class Server(uvicorn.Server):
    """Uvicorn's, which prints the address of the dashboard on standard output."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Bind, then print the address: the port may have been chosen by the system."""
        await super().startup(sockets)
        host, port, *_ = self.servers[0].sockets[0].getsockname()
        typer.echo(f"dashboard: http://{shown_host(host)}:{port}/")


def shown_host(address: str) -> str:
    """Return how a browser on this machine reaches a server that listens on an address."""
    found = ip_address(address)
    if found.is_unspecified:
        return "localhost"
    return f"[{address}]" if found.version == 6 else address


def listen(app: FastAPI, settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT."""
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        # No access log of its own: it would write addresses as they came in; ours names the route.
        access_log=False,
        log_config=None,
        timeout_graceful_shutdown=STOP_S,
    )
    with suppress(KeyboardInterrupt):
        Server(config).run()
