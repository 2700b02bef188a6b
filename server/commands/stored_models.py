"""Client commands about models: `ansorpy models push | list | pull | delete`.

ANSORPY_URL is the address of the service, ANSORPY_API_KEY or ANSORPY_API_KEY_FILE the key.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.remote import AsJson, service

app = Commands(help="ONNX models of a service, by sha256.")

File = Annotated[Path, typer.Argument(metavar="FILE", help="An ONNX model.")]
Digest = Annotated[str, typer.Argument(metavar="SHA256", help="The sha256 of a model.")]


@app.command()
def push(file: File, as_json: AsJson = False) -> None:
    """Store a model in the service and print its sha256; tell why it cannot be compiled."""
    with service() as client:
        made = client.model(client.put_model(file))
    typer.echo(json.dumps(asdict(made), indent=2) if as_json else made.sha256)
    if made.refusal is not None:
        typer.echo(f"ansorpy: {made.refusal}", err=True)


@app.command("list")
def listing(
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of models.")] = 20,
    as_json: AsJson = False,
) -> None:
    """Show the newest models: sha256, bytes, nodes, name of the file."""
    with service() as client:
        lines = [line for line, _ in zip(client.models(), range(limit), strict=False)]
    if as_json:
        typer.echo(json.dumps([asdict(line) for line in lines], indent=2))
        return
    for line in lines:
        facts = f"{line.sha256}  {line.size_bytes:>11}  {line.node_count} nodes"
        refused = "refused" if line.refused else ""
        typer.echo("  ".join(filter(None, (facts, line.name, refused))))


@app.command()
def pull(
    digest: Digest,
    out: Annotated[Path | None, typer.Option(help="The file to write.")] = None,
) -> None:
    """Download a model, verify its digest, and print its path."""
    with service() as client:
        typer.echo(client.pull_model(digest, out or Path(f"model-{digest[:12]}.onnx")))


@app.command()
def delete(digest: Digest) -> None:
    """Delete a model; a model of a job that has not ended stays."""
    with service() as client:
        client.delete_model(digest)
