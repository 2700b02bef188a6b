"""Arguments and options that several commands have."""

from typing import Annotated

import typer

File = Annotated[str, typer.Argument(help="A .te text, a .json DAG, or - for standard input.")]
Tuned = Annotated[
    str, typer.Argument(help="A .te text, a .json DAG, - for standard input, or an .onnx model.")
]
Shape = Annotated[
    list[str] | None, typer.Option(help="x=1,3,224,224: the shape of an input of a model.")
]
Name = Annotated[
    str, typer.Option("--target", help="KIND[:ARCH], such as cpu or cuda:sm_90, or a digest.")
]
TuneName = Annotated[
    str,
    typer.Option(
        "--target", help="cpu, cpu:ARCH or the digest of this machine; cuda or cuda:ARCH."
    ),
]
Cores = Annotated[int, typer.Option(min=1, max=256, help="Threads of the kernel.")]
Bind = Annotated[
    list[str] | None,
    typer.Option(
        help="K=512 binds a symbol, or a scalar input of a model. K=1..512 leaves a symbol to each"
        " call, both ends included; K=8..512:8 to multiples of 8, and"
        " K=1..512@1..8:0.9+512:0.1 says how often calls have which sizes. K=past+new is the sum"
        " of other symbols of a model."
    ),
]
Allow = Annotated[
    list[str] | None, typer.Option(help="Rules that are used on request only: winograd2.")
]
Without = Annotated[list[str] | None, typer.Option(help="Rules to leave out: SplitPhases.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
