"""`ansorpy example`: a small model to try."""

from pathlib import Path
from typing import Annotated

import typer

from ansorpy.errors import SpecError
from ansorpy.server.commands.common import wrong_input


def example(
    name: Annotated[str, typer.Argument(help="A name of the list.")] = "",
    out: Annotated[
        Path | None, typer.Option(help="The file to write; NAME.onnx unless given.")
    ] = None,
) -> None:
    """Write a small model as ONNX; without NAME, list them.

    \b
    Example:
      ansorpy example encoder && ansorpy tune encoder.onnx --out encoder.zip

    Weights are random, and equal on each machine. Nothing is downloaded. Exit codes: 0 written,
    2 wrong input.
    """
    import onnx

    from ansorpy.model.examples import EXAMPLES

    if not name:
        for known, one in EXAMPLES.items():
            typer.echo(f"{known:11} {one.about}")
        return
    with wrong_input():
        if name not in EXAMPLES:
            raise SpecError(
                f"cannot write example {name} because it is unknown; expected {', '.join(EXAMPLES)}"
            )
        path = out or Path(f"{name}.onnx")
        made = EXAMPLES[name].make()
        try:
            onnx.save(made, str(path))
        except OSError as error:
            raise SpecError(f"cannot write {path} because of {error.strerror}") from error
    typer.echo(f"{path}: {EXAMPLES[name].about}; seeded random weights")
    typer.echo(f"next: ansorpy tune {path} --out {path.with_suffix('.zip')}")
