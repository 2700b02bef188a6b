"""`ansorpy records`: export and import of records as JSONL."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

import typer

from ansorpy.server.commands.common import database, read_settings, wrong_input
from ansorpy.server.commands.remote import service

app = typer.Typer(help="Export and import records as JSONL.", no_args_is_help=True)

BATCH = 500  # records per transaction


@app.command()
def export(
    out: Annotated[str, typer.Option(help="A file, or - for standard output.")] = "-",
    remote: Annotated[
        bool, typer.Option("--remote", help="Records of the service instead of the database.")
    ] = False,
    job: Annotated[str | None, typer.Option(help="Only records of a job (with --remote).")] = None,
) -> None:
    """Write every record as a line of JSON, oldest first."""
    from ansorpy.errors import SpecError

    count = 0
    with wrong_input():
        if job is not None and not remote:
            raise SpecError("cannot select a job of the own database; expected --remote with --job")
        with _written(out) as file:
            for line in _remote(job) if remote else _local():
                file.write(f"{line}\n")
                count += 1
    typer.echo(f"{count} records", err=True)


@app.command("import")
def take_in(
    file: Annotated[str, typer.Argument(help="A JSONL file, or - for standard input.")],
) -> None:
    """Import records, each once; later tunings of their tasks measure their programs first."""
    from ansorpy.errors import RecordError, SpecError
    from ansorpy.records import IMPORTED, Record, import_jsonl, lines_of
    from ansorpy.server.db.records import SqlStore
    from ansorpy.server.db.upgrade import local_tenant

    with wrong_input():
        try:
            lines = sys.stdin if file == "-" else Path(file).open(encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise SpecError(f"{file}: {error.strerror}") from error
        engine = database(read_settings())
        store = SqlStore(engine, local_tenant(engine))
        before = store.count()
        batch: list[Record] = []
        try:
            for record in import_jsonl(lines_of(lines), file):
                batch.append(record)
                if len(batch) == BATCH:
                    store.append(batch, IMPORTED)
                    batch = []
            store.append(batch, IMPORTED)
        except (RecordError, UnicodeDecodeError) as error:
            raise SpecError(str(error)) from error
        finally:
            lines.close()
        new = store.count() - before
        engine.dispose()
    typer.echo(f"{new} new records", err=True)


def _local() -> Iterator[str]:
    from ansorpy.records import encode
    from ansorpy.server.db.records import SqlStore
    from ansorpy.server.db.upgrade import local_tenant

    engine = database(read_settings())
    yield from map(encode, SqlStore(engine, local_tenant(engine)).export())
    engine.dispose()


def _remote(job: str | None) -> Iterator[str]:
    with service() as client:
        yield from client.records(job)


@contextmanager
def _written(out: str) -> Iterator[IO[str]]:
    from ansorpy.errors import SpecError

    if out == "-":
        yield sys.stdout
        return
    try:
        with Path(out).open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise SpecError(f"{out}: {error.strerror}") from error
