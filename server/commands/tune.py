"""`ansorpy tune`: kernels of tasks, or the bundle of a model."""

import gc
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from ansorpy.errors import RunError, SpecError
from ansorpy.importers.suffixes import is_model
from ansorpy.model.options import ModelOptions
from ansorpy.server.commands import tune_model as tuning
from ansorpy.server.commands.arguments import AsJson, Bind, Shape, Tuned, TuneName
from ansorpy.server.commands.common import (
    INTERRUPTED,
    NOTHING_SURVIVED,
    extents,
    nothing_kept,
    read_file,
    read_settings,
    stop,
    wrong_input,
)
from ansorpy.server.commands.options import takes_options

GC_THRESHOLD: Final = 50_000  # new objects between two collections; Python's default is 700 to 2000


@takes_options(ModelOptions)
def tune(
    file: Tuned,
    options: ModelOptions,
    target: TuneName = "cpu",
    bind: Bind = None,
    shape: Shape = None,
    out: Annotated[
        Path, typer.Option(help="Folder for the kernels; NAME.zip names the bundle of a model.")
    ] = Path("kernels"),
    store: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="Store of the records (`ansorpy plugins`); ANSORPY_STORE unless given, else the"
            " database.",
        ),
    ] = "",
    own: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE", help="A delivered zip that joins the final race; again for more."
        ),
    ] = None,
    profile: Annotated[
        bool,
        typer.Option(
            "--profile", help="Print the estimate of each kernel for a GPU, and its parts."
        ),
    ] = False,
    explain_why: Annotated[
        bool,
        typer.Option("--explain", help="Print the reasons, too: naive loops, runner-up."),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Search fast kernels for FILE; write zips, of a model a bundle.

    \b
    Examples, the first in a checkout:
      ansorpy tune examples/matmul_relu.te --trials 128 --cores 2 --out kernels
      ansorpy tune mm.te --mode manual --schedule mm.schedule
      ansorpy tune model.onnx --bind batch=1 --trials 500 --cores 2 --out model.zip

    Progress goes to standard error, the result to standard output. Ctrl-C ends the search and
    keeps the best so far. Exit codes: 0 verified kernels, 2 wrong input, 3 no candidate passed its
    checks, 130 after Ctrl-C.
    """
    # An answer from the store spends most of its time in imports. Garbage collections between
    # them free nothing and take a sixth of that time.
    gc.set_threshold(GC_THRESHOLD)
    with nothing_kept(), wrong_input():
        from ansorpy.progress import reporter
        from ansorpy.tuner.interrupts import follow
        from ansorpy.tuner.options.conflicts import RequestKind, check_conflicts
        from ansorpy.tuner.options.targets import named_target
        from ansorpy.tuner.parts.stores import store_of
        from ansorpy.tuner.process_age import process_begin_s
        from ansorpy.tuner.requests.request import Request
        from ansorpy.tuner.rule_sets.sets import find_rules
        from ansorpy.tuner.tune import run

        if is_model(file):
            machine = named_target(target, options.cores)
            check_conflicts(options, RequestKind(machine.kind, model=True, own=bool(own)))
            check_profile(profile, machine.names[-1], estimated=False)
            tuning.tune_model(file, options, machine, bind, shape, out, store, as_json, explain_why)
            return
        dags = read_file(file, extents(bind))
        options = replace(options, trials=options.trials_of(len(dags)))
        request = Request.of(options, dags, named_target(target, options.cores), own=own or ())
        check_profile(profile, target, request.estimated)
        settings = read_settings()
        kind = request.target.kind
        rules = find_rules(kind, options.allow, options.without, settings.rules_dir)
        kept = store_of(store or settings.store)
        events = run(request, rules, kept, out, begin_s=process_begin_s())
        try:
            with reporter(sys.stderr) as report:
                last = follow(events, report)
        except RunError as error:  # the preflight
            raise stop(error, NOTHING_SURVIVED) from None
        except KeyboardInterrupt:  # the reporter has printed the paths of the written kernels
            raise typer.Exit(INTERRUPTED) from None
    if as_json:
        typer.echo(json.dumps(as_object(last, profile), indent=2))
    else:
        typer.echo(as_text(last, profile, explain_why))
    if last.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if any(result.kernel is None for result in last.results):
        raise typer.Exit(NOTHING_SURVIVED)


def check_profile(wanted: bool, target: str, estimated: bool) -> None:
    """Refuse `--profile` for a target whose candidates are timed.

    Raises:
        SpecError: there is no estimate to show.
    """
    if wanted and not estimated:
        raise SpecError(
            f"cannot show estimates for {target} because its candidates are timed; expected"
            " cuda:sm_80 or cuda:sm_90"
        )


def as_object(last: Any, profile: bool = False) -> dict[str, Any]:
    """Return the object that `tune --json` prints; with `profile` it has the estimates."""
    return {
        "tasks": [
            {
                "name": result.name,
                "best_s": result.best_s,
                "timing": result.timing,
                "baseline_s": result.baseline_s,
                "naive_s": result.naive_s,
                "numpy_s": result.numpy_s,
                "numpy_note": result.numpy_note,
                "winner": result.winner,
                "compile_s": result.compile_s,
                "verdict": None if result.verdict is None else result.verdict.as_object(),
                **({"ranges": dict(result.ranges)} if result.ranges else {}),
                **({"by_size": list(map(asdict, result.by_size))} if result.by_size else {}),
                "own": [asdict(one) for one in result.own],
                "trials": result.trials,
                "seconds": result.seconds,
                "verified": result.verified,
                "estimated": result.estimated,
                "copies": result.copies,
                "items_per_s": result.items_per_s,
                **({"estimate": estimate_of(result)} if profile else {}),
                "flop": result.flop,
                "flop_per_s": None if result.rate is None else result.rate.flop_per_s,
                "effective": result.rate is not None and result.rate.effective,
                "from_store": result.from_store,
                "same_as": result.same_as,
                "failures": {
                    kind: {"count": count, "example": result.examples.get(kind, "")}
                    for kind, count in result.failures.items()
                },
                "contrast": None if result.contrast is None else asdict(result.contrast),
                "suspects": [asdict(one) for one in result.suspects],
                "kernel": None if result.kernel is None else str(result.kernel),
            }
            for result in last.results
        ],
        "networks": [asdict(one) for one in last.networks],
        "seconds": last.seconds,
        "stopped": last.stopped,
    }


def estimate_of(result: Any) -> dict[str, Any] | None:
    """Return the object of an estimate; None without a kernel."""
    estimate = result.estimate
    if estimate is None:
        return None
    return {
        "seconds": estimate.seconds,
        "parts": dict(estimate.parts),
        "registers": estimate.registers,
        "assembled": estimate.assembled,
    }


def as_text(last: Any, profile: bool = False, reasons: bool = False) -> str:
    """Return the summary that `tune` prints, and a command that loads each kernel.

    Args:
        reasons: with the explanation of each result.
    """
    from ansorpy.result import explanation, network_line, shell_step, summary

    lines = [summary(last.results, profile), *map(network_line, last.networks)]
    lines += [explanation(last.results)] if reasons else []
    steps = [f"next: {shell_step(task.kernel)}" for task in last.results if task.kernel is not None]
    return "\n".join([*lines, *steps])
