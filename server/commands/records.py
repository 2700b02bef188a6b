"""`ansorpy records`: export and import of records as JSONL."""

import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from ansorpy.errors import RecordError, SpecError
from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.common import (
    opened,
    read_settings,
    wrong_input,
)
from ansorpy.server.commands.remote import service

if TYPE_CHECKING:
    from ansorpy.records import Record, RecordStore

app = Commands(help="Export and import records.")

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
    remote: Annotated[
        bool, typer.Option("--remote", help="Into the service instead of the database.")
    ] = False,
) -> None:
    """Import records, each once; later tunings of their tasks measure their programs first."""
    from ansorpy.records import encode, import_jsonl, lines_of

    with wrong_input(), refused_records(), opened(file) as lines:
        records = import_jsonl(lines_of(lines), file)
        if remote:
            with service() as client:
                new = client.import_records(map(encode, records))
        else:
            new = _kept(records)
    typer.echo(f"{new} new records", err=True)


@app.command()
def distil(
    out: Annotated[str, typer.Option(help="A file, or - for standard output.")] = "-",
    file: Annotated[
        str | None, typer.Option("--from", help="A JSONL file instead of the database, or -.")
    ] = None,
) -> None:
    """Write the fastest record of each task and machine: a small file for other machines."""
    from ansorpy.records import best_of_each, encode, import_jsonl, lines_of

    count = 0
    with wrong_input(), ExitStack() as stack:
        if file is None:
            found = _store().export()
        else:
            found = import_jsonl(lines_of(stack.enter_context(opened(file))), file)
        with refused_records():
            best = best_of_each(found)
        with _written(out) as target:
            for record in best:
                target.write(f"{encode(record)}\n")
                count += 1
    typer.echo(f"{count} records", err=True)


@app.command()
def replay(
    file: Annotated[str, typer.Argument(help="A JSONL file, or - for standard input.")],
    dag: Annotated[
        bool, typer.Option("--dag", help="Print the Dags as JSON, a line each, for tune.")
    ] = False,
) -> None:
    """Print the loop nest of each record of FILE, from the record alone."""
    from ansorpy.loopir.printer import text
    from ansorpy.records import import_jsonl, lines_of
    from ansorpy.replay import carried_dag, replay
    from ansorpy.tuner.options.targets import target_of

    with wrong_input(), refused_records(), opened(file) as lines:
        for number, record in enumerate(import_jsonl(lines_of(lines), file), start=1):
            computed = carried_dag(record)
            if dag:
                typer.echo(record.dag)
                continue
            target, here = target_of(record.key)
            program = replay(computed, target, record)
            place = "" if here else ", for this machine: it was measured on another one"
            typer.echo(f"# record {number}, {record.id[:12]}, {computed.name}{place}")
            typer.echo(text(program))


@contextmanager
def refused_records() -> Iterator[None]:
    """Turn the error of a record into the error of an input."""
    try:
        yield
    except RecordError as error:
        raise SpecError(str(error)) from error


def _kept(records: "Iterable[Record]") -> int:
    """Keep imported records in the database, batch by batch; return the number of new ones."""
    from ansorpy.records import IMPORTED

    store = _store()
    before = store.count()
    rest = iter(records)
    while batch := list(islice(rest, BATCH)):
        store.append(batch, IMPORTED)
    return store.count() - before


def _local() -> Iterator[str]:
    from ansorpy.records import encode

    yield from map(encode, _store().export())


def _store() -> "RecordStore":
    """Open the records of the database, or of the store that ANSORPY_STORE names."""
    from ansorpy.tuner.parts.stores import store_of

    return store_of(read_settings().store)


def _remote(job: str | None) -> Iterator[str]:
    with service() as client:
        yield from client.records(job)


@contextmanager
def _written(out: str) -> Iterator[IO[str]]:
    if out == "-":
        yield sys.stdout
        return
    try:
        with Path(out).open("w", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise SpecError(f"{out}: {error.strerror}") from error
