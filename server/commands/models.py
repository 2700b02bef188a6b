"""The commands of bundles: run a model, race it against other runtimes."""

import json
from collections.abc import Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ansorpy.errors import PackageError, SpecError
from ansorpy.server.commands.common import NOTHING_SURVIVED, WRONG_INPUT, stop, wrong_input

if TYPE_CHECKING:
    from ansorpy.bundle.load import LoadedModel
    from ansorpy.model.race import Standing

PEERS: Final = ("ort", "openvino", "torch", "inductor")
OURS: Final = "ansorpy"

Bundle = Annotated[Path, typer.Argument(help="The zip of a model.")]
Threads = Annotated[
    int | None, typer.Option("--cores", min=1, max=256, help="Threads; as tuned unless given.")
]
Inputs = Annotated[
    Path | None,
    typer.Option(help="An .npz file with an array per input; the stored sample unless given."),
]


def run(
    bundle: Bundle,
    inputs: Inputs = None,
    outputs: Annotated[Path | None, typer.Option(help="Write the results to an .npz file.")] = None,
    cores: Threads = None,
) -> None:
    """Run the model of a bundle once.

    \b
    Example:
      ansorpy run model.zip --inputs in.npz --outputs out.npz

    \b
    Without --inputs the sample in the bundle is run, and its result is checked.
    Exit codes: 0 done, 2 wrong input, 3 the sample gave another result.
    """
    import numpy as np

    with wrong_input():
        model = opened(bundle, cores)
        given = arrays_of(model, inputs)
        try:
            found = model(given)
        except (TypeError, ValueError) as error:
            raise SpecError(str(error)) from error
        results = found if isinstance(found, tuple) else (found,)
        named = dict(zip([one.name for one in model.outputs], results, strict=True))
        if outputs is not None:
            try:
                np.savez(outputs, **named)
            except OSError as error:
                raise SpecError(f"cannot write {outputs} because of {error.strerror}") from error
    for name, array in named.items():
        typer.echo(f"{name}: {array.dtype}{list(array.shape)} {range_of(array)}")
    if inputs is None:
        mistakes = model.selftest()
        typer.echo("\n".join(mistakes) if mistakes else "self-test: as expected", err=True)
        if mistakes:
            raise typer.Exit(NOTHING_SURVIVED)


def bench(
    bundle: Bundle,
    model: Annotated[
        Path | None, typer.Option(help="The model's file, for the other runtimes.")
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help=f"Another runtime: {', '.join(PEERS)}; may be given several times."),
    ] = None,
    module: Annotated[
        str, typer.Option(help="FILE:NAME of a function that returns the module, for torch.")
    ] = "",
    inputs: Inputs = None,
    cores: Threads = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of timing per runtime.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Turns of each runtime.")] = 5,
    profile: Annotated[
        bool, typer.Option("--profile", help="Print the time alone of each kernel of the bundle.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time the model of a bundle, in turns with other runtimes.

    \b
    Example:
      ansorpy bench model.zip --model model.onnx --against ort --against openvino

    \b
    Each runtime has a process of its own, and all but one stand still.
    Exit codes: 0 done, 2 wrong input.
    """
    from ansorpy.model.race import Entry, race

    with wrong_input():
        asked = [name for one in against or () for name in one.split(",")]
        for name in asked:
            if name not in PEERS:
                raise SpecError(
                    f"cannot race against {name!r} because it is unknown; expected"
                    f" {', '.join(PEERS)}"
                )
        ours = opened(bundle, cores)
        threads = ours.manifest["threads"] if cores is None else cores
        file = bundle if model is None else checked_source(ours, model)
        if model is None and {"ort", "openvino"} & set(asked):
            raise SpecError(
                "cannot race against ort or openvino because they need the model's file;"
                " expected --model FILE"
            )
        given = arrays_of(ours, inputs)
        entries = [Entry(OURS, bundle), *(Entry(name, file, module) for name in asked)]
        found = race(entries, {**given, **ours.bound()}, threads, seconds, rounds)
        if found[0].failed:
            raise SpecError(f"cannot run {bundle} because of {found[0].failed}")
    if as_json:
        typer.echo(json.dumps(as_object(ours, threads, found), indent=2))
        return
    typer.echo(as_table(ours, threads, found))
    if profile:
        typer.echo(as_profile(ours))


def opened(bundle: Path, threads: int | None) -> "LoadedModel":
    """Return the loaded bundle; a damaged one ends the command."""
    from ansorpy.bundle.load import load_model

    try:
        return load_model(bundle, threads=threads)
    except PackageError as error:
        raise stop(error, WRONG_INPUT) from error


def arrays_of(model: "LoadedModel", inputs: Path | None) -> dict[str, Any]:
    """Return an array per input: of a file, or the sample of the bundle.

    Raises:
        SpecError: the file is unreadable, or lacks an input.
    """
    import numpy as np

    if inputs is None:
        return model.sample()
    try:
        with np.load(inputs, allow_pickle=False) as file:
            found = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise SpecError(f"cannot read {inputs} because of {error}; expected an .npz file") from None
    names = [one.name for one in model.inputs]
    if sorted(found) != sorted(names):
        raise SpecError(
            f"cannot take {inputs} because it has {', '.join(sorted(found)) or 'no array'};"
            f" expected {', '.join(names)}"
        )
    return found


def checked_source(model: "LoadedModel", file: Path) -> Path:
    """Return the model's file, unless the bundle was made from another file.

    Raises:
        SpecError: it is unreadable or another one.
    """
    try:
        with file.open("rb") as stream:
            found = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SpecError(f"cannot read {file} because of {error.strerror}") from error
    wanted = model.manifest.get("source_sha256")
    if wanted is not None and found != wanted:
        raise SpecError(
            f"cannot race {file} because its sha256 is {found[:12]}; expected {wanted[:12]}, the"
            " file that the bundle was made from"
        )
    return file


def range_of(array: Any) -> str:
    """Return the range of an array for people."""
    import numpy as np

    if not array.size:
        return "empty"
    low, high = np.min(array), np.max(array)
    return f"from {low:.6g} to {high:.6g}"


def as_object(model: "LoadedModel", threads: int, found: "Sequence[Standing]") -> dict[str, Any]:
    """Return the object that `bench --json` prints; times in seconds."""
    ours = found[0].median_s
    return {
        "model": model.name,
        "threads": threads,
        "runtimes": [
            {
                "name": one.runtime,
                "failed": one.failed or None,
                "median_s": None if one.failed else one.median_s,
                "visits_s": list(one.visits_s),
                "least_s": None if one.failed else one.least_s,
                "calls": one.calls,
                "ratio": None if one.failed else one.median_s / ours,
                "difference": one.error,
            }
            for one in found
        ],
    }


def as_table(model: "LoadedModel", threads: int, found: "Sequence[Standing]") -> str:
    """Return the standings as lines for people: milliseconds, and the ratio to ours."""
    plural = "" if threads == 1 else "s"
    lines = [
        f"{model.name}, {threads} thread{plural}; milliseconds per call",
        f"{'':10} {'median':>9} {'least':>9} {'visits':>19} {'calls/s':>9} {'ratio':>6}  error",
    ]
    for one in found:
        if one.failed:
            lines.append(f"{one.runtime:10} not timed: {one.failed}")
            continue
        visits = f"{min(one.visits_s) * 1e3:.3f} to {max(one.visits_s) * 1e3:.3f}"
        apart = "" if one.error is None or one is found[0] else f"{one.error:.1e}"
        lines.append(
            f"{one.runtime:10} {one.median_s * 1e3:9.3f} {one.least_s * 1e3:9.3f} {visits:>19}"
            f" {1 / one.median_s:9.1f} {one.median_s / found[0].median_s:6.2f}  {apart}"
        )
    return "\n".join(lines)


def as_profile(model: "LoadedModel") -> str:
    """Return the kernels of the bundle with their measured times alone, the slowest first."""
    steps: dict[str, list[Mapping[str, Any]]] = {}
    for step in model.manifest["steps"]:
        steps.setdefault(step.get("kernel") or step["function"], []).append(step)
    rows = sorted(
        ((sum(s.get("best_s", 0.0) for s in group), name, group) for name, group in steps.items()),
        reverse=True,
        key=lambda row: row[0],
    )
    total = sum(seconds for seconds, _, _ in rows) or 1.0
    lines = [f"{'':24} {'calls':>5} {'us alone':>9} {'share':>6}  nodes"]
    for seconds, name, group in rows:
        nodes = ", ".join(group[0]["nodes"])[:60]
        lines.append(
            f"{name[:24]:24} {len(group):5} {seconds * 1e6:9.1f} {seconds / total:6.1%}  {nodes}"
        )
    return "\n".join(lines)
