"""`ansorpy doctor`: the requirements of ansorpy on this machine."""

from typing import Annotated

import typer

from ansorpy.server.commands.common import read_settings, wrong_input


def doctor(
    verbose: Annotated[bool, typer.Option("--verbose", help="Print the details as well.")] = False,
) -> None:
    """Check the requirements of ansorpy on this machine.

    A requirement that is not met is told with its remedy.
    """
    from ansorpy.server.doctor.checks import examine

    bad = False
    with wrong_input():
        for finding in examine(read_settings()):
            typer.echo(f"{finding.state:4} {finding.name}: {finding.text}")
            if verbose and finding.details:
                typer.echo(f"     {finding.details}")
            bad = bad or finding.state == "bad"
    if bad:
        raise typer.Exit(1)
