"""`ansorpy plugins`: the parts of a tuning that a request may choose by name."""

import json
from typing import Annotated

import typer


def plugins(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """List the installed parts that a tuning can name.

    These are cost models, search strategies, space generators, measuring back ends and stores. A
    line has the option that chooses a part, its name and its package. Nothing of another package
    is imported: a part that cannot be loaded says so when it is chosen.
    """
    from ansorpy.server.service.plugins import plugin_list  # models of replies are slow to load

    found = plugin_list()
    if as_json:
        typer.echo(json.dumps(found.model_dump(), indent=2))
        return
    for one in found.plugins:
        default = " (default)" if one.default else ""
        flag = "--" + one.option.replace("_", "-")
        typer.echo(f"{flag:13} {one.name:16} {one.package}{default}")
