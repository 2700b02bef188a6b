"""`ansorpy serve` and `ansorpy worker`: the processes of a service."""

from typing import Annotated

import typer

from ansorpy.server.commands.common import database_store, read_settings, wrong_input


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Port to listen on.")] = None,
) -> None:
    """Run the service, configured by ANSORPY_* variables."""
    from ansorpy.measure.cores import keep_off_the_slot
    from ansorpy.server.app import create_app
    from ansorpy.server.commands.serve import listen
    from ansorpy.server.logs import configure

    with wrong_input():
        changes = {"host": host, "port": port}
        given = {name: value for name, value in changes.items() if value is not None}
        settings = read_settings().model_copy(update=given)
        database_store()
        service = create_app(settings)
    configure(settings.log_format)
    if settings.embedded_worker:
        keep_off_the_slot()  # the API must not disturb measurements on the core of the worker
    listen(service, settings)


def worker() -> None:
    """Run jobs of the database until SIGTERM.

    Any number of workers may run.
    """
    from ansorpy.server.worker.main import work
    from ansorpy.server.worker.stop_flag import StopFlag

    with wrong_input():
        work(read_settings(), StopFlag())
