"""`ansorpy join`: a bundle without weights, and the weights of a model."""

import json
from pathlib import Path
from typing import Annotated

import typer

from ansorpy.errors import PackageError, RunError
from ansorpy.server.commands.common import (
    NOTHING_SURVIVED,
    WRONG_INPUT,
    bindings,
    shapes_of,
    stop,
    wrong_input,
)


def join(
    bundle: Annotated[Path, typer.Argument(help="The zip without weights.")],
    model: Annotated[Path, typer.Argument(help="The model that has the weights.")],
    out: Annotated[Path, typer.Option(help="The bundle to write.")],
    bind: Annotated[
        list[str] | None,
        typer.Option(help="batch=1 binds a symbolic extent or a scalar input, batch=1..8 a range."),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="x=1,3,224,224 gives the shape of an input.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Join BUNDLE, tuned without weights, with the weights of MODEL.

    The result is verified.

    This runs code of the author of the bundle: use only files that you trust.

    \b
    Example:
      ansorpy join weightless.zip model.onnx --out model.zip

    The weights may be others than those at the time of tuning, if the graph is the same. Exit
    codes: 0 a verified bundle, 2 wrong input, 3 wrong outputs.
    """
    from ansorpy.model.join import join_model

    with wrong_input():
        try:
            joined = join_model(bundle, model, out, bindings(bind), shapes_of(shape))
        except PackageError as error:
            raise stop(error, WRONG_INPUT) from error
        except RunError as error:
            raise stop(error, NOTHING_SURVIVED) from error
    told = {
        "bundle": str(joined.bundle), "error": joined.error, "bound": joined.bound,
        "reference": joined.reference,
    }  # fmt: skip
    typer.echo(json.dumps(told, indent=2) if as_json else str(joined))
