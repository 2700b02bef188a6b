"""`ansorpy cluster` and `ansorpy slot`: the machines of a cluster that measure."""

import json
import subprocess
import sys
from typing import Annotated, Any, Final

import typer

from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.common import wrong_input

app = Commands(help="Run the head of a cluster, and list its machines.")

SURVEY_S: Final = 60.0
Cluster = Annotated[
    str,
    typer.Option("--cluster", envvar="ANSORPY_CLUSTER", help="HOST:PORT of the cluster's head."),
]
Address = Annotated[
    str, typer.Option("--address", help="Address of this machine; Ray chooses it unless given.")
]


def slot(
    cluster: Cluster,
    cores: Annotated[
        int | None, typer.Option(min=1, help="Cores of a slot; all of this machine in one.")
    ] = None,
    address: Address = "",
) -> None:
    """Offer this machine to a cluster until Ctrl-C or SIGTERM.

    Slots of the machine build, check and time candidates for tunings with ANSORPY_CLUSTER.
    ANSORPY_CLUSTER_TOKEN_FILE names the file with the secret of the cluster. Each program that
    knows it can run others here, as in any cluster of Ray.
    """
    from ansorpy.cluster.place import core_sets
    from ansorpy.cluster.ray import node
    from ansorpy.measure.cores import usable_cores
    from ansorpy.measure.host import local_target
    from ansorpy.records import target_digest
    from ansorpy.units import counted

    with wrong_input():
        usable = usable_cores()
        sets = core_sets(usable, cores or len(usable))
        environment = node.slot_environment(sets)
    kind = target_digest(local_target(len(sets[0])))
    slots = f"{counted(len(sets), 'slot')} of {counted(len(sets[0]), 'core')}"
    typer.echo(f"{slots}, kind {kind}, for {cluster}")
    node.kept_running(node.slot_command(cluster, len(sets), kind, address), environment, _tell)


@app.command()
def head(
    port: Annotated[int, typer.Option(min=1, max=65535, help="Port of the cluster.")] = 6379,
    address: Address = "",
) -> None:
    """Run the head of a cluster until Ctrl-C or SIGTERM; it measures nothing.

    The port is for machines that know the secret in ANSORPY_CLUSTER_TOKEN_FILE; keep it in a
    private network all the same.
    """
    from ansorpy.cluster.ray import node
    from ansorpy.cluster.ray.environment import ray_environment

    with wrong_input():
        environment = ray_environment()
    node.kept_running(node.head_command(port, address), environment, _tell)


@app.command()
def status(
    cluster: Cluster,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the machines of a cluster: slots, kind, version."""
    from ansorpy.cluster.ray.environment import ray_environment

    with wrong_input():
        environment = ray_environment()
    command = [sys.executable, "-m", "ansorpy.cluster.ray.survey", cluster]
    try:
        found = subprocess.run(
            command, env=environment, capture_output=True, timeout=SURVEY_S, check=True
        )
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError) as error:
        lines = (error.stderr or b"").decode(errors="replace").strip().splitlines()
        reason = lines[-1] if lines else f"it does not answer within {SURVEY_S:.0f} s"
        typer.echo(f"ansorpy: cannot reach the cluster at {cluster} because {reason}", err=True)
        raise typer.Exit(4) from None
    told: dict[str, Any] = json.loads(found.stdout)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    for one in told["machines"]:
        labels = one["labels"]
        state = "" if one["alive"] else "  left"
        versions = f"{labels.get('ansorpy.kind', '-'):16} {labels.get('ansorpy.version', '-')}"
        typer.echo(
            f"{one['host']:20} {one['address']:15} {one['slots']:3} slots  {versions}{state}"
        )
    total = sum(one["slots"] for one in told["machines"] if one["alive"])
    typer.echo(f"{told['free']} of {total} slots are free")


def _tell(text: str) -> None:
    typer.echo(f"ansorpy: {text}", err=True)
