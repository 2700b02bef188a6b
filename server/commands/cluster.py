"""`ansorpy cluster` and `ansorpy slot`: the machines of a cluster that measure."""

import json
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ansorpy.server.commands.command import Commands
from ansorpy.server.commands.common import wrong_input

app = Commands(help="Run the head of a cluster, and list its machines.")

SURVEY_S: Final = 20.0
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
    hours: Annotated[
        str,
        typer.Option(help="When it takes work, in local time: 'Mon-Fri 19:00-07:00, Sat-Sun'."),
    ] = "",
    address: Address = "",
) -> None:
    """Offer this machine to a cluster until Ctrl-C or SIGTERM.

    Slots of the machine build, check and time candidates for tunings with ANSORPY_CLUSTER. At its
    end, and at the end of its hours, candidates without a time go to other slots.
    ANSORPY_CLUSTER_TOKEN_FILE names the file with the secret of the cluster. Each program that
    knows it can run others here, as in any cluster of Ray.
    """
    from ansorpy.cluster.place import core_sets, head_address
    from ansorpy.cluster.ray import node
    from ansorpy.measure.cores import usable_cores
    from ansorpy.measure.host import local_target
    from ansorpy.records import target_digest
    from ansorpy.units import counted

    with wrong_input(), tempfile.TemporaryDirectory(prefix="ansorpy-slots-") as name:
        folder = Path(name)
        head = head_address(cluster)
        usable = usable_cores()
        sets = core_sets(usable, cores or len(usable))
        environment = node.slot_environment(sets, hours, folder)
        kind = target_digest(local_target(len(sets[0])))
        host = address or node.address_towards(head)
        slots = f"{counted(len(sets), 'slot')} of {counted(len(sets[0]), 'core')}"
        typer.echo(f"{slots}, kind {kind}, for {head}")
        command = node.slot_command(head, len(sets), kind, host)
        node.kept_running(command, environment, _tell, partial(node.leave, folder))


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
    """List the slots of a cluster: machine, kind, trials and activity."""
    from ansorpy.cluster.place import head_address
    from ansorpy.cluster.ray.environment import ray_environment
    from ansorpy.units import counted

    with wrong_input():
        head = head_address(cluster)
        environment = ray_environment()
    command = [sys.executable, "-m", "ansorpy.cluster.ray.survey", head]
    reason = f"it does not answer within {SURVEY_S:.0f} s"
    told: dict[str, Any] = {}
    with suppress(subprocess.TimeoutExpired):
        found = subprocess.run(
            command, env=environment, capture_output=True, timeout=SURVEY_S, check=False, text=True
        )
        told = json.loads(found.stdout) if found.stdout else {}
        reason = told["reason"] if told else f"its survey ended: {found.stderr.strip()[-500:]}"
    if reason:
        typer.echo(f"ansorpy: cannot reach the cluster at {head} because {reason}", err=True)
        raise typer.Exit(4)
    if as_json:
        typer.echo(json.dumps(told, indent=2))
        return
    for one in told["slots"]:
        doing, until = one["doing"], f" until {one['until']}" if one["until"] else ""
        work = f"  {doing['method']} for {doing['tenant']}" if doing else until
        typer.echo(
            f"{one['name']:24} {one['address']:15} {one['kind']:16} {one['version']:8}"
            f" {one['trials']:8} trials  {one['waiting']:3} waiting  {one['state']}{work}"
        )
    states = [one["state"] for one in told["slots"] if one["state"] != "left"]
    typer.echo(f"{counted(len(states), 'slot')}, {states.count('busy')} busy")


def _tell(text: str) -> None:
    typer.echo(f"ansorpy: {text}", err=True)
