"""Client commands: `ansorpy submit | status | watch | cancel | pause | resume | retry | delete`.

ANSORPY_URL is the address of the service, ANSORPY_API_KEY or ANSORPY_API_KEY_FILE the key.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from stamina.instrumentation import RetryDetails, set_on_retry_hooks

from ansorpy.errors import AnsorError, PackageError, SpecError
from ansorpy.graph.remedies import as_options
from ansorpy.importers.suffixes import is_model
from ansorpy.model.options import ModelJobOptions
from ansorpy.server.commands.arguments import Bind
from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.common import (
    INTERRUPTED,
    NO_SERVICE,
    NOTHING_SURVIVED,
    WRONG_INPUT,
    bindings,
    extents,
    read_source,
    shapes_of,
    stop,
)
from ansorpy.server.commands.job_progress import as_line, watcher
from ansorpy.server.commands.options import takes_options
from ansorpy.tuner.options.tune_options import values

if TYPE_CHECKING:  # imported on first use, because `ansorpy tune` does not need the client
    from ansorpy.client import Client, Job

kernels = Commands(help="Download kernels of a service.")

File = Annotated[
    str, typer.Argument(help="A .te text, a .json DAG, a .onnx model, or - for standard input.")
]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job, or a prefix of it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Out = Annotated[Path, typer.Option(help="Folder for the kernels.")]


@contextmanager
def service() -> Iterator["Client"]:
    """Open a client of the configured service; turn errors into a message of one line."""
    from ansorpy.client import Client, ServiceError
    from ansorpy.client.connection import address_of

    set_on_retry_hooks([_tell_retry])
    try:
        place = address_of()
        with Client(place.url, place.key) as client:
            yield client
    except ServiceError as error:
        code = WRONG_INPUT if 400 <= error.status < 500 else NO_SERVICE
        raise stop(AnsorError(as_options(str(error))), code) from error
    except (SpecError, PackageError) as error:
        raise stop(error, WRONG_INPUT) from error


def _tell_retry(details: RetryDetails) -> None:
    if details.retry_num == 1:  # only once, because a final failure has its own message
        typer.echo("ansorpy: the request failed, retrying", err=True)


@takes_options(ModelJobOptions, of_service=True)
def submit(
    file: File,
    options: ModelJobOptions,
    bind: Bind = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="x=1,3,224,224: shape of an input of a model.")
    ] = None,
    keep_weights_home: Annotated[
        bool,
        typer.Option(
            "--keep-weights-home",
            help="Send the graph of a model without weights; `ansorpy join` adds them.",
        ),
    ] = False,
    target: Annotated[str, typer.Option(help="KIND[:ARCH] or a digest; any unless given.")] = "",
    priority: Annotated[
        int, typer.Option(min=-100, max=100, help="Jobs of a higher one run first.")
    ] = 0,
    idempotency_key: Annotated[str | None, typer.Option(help="Queue the job once per key.")] = None,
    watch_it: Annotated[bool, typer.Option("--watch", help="Follow it to its end.")] = False,
    as_json: AsJson = False,
) -> None:
    """Queue a job and print its id."""
    with service() as client:
        job = client.submit(
            **_workload(client, file, bind, shapes_of(shape), keep_weights_home),
            **values(options, ModelJobOptions),
            target=target,
            priority=priority,
            idempotency_key=idempotency_key,
        )
        typer.echo(_json(job) if as_json else job.id)
        if job.how != "created":
            typer.echo(f"{job.how}: {as_line(job)}", err=True)
        if watch_it:
            _follow(client, job.id)


def status(
    job: Annotated[
        str | None, typer.Argument(help="The id of a job, or a prefix of it; default: all jobs.")
    ] = None,
    state: Annotated[str | None, typer.Option(help="Only jobs in this state.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of jobs.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show a job, or the newest jobs."""
    with service() as client:
        if job is not None:
            found = client.job(job)
            typer.echo(_json(found) if as_json else as_line(found))
            return
        lines = [line for line, _ in zip(client.jobs(state), range(limit), strict=False)]
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines], indent=2))
        return
    for line in lines:
        more = "" if line.task_count == len(line.tasks) else f" and {line.task_count} in all"
        names = ", ".join(line.tasks) + more
        if line.model is not None:
            names = f"model {line.name or line.model[:12]}{names and f': {names}'}"
        typer.echo(f"{line.id}  {line.state:9}  {line.trials}/{line.trials_asked}  {names}")


def watch(job: JobId) -> None:
    """Follow a job to its end.

    Exit codes: 0 success, 3 failure, 130 after Ctrl-C.
    """
    with service() as client:
        _follow(client, job)


def cancel(job: JobId) -> None:
    """Cancel a job."""
    with service() as client:
        typer.echo(as_line(client.cancel(job)))


def pause(job: JobId) -> None:
    """Pause a job until it is resumed."""
    with service() as client:
        typer.echo(as_line(client.pause(job)))


def resume(job: JobId) -> None:
    """Queue a paused job again."""
    with service() as client:
        typer.echo(as_line(client.resume(job)))


def retry(job: JobId) -> None:
    """Queue the request of an ended job as a new job."""
    with service() as client:
        typer.echo(client.retry(job).id)


def delete(job: JobId) -> None:
    """Cancel a job and delete it with its kernels."""
    with service() as client:
        client.delete(job)


@kernels.command()
def pull(
    what: Annotated[
        str, typer.Argument(help="The id of a job (or a prefix), or sha256:... of a package.")
    ],
    task: Annotated[list[str] | None, typer.Option(help="Only these tasks of the job.")] = None,
    out: Out = Path("kernels"),
) -> None:
    """Download kernel packages or the bundle of a model, verify digests, and print paths.

    A package, once loaded, runs code of its author: pull only from a service that you trust. A
    digest proves the bytes, not their behaviour.
    """
    with service() as client:
        if what.startswith("sha256:"):
            typer.echo(_pull_digest(client, what, out))
            return
        job = client.job(what)
        if job.model is not None:
            name = f"model-{job.model['sha256'][:12]}.zip"
            typer.echo(client.pull_bundle(job.id, out / name))
            return
        names = task or [t.name for t in job.tasks if t.kernel is not None]
        if not names:
            raise SpecError(
                f"cannot pull {what} because the job has no kernel yet; expected a task with a"
                " kernel"
            )
        for name in names:
            typer.echo(client.pull(what, name, out))


def _pull_digest(client: "Client", what: str, out: Path) -> Path:
    from ansorpy.artifact.package import parse_digest

    digest = parse_digest(what)
    data = client.package(digest)
    path = out / f"kernel-{digest[:12]}.zip"
    try:
        out.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error
    return path


def _follow(client: "Client", job_id: str) -> None:
    try:
        with watcher(sys.stderr) as show:
            for job in client.watch(job_id):
                show(job)
    except KeyboardInterrupt:
        typer.echo(f"the job continues: ansorpy watch {job_id}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    if job.state != "succeeded":
        raise typer.Exit(NOTHING_SURVIVED)


def _workload(
    client: "Client",
    file: str,
    bind: list[str] | None,
    shapes: dict[str, tuple[int, ...]],
    keep_weights_home: bool,
) -> dict[str, Any]:
    """Return a file as arguments of `Client.submit`.

    A JSON Dag is checked locally; a model is stored at the service unless its weights stay home.
    """
    from ansorpy.importers.model_file import is_document, read_document

    if is_document(Path(file)):
        return {"graph": read_document(Path(file)).json, "bind": bindings(bind), "shapes": shapes}
    if is_model(file) and keep_weights_home:
        from ansorpy.model.home import home_model

        return {"graph": home_model(file, bindings(bind), shapes).sent.document.json}
    if is_model(file):
        return {"model": client.put_model(file), "bind": bindings(bind), "shapes": shapes}
    if keep_weights_home:
        raise SpecError(
            f"cannot keep weights of {file} home because it has none; expected an ONNX model"
        )
    text, dag = read_source(file)
    return {"text": text, "bind": extents(bind)} if dag is None else {"dags": (dag,)}


def _json(job: "Job") -> str:
    return json.dumps(asdict(job), indent=2)
