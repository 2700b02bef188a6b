"""HTTP server of `ansorpy serve`."""

import socket
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

import typer
from fastapi import FastAPI

from ansorpy.server.http.uvicorn_server import (
    QueueingServer,
    connection_limits,
    raise_descriptor_limit,
    server_config,
    tune_interpreter,
)
from ansorpy.server.settings import ServiceSettings

STARTUP_FAILURE: Final = 3  # exit code, the same as of uvicorn's command


class AnnouncingServer(QueueingServer):
    """Server that prints the address of the dashboard on standard output."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Bind, then print the address, whose port may be chosen by the system."""
        await super().startup(sockets)
        host, port, *_ = self.servers[0].sockets[0].getsockname()
        typer.echo(f"dashboard: http://{shown_host(host)}:{port}/")


def shown_host(address: str) -> str:
    """Return the host part of a URL for a server that listens on `address`."""
    found = ip_address(address)
    if found.is_unspecified:
        return "localhost"
    return f"[{address}]" if found.version == 6 else address


def listen(app: FastAPI, settings: ServiceSettings) -> None:
    """Serve until SIGTERM or SIGINT."""
    limits = connection_limits(settings, raise_descriptor_limit())
    server = AnnouncingServer(server_config(app, settings, limits, app.state.dependencies.metrics))
    tune_interpreter()
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        raise typer.Exit(STARTUP_FAILURE)
