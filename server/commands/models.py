"""The commands of bundles: run a model, race it against other runtimes."""

import json
from collections.abc import Mapping, Sequence
from hashlib import file_digest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ansorpy.errors import PackageError, SpecError
from ansorpy.server.commands import sizes
from ansorpy.server.commands.common import NOTHING_SURVIVED, WRONG_INPUT, stop, wrong_input

if TYPE_CHECKING:
    from ansorpy.bundle.load import LoadedModel
    from ansorpy.model.race import Standing
    from ansorpy.verdict import Judgment

PEERS: Final = ("ort", "openvino", "torch", "inductor")
OURS: Final = "ansorpy"
MOST_RUNS: Final = 100  # runs of a model for a profile
COPIES: Final[Mapping[str, Any]] = {"function": "copies of outputs", "nodes": ()}

Bundle = Annotated[Path, typer.Argument(help="The zip of a model.")]
Threads = Annotated[
    int | None,
    typer.Option(
        "--cores", min=1, max=256, help="Threads; as tuned unless given, and at most as many."
    ),
]
Inputs = Annotated[
    Path | None,
    typer.Option(help="An .npz file with an array per input; the stored sample unless given."),
]


def run(
    bundle: Bundle,
    inputs: Inputs = None,
    dim: sizes.Sizes = None,
    outputs: Annotated[Path | None, typer.Option(help="Write the results to an .npz file.")] = None,
    cores: Threads = None,
) -> None:
    """Run the model of a bundle once.

    This runs code of the author of the bundle: use only files that you trust.

    \b
    Example:
      ansorpy run model.zip --inputs in.npz --outputs out.npz

    \b
    Without --inputs the sample in the bundle is run, and its result is checked;
    with --dim a part of the sample is run, of one size of each dim.
    Exit codes: 0 done, 2 wrong input, 3 the sample gave another result.
    """
    from ansorpy.artifact.npz import write_npz

    with wrong_input():
        model = opened(bundle, cores)
        at = sizes.asked(model, dim, inputs)
        if len(at) > 1:
            raise SpecError(
                f"cannot run at {len(at)} sizes because a run has one result; expected one size"
            )
        given = model.sample(*at) if at else arrays_of(model, inputs)
        try:
            found = model(given)
        except (TypeError, ValueError) as error:
            raise SpecError(str(error)) from error
        results = found if isinstance(found, tuple) else (found,)
        named = dict(zip([one.name for one in model.outputs], results, strict=True))
        if outputs is not None:
            try:
                write_npz(outputs, named)
            except (OSError, ValueError) as error:
                reason = f"of {error.strerror}" if isinstance(error, OSError) else str(error)
                raise SpecError(f"cannot write {outputs} because {reason}") from error
    for name, array in named.items():
        typer.echo(f"{name}: {array.dtype}{list(array.shape)} {range_of(array)}")
    if inputs is None and dim is None:
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
    dim: sizes.Sizes = None,
    cores: Threads = None,
    seconds: Annotated[float, typer.Option(min=0.1, help="Seconds of timing per runtime.")] = 5.0,
    rounds: Annotated[int, typer.Option(min=1, max=100, help="Turns of each runtime.")] = 5,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Print the time of each kernel inside the model, beside that alone."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Time the model of a bundle, in turns with other runtimes.

    This runs code of the author of the bundle: use only files that you trust.

    \b
    Example:
      ansorpy bench model.zip --model model.onnx --against ort --against openvino
      ansorpy bench model.zip --dim length=1,17,64,128

    \b
    Each runtime has a process of its own, and all but one stand still.
    Exit codes: 0 done, 2 wrong input.
    """
    from ansorpy.model.judge import name_of, verdict_of
    from ansorpy.model.race import Entry, race

    with wrong_input():
        asked = against or []
        for name in asked:
            if name not in PEERS:
                raise SpecError(
                    f"cannot race against {name!r} because it is unknown; expected"
                    f" {', '.join(PEERS)}"
                )
        ours = opened(bundle, cores)
        threads = ours.threads  # also of the other runtimes
        file = bundle if model is None else checked_source(ours, model)
        if model is None and {"ort", "openvino"} & set(asked):
            raise SpecError(
                "cannot race against ort or openvino because they need the model's file;"
                " expected --model FILE"
            )
        at = sizes.asked(ours, dim, inputs)
        every = [ours.sample(one) for one in at] or ours.timed_samples
        if inputs is not None:
            every = [arrays_of(ours, inputs)]
        entries = [Entry(OURS, bundle), *(Entry(name, file, module) for name in asked)]
        arrays = [{**one, **ours.bound()} for one in every]
        weights = ours.timed_weights if inputs is None and not at else ()
        standings = race(entries, arrays, threads, seconds, rounds, weights)
        if standings[0].failed:
            raise SpecError(f"cannot run {bundle} because of {standings[0].failed}")
    rows = profiled(ours, seconds, standings[0].median_s, at or None) if profile else []
    count = len(every) if ours.dims and inputs is None else 0
    peers = tuple(map(name_of, asked))
    verdict = verdict_of(tuple(standings), peers, threads, _oracle(ours), sizes=count)
    if as_json:
        told = as_object(ours, threads, standings, verdict) | ({"profile": rows} if profile else {})
        told |= {"sizes": sizes.as_objects(at, standings)} if at else {}
        typer.echo(json.dumps(told, indent=2))
        return
    typer.echo(as_table(ours, threads, standings, count))
    if at:
        typer.echo(sizes.as_table(at, standings))
    if asked:
        typer.echo(str(verdict))
    if profile:
        typer.echo(as_profile(rows))


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
    from ansorpy.artifact.npz import read_npz

    if inputs is None:
        return model.sample()
    try:
        arrays = read_npz(inputs)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds other data"
        raise SpecError(
            f"cannot read {inputs} because {reason}; expected an .npz file of numbers"
        ) from None
    names = [one.name for one in model.inputs]
    if sorted(arrays) != sorted(names):
        raise SpecError(
            f"cannot take {inputs} because it has {', '.join(sorted(arrays)) or 'no array'};"
            f" expected {', '.join(names)}"
        )
    return arrays


def checked_source(model: "LoadedModel", file: Path) -> Path:
    """Return the model's file, unless the bundle was made from another file.

    Raises:
        SpecError: it is unreadable or another one.
    """
    try:
        with file.open("rb") as stream:
            digest = file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise SpecError(f"cannot read {file} because of {error.strerror}") from error
    wanted = model.manifest.get("source_sha256")
    if wanted is not None and digest != wanted:
        raise SpecError(
            f"cannot race {file} because its sha256 is {digest[:12]}; expected {wanted[:12]}, the"
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


def _oracle(model: "LoadedModel") -> str:
    """Return the program that a bundle was verified against, "" if it does not tell."""
    return str(model.manifest.get("verified_against", "")).split(";")[0].split(" on ")[0]


def as_object(
    model: "LoadedModel", threads: int, standings: "Sequence[Standing]", verdict: "Judgment"
) -> dict[str, Any]:
    """Return the object that `bench --json` prints; times in seconds."""
    ours = standings[0].median_s
    return {
        "model": model.name,
        "threads": threads,
        "verdict": verdict.as_object(),
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
            for one in standings
        ],
    }


def as_table(
    model: "LoadedModel", threads: int, standings: "Sequence[Standing]", sizes: int = 0
) -> str:
    """Return the standings as lines for people: milliseconds, and the ratio to ours.

    Args:
        sizes: number of sizes of dims that each time is a mean over; 0 without dims.
    """
    plural = "" if threads == 1 else "s"
    mean = f", mean over {sizes} sizes" if sizes else ""
    lines = [
        f"{model.name}, {threads} thread{plural}; milliseconds per call{mean}",
        f"{'':10} {'median':>9} {'least':>9} {'visits':>19} {'calls/s':>9} {'x ours':>6}  error",
    ]
    for row in standings:
        if row.failed:
            lines.append(f"{row.runtime:10} not timed: {row.failed}")
            continue
        visits = f"{min(row.visits_s) * 1e3:.3f} to {max(row.visits_s) * 1e3:.3f}"
        apart = "" if row.error is None or row is standings[0] else f"{row.error:.1e}"
        lines.append(
            f"{row.runtime:10} {row.median_s * 1e3:9.3f} {row.least_s * 1e3:9.3f} {visits:>19}"
            f" {1 / row.median_s:9.1f} {row.median_s / standings[0].median_s:6.2f}  {apart}"
        )
    return "\n".join(lines)


def profiled(
    model: "LoadedModel",
    seconds: float,
    call_s: float,
    at: Sequence[Mapping[str, int]] | None = None,
) -> list[dict[str, Any]]:
    """Return the times of kernels and hosted functions inside the model, the slowest first.

    `inside_s` is the sum of the least times of the steps in runs of the whole model; `alone_s` the
    time of the kernel on its own, as measured while tuning; None for hosted functions and copies.

    Args:
        seconds: about the time that this may take.
        call_s: the time of one call of the model.
        at: sizes of dims, over which a time is the mean; the timed ones unless given.
    """
    times_s = model.profile(int(min(MOST_RUNS, max(1.0, seconds / call_s))), at)
    steps: Sequence[Mapping[str, Any]] = model.manifest["steps"]
    rows: dict[str, dict[str, Any]] = {}
    for step, inside_s in zip([*steps, COPIES], times_s, strict=False):
        name, hosted = step.get("kernel") or step["function"], "function" in step
        row = rows.setdefault(
            name,
            {
                "name": name, "hosted": hosted and step is not COPIES, "calls": 0, "inside_s": 0.0,
                "alone_s": None if hosted else 0.0, "nodes": step["nodes"],
            },
        )  # fmt: skip
        row["calls"] += 1
        row["inside_s"] += inside_s
        if not hosted:
            row["alone_s"] += step["best_s"]
    return sorted(rows.values(), key=lambda row: -row["inside_s"])


def as_profile(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a profile as lines for people."""
    total = sum(row["inside_s"] for row in rows) or 1.0
    lines = [f"{'':24} {'calls':>5} {'us inside':>9} {'us alone':>9} {'share':>6}  nodes"]
    for row in rows:
        alone = "hosted" if row["hosted"] else "-"
        if row["alone_s"] is not None:
            alone = f"{row['alone_s'] * 1e6:.1f}"
        lines.append(
            f"{row['name'][:24]:24} {row['calls']:5} {row['inside_s'] * 1e6:9.1f} {alone:>9}"
            f" {row['inside_s'] / total:6.1%}  {', '.join(row['nodes'])[:60]}"
        )
    kernels = [row for row in rows if row["alone_s"]]
    inside_s, alone_s = (sum(row[key] for row in kernels) for key in ("inside_s", "alone_s"))
    hosted_s = sum(row["inside_s"] for row in rows if row["hosted"])
    if kernels:
        lines.append(f"kernels take {inside_s / alone_s:.2f} times as long inside as alone")
    lines.append(f"hosted by NumPy: {hosted_s / total:.1%} of the time")
    return "\n".join(lines)
