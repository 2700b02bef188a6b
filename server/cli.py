"""The `ansorpy` command line.

Results go to standard output, progress and errors to standard error. Exit codes: 0 verified
kernels, 2 invalid input, 3 no candidate passed its checks or a rule is refused, 4 the service does
not answer, 130 interrupted (the first Ctrl-C writes the best kernel so far, a second one ends at
once).
"""

import gc
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

import typer

import ansorpy
from ansorpy.errors import RunError, SpecError
from ansorpy.model.options import ModelOptions
from ansorpy.server.commands import join as joining
from ansorpy.server.commands import keys, models, records, remote, rule, stored_models
from ansorpy.server.commands import plugins as listing
from ansorpy.server.commands import simplify as simplifying
from ansorpy.server.commands import tune_model as tuning
from ansorpy.server.commands.common import (
    INTERRUPTED,
    NOTHING_SURVIVED,
    database,
    nothing_kept,
    pairs,
    read_file,
    read_settings,
    read_text,
    stop,
    wrong_input,
)
from ansorpy.server.commands.options import takes_options

TUNE = "Tune on this machine"
MODEL = "Use the bundle of a model"
SERVICE = "Use a service (ANSORPY_URL)"
HOST = "Run a service"
DATA = "Manage data"
GC_THRESHOLD = 50_000  # new objects between two collections; Python's default is 700 to 2000

app = typer.Typer(
    name="ansorpy",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
db = typer.Typer(help="Manage the database of records and jobs.", no_args_is_help=True)

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
    list[str] | None, typer.Option(help="K=512 binds a symbol, or a scalar input of a model.")
]
Allow = Annotated[
    list[str] | None, typer.Option(help="Rules that are used on request only: winograd2.")
]
Without = Annotated[list[str] | None, typer.Option(help="Rules to leave out: SplitPhases.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def tell_version(wanted: bool) -> None:
    """Print the version and exit if `--version` was given."""
    if wanted:
        typer.echo(f"ansorpy {ansorpy.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=tell_version, is_eager=True, help="Show it.")
    ] = False,
) -> None:
    """Template-free auto-scheduling of tensor programs."""


@app.command(rich_help_panel=TUNE)
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
    as_json: AsJson = False,
) -> None:
    """Search fast kernels for the tasks of FILE and write each as a zip; of a model, one bundle.

    \b
    Examples, the first in a checkout:
      ansorpy tune examples/matmul_relu.te --trials 128 --cores 2 --out kernels
      ansorpy tune mm.te --mode manual --schedule mm.schedule
      ansorpy tune model.onnx --bind batch=1 --trials 500 --cores 2 --out model.zip

    \b
    Progress goes to standard error, the result to standard output.
    Ctrl-C ends the search and keeps the best so far.
    Exit codes: 0 verified kernels, 2 wrong input,
    3 no candidate passed its checks, 130 after Ctrl-C.
    """
    # An answer from the store spends most of its time in imports. Garbage collections between
    # them free nothing and take a sixth of that time.
    gc.set_threshold(GC_THRESHOLD)
    with nothing_kept(), wrong_input():
        from ansorpy.progress import reporter
        from ansorpy.target import require_cpu
        from ansorpy.tuner.experience import Experience
        from ansorpy.tuner.interrupts import follow
        from ansorpy.tuner.process_age import process_begin_s
        from ansorpy.tuner.request import Request
        from ansorpy.tuner.rules import find_rules
        from ansorpy.tuner.stores import store_of
        from ansorpy.tuner.targets import named_target
        from ansorpy.tuner.tune import run

        if tuning.is_model(file):
            machine = named_target(target, options.cores)
            require_cpu(machine.kind)
            check_profile(profile, machine.names[-1], estimated=False)
            if own:
                raise SpecError(
                    "cannot race --own with a model because its tasks end without a race;"
                    " expected a file of tasks"
                )
            tuning.tune_model(file, options, machine, bind, shape, out, store, as_json)
            return
        dags = read_file(file, pairs(bind, "--bind", int))
        options = replace(options, trials=options.trials_of(len(dags)))
        request = Request.of(options, dags, named_target(target, options.cores), own=own or ())
        check_profile(profile, target, request.estimated)
        settings = read_settings()
        kind = request.target.kind
        rules = find_rules(kind, options.allow, options.without, settings.rules_dir)
        kept = store_of(store or settings.store)
        experience = Experience(settings.data_dir / "experience")
        events = run(request, rules, kept, out, experience=experience, begin_s=process_begin_s())
        try:
            with reporter(sys.stderr) as report:
                last = follow(events, report)
        except RunError as error:  # the preflight
            raise stop(error, NOTHING_SURVIVED) from None
        except KeyboardInterrupt:  # the reporter has printed the paths of the written kernels
            raise typer.Exit(INTERRUPTED) from None
    told = json.dumps(as_object(last, profile), indent=2) if as_json else as_text(last, profile)
    typer.echo(told)
    if last.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)
    if any(result.kernel is None for result in last.results):
        raise typer.Exit(NOTHING_SURVIVED)


@app.command(rich_help_panel=TUNE)
def sketches(
    file: File,
    target: Name = "cpu",
    cores: Cores = 1,
    bind: Bind = None,
    allow: Allow = None,
    without: Without = None,
    as_json: AsJson = False,
) -> None:
    """List the sketches of every task of FILE."""
    with wrong_input():
        derived = derivations(file, target, cores, bind, allow, without)
    found = [(d.dag.name, [str(sketch) for sketch in d.sketches]) for d in derived]
    if as_json:
        every = [text for _, texts in found for text in texts]
        tasks = [{"name": name, "count": len(t), "sketches": t} for name, t in found]
        typer.echo(json.dumps({"count": len(every), "sketches": every, "tasks": tasks}, indent=2))
        return
    for name, texts in found:
        for number, text in enumerate(texts):
            typer.echo(f"# {name}, sketch {number} of {len(texts)}\n{text}\n")


@app.command(rich_help_panel=TUNE)
def explain(
    file: Tuned,
    target: Name = "cpu",
    cores: Cores = 1,
    bind: Bind = None,
    shape: Shape = None,
    allow: Allow = None,
    without: Without = None,
) -> None:
    """Print the derivation: every rule at every stage with its verdict and reason.

    Of a model: the passes that fire, and the groups of nodes with the reason for each end.
    """
    with wrong_input():
        if tuning.is_model(file):
            typer.echo(tuning.explained(file, bind, shape))
            return
        for derivation in derivations(file, target, cores, bind, allow, without):
            typer.echo(derivation.explain())


@app.command(rich_help_panel=TUNE)
def lower(
    file: File,
    print_after: Annotated[
        str | None, typer.Option(help="A pass, or all: print the loops after it; else the last.")
    ] = None,
    untuned: Annotated[
        bool, typer.Option("--untuned", help="Lower the naive loops, not the cost model's choice.")
    ] = False,
    schedule: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Lower the steps of a schedule (docs/schedules.md)."),
    ] = None,
    target: TuneName = "cpu",
    cores: Cores = 1,
    bind: Bind = None,
    allow: Allow = None,
    without: Without = None,
) -> None:
    """Print the loop nest of every task of FILE after the passes of lowering."""
    from ansorpy.loopir.printer import text
    from ansorpy.tuner.lowering import lowered
    from ansorpy.tuner.rules import find_rules
    from ansorpy.tuner.targets import named_target

    with wrong_input():
        machine = named_target(target, cores)
        rules = find_rules(machine.kind, allow or (), without or (), read_settings().rules_dir)
        steps = None if schedule is None else read_text(schedule)
        for dag in read_file(file, pairs(bind, "--bind", int)):
            stages = list(lowered(dag, machine, rules, untuned=untuned, schedule=steps))
            names = [name for name, _ in stages]
            if print_after not in (None, "all", *names):
                raise SpecError(
                    f"cannot print after {print_after!r} because no such pass exists; "
                    f"expected all, {', '.join(names)}"
                )
            wanted = names if print_after == "all" else [print_after or names[-1]]
            for name, program in stages:
                if name in wanted:
                    typer.echo(f"# {dag.name}, after {name}\n{text(program)}")


@app.command(rich_help_panel=HOST)
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535)] = None,
) -> None:
    """Run the service, configured by ANSORPY_* variables."""
    from ansorpy.measure.workers.cores import keep_off_the_slot
    from ansorpy.server.app import create_app
    from ansorpy.server.commands.serve import listen
    from ansorpy.server.logs import configure

    with wrong_input():
        changes = {"host": host, "port": port}
        given = {name: value for name, value in changes.items() if value is not None}
        settings = read_settings().model_copy(update=given)
        database(settings).dispose()
        service = create_app(settings)
    configure(settings.log_format)
    if settings.embedded_worker:
        keep_off_the_slot()  # the API must not disturb measurements on the core of the worker
    listen(service, settings)


@app.command(rich_help_panel=HOST)
def worker() -> None:
    """Run jobs of the database until SIGTERM; any number of workers may run."""
    from ansorpy.server.worker.main import work
    from ansorpy.server.worker.stop_flag import StopFlag

    with wrong_input():
        work(read_settings(), StopFlag())


@app.command(rich_help_panel=TUNE)
def doctor() -> None:
    """Check the requirements of ansorpy on this machine; report missing ones and their remedy."""
    from ansorpy.server.doctor.checks import examine

    bad = False
    with wrong_input():
        for finding in examine(read_settings()):
            typer.echo(f"{finding.state:4} {finding.name}: {finding.text}")
            bad = bad or finding.state == "bad"
    if bad:
        raise typer.Exit(1)


@db.command()
def upgrade() -> None:
    """Upgrade the tables to the schema of this version."""
    from ansorpy.server.db.engine import connect
    from ansorpy.server.db.upgrade import revision
    from ansorpy.server.db.upgrade import upgrade as bring_up

    with wrong_input():
        engine = connect(read_settings().url)
        before, after = revision(engine), bring_up(engine)
    place = engine.url.render_as_string(hide_password=True)
    told = f"already at {after}" if before == after else f"{before or 'empty'} -> {after}"
    typer.echo(f"{place}: {told}")


def derivations(
    file: str,
    target: str,
    cores: int,
    bind: list[str] | None,
    allow: list[str] | None,
    without: list[str] | None,
) -> list[Any]:
    """Return the derivation of every task of a file."""
    from ansorpy.sketch import derive
    from ansorpy.tuner.rules import find_rules
    from ansorpy.tuner.targets import named_target

    machine = named_target(target, cores)
    rules = find_rules(machine.kind, allow or (), without or (), read_settings().rules_dir)
    return [derive(d, machine, rules) for d in read_file(file, pairs(bind, "--bind", int))]


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
                "baseline_s": result.baseline_s,
                "naive_s": result.naive_s,
                "numpy_s": result.numpy_s,
                "numpy_note": result.numpy_note,
                "winner": result.winner,
                "compile_s": result.compile_s,
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
                "forecast": None if result.forecast is None else asdict(result.forecast),
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
    found = result.estimate
    if found is None:
        return None
    return {
        "seconds": found.seconds,
        "parts": dict(found.parts),
        "registers": found.registers,
        "assembled": found.assembled,
    }


def as_text(last: Any, profile: bool = False) -> str:
    """Return the summary that `tune` prints, and a command that loads each kernel."""
    from ansorpy.result import network_line, shell_step, summary

    networks = [network_line(one) for one in last.networks]
    steps = [f"next: {shell_step(task.kernel)}" for task in last.results if task.kernel is not None]
    return "\n".join([summary(last.results, profile), *networks, *steps])


app.command(rich_help_panel=MODEL)(models.run)
app.command(rich_help_panel=MODEL)(models.bench)
app.command(rich_help_panel=MODEL)(joining.join)
for command in (
    remote.submit, remote.status, remote.watch, remote.cancel, remote.pause, remote.resume,
):  # fmt: skip
    app.command(rich_help_panel=SERVICE)(command)
app.command(rich_help_panel=TUNE)(simplifying.simplify)
app.command(rich_help_panel=TUNE)(listing.plugins)
app.add_typer(rule.app, name="rule", rich_help_panel=TUNE)
app.add_typer(remote.kernels, name="kernels", rich_help_panel=SERVICE)
app.add_typer(stored_models.app, name="models", rich_help_panel=SERVICE)
app.add_typer(records.app, name="records", rich_help_panel=DATA)
app.add_typer(keys.app, name="keys", rich_help_panel=DATA)
app.add_typer(db, name="db", rich_help_panel=DATA)
