"""`ansorpy sketches`, `explain` and `lower`: the search space of tasks, before any trial."""

import json
from typing import Annotated, Any, Final

import typer

from ansorpy.errors import SpecError
from ansorpy.importers.suffixes import is_model
from ansorpy.server.commands import tune_model as tuning
from ansorpy.server.commands.arguments import (
    Allow,
    AsJson,
    Bind,
    Cores,
    File,
    Name,
    Shape,
    Tuned,
    TuneName,
    Without,
)
from ansorpy.server.commands.common import extents, read_file, read_settings, read_text, wrong_input
from ansorpy.tuner.options.tune_options import TuneOptions, default_cores

CORES: Final = default_cores()
DEFAULTS: Final = TuneOptions()
LEGEND: Final = (
    "# A line per stage: its loops, the outermost first, AXIS.PART:EXTENT with s (spatial) or r"
    " (reduction).\n# STAGE.AXIS.PART is a size that a candidate chooses; ? follows from the sizes"
    " inside.\n"
)


def sketches(
    file: File,
    target: Name = "cpu",
    cores: Cores = CORES,
    bind: Bind = None,
    allow: Allow = None,
    without: Without = None,
    as_json: AsJson = False,
) -> None:
    """List the sketches of every task of FILE."""
    with wrong_input():
        derived = derivations(file, target, cores, bind, allow, without)
    texts_of = [(d.dag.name, [str(sketch) for sketch in d.sketches]) for d in derived]
    if as_json:
        every = [text for _, texts in texts_of for text in texts]
        tasks = [{"name": name, "count": len(t), "sketches": t} for name, t in texts_of]
        typer.echo(json.dumps({"count": len(every), "sketches": every, "tasks": tasks}, indent=2))
        return
    typer.echo(LEGEND)
    for name, texts in texts_of:
        for number, text in enumerate(texts):
            typer.echo(f"# {name}, sketch {number} of {len(texts)}\n{text}\n")


def explain(
    file: Tuned,
    target: Name = "cpu",
    cores: Cores = CORES,
    bind: Bind = None,
    shape: Shape = None,
    allow: Allow = None,
    without: Without = None,
    as_json: AsJson = False,
) -> None:
    """Print the derivation: each rule at each stage, with its reason.

    Of a model: the passes that fire, and the groups of nodes with the reason for each end.
    """
    with wrong_input():
        if is_model(file):
            if as_json:
                raise SpecError(
                    f"cannot explain {file} as JSON because its explanation is a text; expected a"
                    " file of tasks"
                )
            typer.echo(tuning.explained(file, bind, shape))
            return
        found = derivations(file, target, cores, bind, allow, without)
    if not as_json:
        for derivation in found:
            name, ranges = derivation.dag.name, ranges_as_objects(derivation.dag)
            lines = [f"{name}: kernel for {o['range']}, timed at {o['sizes']}" for o in ranges]
            typer.echo("\n".join([*lines, derivation.explain()]))
        return
    typer.echo(json.dumps({"tasks": [as_object(derivation) for derivation in found]}, indent=2))


def lower(
    file: File,
    stage: Annotated[
        str | None,
        typer.Option(help="dag, sketch, plan, row, program, llvm, numba, passes, or all."),
    ] = None,
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
    cores: Cores = CORES,
    bind: Bind = None,
    allow: Allow = None,
    without: Without = None,
) -> None:
    """Print a candidate of every task of FILE: its loops after lowering, or each stage.

    \b
    A candidate goes from dag (the formulas) to sketch (loops, sizes open), plan
    (its structural choices and sizes), row (a number for each size), program
    (loop IR), llvm (text of LLVM) and numba (Python of a delivered kernel);
    passes prints the loops after each pass between plan and program. Example:
        ansorpy lower examples/matmul.te --stage all --cores 1
    """
    from ansorpy.loopir.printer import text
    from ansorpy.tuner.lowering import STAGES, staged
    from ansorpy.tuner.options.targets import named_target
    from ansorpy.tuner.rule_sets.sets import find_rules

    with wrong_input():
        if stage is not None and print_after is not None:
            raise SpecError("cannot use --stage with --print-after; expected one of the two")
        wanted = () if stage is None else selected("print stage", "stage", stage, STAGES)
        machine = named_target(target, cores)
        rules = find_rules(machine.kind, allow or (), without or (), read_settings().rules_dir)
        steps = None if schedule is None else read_text(schedule)
        for dag in read_file(file, extents(bind)):
            candidate = staged(dag, machine, rules, untuned=untuned, schedule=steps)
            for name in wanted:
                typer.echo(f"# {dag.name}, {name}\n{candidate.text(name)}")
            if stage is None:
                programs = list(candidate.passes())
                names = tuple(name for name, _ in programs)
                shown = selected("print after", "pass", print_after or names[-1], names)
                for name, program in programs:
                    if name in shown:
                        typer.echo(f"# {dag.name}, after {name}\n{text(program)}")


def selected(action: str, kind: str, asked: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names that an option asks for: all, or a single one.

    Raises:
        SpecError: the name is none of them.
    """
    if asked == "all":
        return names
    if asked not in names:
        raise SpecError(
            f"cannot {action} {asked!r} because no such {kind} exists; "
            f"expected all, {', '.join(names)}"
        )
    return (asked,)


def as_object(derivation: Any) -> dict[str, Any]:
    """Return the object that `explain --json` prints for a task: its visits are as in REST."""
    from ansorpy.server.service.explain import visit_reply  # models of replies are slow to load

    return {
        "name": derivation.dag.name,
        "ranges": ranges_as_objects(derivation.dag),
        "sketches": [str(sketch) for sketch in derivation.sketches],
        "visits": [
            visit_reply(number, visit).model_dump()
            for number, visit in enumerate(derivation.visits)
        ],
    }


def ranges_as_objects(dag: Any) -> list[dict[str, str]]:
    """Return the ranges of dims that get kernels of their own, and sizes that these are timed at.

    One kernel for all sizes has the ranges of all dims; [] without dims.
    """
    from ansorpy.te.dims import dims_of, ranges_of, spread

    parts = [(one,) for one in ranges_of(dag, DEFAULTS.kernels_per_dim)]
    return [
        {
            "range": ", ".join(one.range_text for one in of),
            "sizes": "; ".join(
                ", ".join(f"{name} = {size}" for name, size in sizes.items())
                for sizes in spread(of)
            ),
        }
        for of in parts or filter(None, [dims_of(dag)])
    ]


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
    from ansorpy.tuner.options.targets import named_target
    from ansorpy.tuner.rule_sets.sets import find_rules

    machine = named_target(target, cores)
    rules = find_rules(machine.kind, allow or (), without or (), read_settings().rules_dir)
    return [derive(d, machine, rules) for d in read_file(file, extents(bind))]
