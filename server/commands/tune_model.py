"""The tuning of a model file on the command line, and its explanation."""

import json
import shlex
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from ansorpy.errors import RunError
from ansorpy.server.commands.common import (
    INTERRUPTED,
    NOTHING_SURVIVED,
    bindings,
    read_settings,
    shapes_of,
    stop,
)

if TYPE_CHECKING:
    from ansorpy.model.compile import ModelResult
    from ansorpy.model.options import ModelOptions
    from ansorpy.target import Target


def tune_model(
    file: str,
    options: "ModelOptions",
    target: "Target",
    bind: list[str] | None,
    shape: list[str] | None,
    out: Path,
    store: str,
    as_json: bool,
    reasons: bool,
) -> None:
    """Tune a model and write its bundle; after an interrupt, tell if there is a bundle.

    Args:
        reasons: print the explanation of the result, too.
        store: name of the store of records; "" for the store of the settings.

    Raises:
        SpecError: the request is wrong.
    """
    written: list[Path] = []
    try:
        result = _tuned(file, options, target, bind, shape, out, store, written.append)
    except KeyboardInterrupt:
        kept = f"{written[-1]} is the best bundle so far" if written else "no bundle was written"
        typer.echo(f"ansorpy: interrupted: {kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None
    except RunError as error:
        raise stop(error, NOTHING_SURVIVED) from error
    if as_json:
        typer.echo(json.dumps(as_object(result), indent=2))
    else:
        step = f"next: ansorpy run {shlex.quote(str(result.bundle))}"
        typer.echo("\n".join([str(result), *([result.explain()] if reasons else []), step]))
    if result.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _tuned(
    file: str,
    options: "ModelOptions",
    target: "Target",
    bind: list[str] | None,
    shape: list[str] | None,
    out: Path,
    store: str,
    on_bundle: Callable[[Path], None],
) -> "ModelResult":
    """Return the result of the tuning of a model; call `on_bundle` with each written bundle."""
    from ansorpy.model.api import request_of
    from ansorpy.model.compile import compiled
    from ansorpy.model.events import BundleWritten, ModelEvent
    from ansorpy.model.progress import model_reporter
    from ansorpy.tuner.interrupts import follow
    from ansorpy.tuner.parts.stores import store_of
    from ansorpy.tuner.process_age import process_begin_s
    from ansorpy.tuner.rule_sets.sets import find_rules

    request = request_of(options, Path(file), target, out, bindings(bind), shapes_of(shape))
    settings = read_settings()
    rules = find_rules(target.kind, options.allow, options.without, settings.rules_dir)
    kept = store_of(store or settings.store)
    with model_reporter(sys.stderr) as report:

        def tell(event: ModelEvent) -> None:
            if isinstance(event, BundleWritten):
                on_bundle(event.bundle)
            report(event)

        return follow(compiled(request, kept, rules=rules, begin_s=process_begin_s()), tell)


def explained(file: str, bind: list[str] | None, shape: list[str] | None) -> str:
    """Return the passes that fire on a model, and its groups with the reason of each end.

    Raises:
        SpecError: the file is no model, or a node cannot be compiled.
    """
    from ansorpy.graph.partition import partition
    from ansorpy.graph.passes import simplify
    from ansorpy.importers.model_file import read_model
    from ansorpy.model.explain import explanation

    graph = read_model(Path(file), bindings(bind), shapes_of(shape), hosted=True)
    simplified = simplify(graph)
    return explanation(graph, simplified, partition(simplified.graph))


def as_object(result: "ModelResult") -> dict[str, Any]:
    """Return the object that `tune --json` prints for a model."""
    from ansorpy.model.events import bundle_latency

    best_s, timing = bundle_latency(result.model_s, result.verdict)
    return {
        "bundle": str(result.bundle),
        "verdict": None if result.verdict is None else result.verdict.as_object(),
        "best_s": best_s,
        "timing": timing,
        "kernels_s": result.model_s,
        "error": result.error,
        "bound": result.bound,
        "reference": result.reference,
        "calls": result.parts,
        "hosted": list(result.hosted),
        "tasks": [
            {
                "name": task.name,
                "best_s": task.best_s,
                "trials": task.trials,
                "flop": task.flop,
                "explained_s": result.explained_s[task.name],
                "failures": dict(task.failures),
            }
            for task in result.tasks
        ],
        "untuned": result.untuned,
        "recuts": [asdict(one) for one in result.recuts],
        "trials": result.trials,
        "seconds": result.seconds,
        "stopped": result.stopped,
    }
