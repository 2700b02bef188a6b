"""The `ansorpy` command line: the table of its commands, which load when they are called.

Results go to standard output, progress and errors to standard error. Exit codes: 0 verified
kernels, 2 invalid input, 3 no candidate passed its checks or a rule is refused, 4 the service does
not answer, 130 interrupted (the first Ctrl-C writes the best kernel so far, a second one ends at
once).
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final

import typer

import ansorpy
from ansorpy.server.commands.command import Commands, LazyGroup, Outline

TUNE: Final = "Tune on this machine"
MODEL: Final = "Use the bundle of a model"
SERVICE: Final = "Use a service (ANSORPY_URL)"
HOST: Final = "Run a service"
DATA: Final = "Manage data"


def _outlines(*rows: tuple[str, str, str, str]) -> Mapping[str, Outline]:
    root = "ansorpy.server.commands"
    return {name: Outline(panel, f"{root}.{place}", line) for name, panel, place, line in rows}


class Commandline(LazyGroup):
    """The commands, in the order of `ansorpy --help`."""

    outlines: ClassVar = _outlines(
        (
            "tune", TUNE, "tune:tune",
            "Search fast kernels for FILE; write zips, of a model a bundle",
        ),
        (
            "example", TUNE, "example:example",
            "Write a small model as ONNX; without NAME, list them",
        ),
        ("sketches", TUNE, "derivation:sketches", "List the sketches of every task of FILE"),
        (
            "explain", TUNE, "derivation:explain",
            "Print the derivation: each rule at each stage, with its reason",
        ),
        (
            "lower", TUNE, "derivation:lower",
            "Print a candidate of every task of FILE: its loops after lowering, or each stage",
        ),
        ("doctor", TUNE, "doctor:doctor", "Check the requirements of ansorpy on this machine"),
        (
            "simplify", TUNE, "simplify:simplify",
            "Run the graph passes on IN, compare both models, and write OUT",
        ),
        ("plugins", TUNE, "plugins:plugins", "List the installed parts that a tuning can name"),
        ("rule", TUNE, "rule:app", "Check derivation rules"),
        ("serve", HOST, "host:serve", "Run the service, configured by ANSORPY_* variables"),
        ("worker", HOST, "host:worker", "Run jobs of the database until SIGTERM"),
        ("slot", HOST, "cluster:slot", "Offer this machine to a cluster until Ctrl-C or SIGTERM"),
        ("cluster", HOST, "cluster:app", "Run the head of a cluster, and list its machines"),
        ("run", MODEL, "models:run", "Run the model of a bundle once"),
        (
            "bench", MODEL, "models:bench",
            "Time the model of a bundle, in turns with other runtimes",
        ),
        (
            "join", MODEL, "join:join",
            "Join BUNDLE, tuned without weights, with the weights of MODEL",
        ),
        ("submit", SERVICE, "remote:submit", "Queue a job and print its id"),
        ("status", SERVICE, "remote:status", "Show a job, or the newest jobs"),
        ("watch", SERVICE, "remote:watch", "Follow a job to its end"),
        ("cancel", SERVICE, "remote:cancel", "Cancel a job"),
        ("pause", SERVICE, "remote:pause", "Pause a job until it is resumed"),
        ("resume", SERVICE, "remote:resume", "Queue a paused job again"),
        ("retry", SERVICE, "remote:retry", "Queue the request of an ended job as a new job"),
        ("delete", SERVICE, "remote:delete", "Cancel a job and delete it with its kernels"),
        ("kernels", SERVICE, "remote:kernels", "Download kernels of a service"),
        ("models", SERVICE, "stored_models:app", "ONNX models of a service, by sha256"),
        ("records", DATA, "records:app", "Export and import records"),
        ("keys", DATA, "keys:app", "Create, list, rotate and revoke API keys"),
        ("db", DATA, "db:app", "Manage the database of records and jobs"),
    )  # fmt: skip


app = Commands("ansorpy", group=Commandline, completion=True)


def tell_version(wanted: bool) -> None:
    """Print the version and exit if `--version` was given."""
    if wanted:
        typer.echo(f"ansorpy {ansorpy.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Template-free auto-scheduling of tensor programs."""
