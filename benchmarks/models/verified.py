"""First bundles of whole models, verified against ONNX Runtime: a row per model of a folder.

    python -m benchmarks.models.ladder make FOLDER
    python -m benchmarks.models.verified FOLDER [--only NAME ...] [--bundles FOLDER] [--fresh]

`ansorpy tune MODEL --trials 0 --hosted` writes a bundle of each model that has no row yet. A model
that fails has a row with the reason. The exit code is 1 if a model fails or misses a goal.
"""

import json
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ansorpy.bundle.load import load_model
from ansorpy.errors import RunError
from ansorpy.graph.partition import partition
from ansorpy.graph.passes import simplify
from ansorpy.importers.model_file import read_model
from ansorpy.model.answers import outputs_of
from ansorpy.model.check_bounds import LEAST_BOUND, OWN_ERROR
from ansorpy.model.race import Entry, distance
from benchmarks.common import Results, Row, arguments, chosen, commit, publish, say, table
from benchmarks.machine import cpu_model, versions
from benchmarks.models.ladder import LADDER

FRONT_S: Final = 3.0  # goal: processor seconds of import, passes and partition
ARENA: Final = 1.05  # goal: bytes of the arena over the most bytes alive at once
TUNE_S: Final = 1800  # seconds until a first bundle counts as hung
HOW: Final = (
    "Errors are shares of the largest element of an output, against ONNX Runtime without its"
    " optimiser; `own` is the error of that optimiser. Import, passes and partition are processor"
    " seconds of one thread; the first bundle's are seconds of the wall clock, which other work on"
    " the machine lengthens. The weights of squeezenet and of the light models are constants: their"
    " results are equal everywhere, and an error of 0 shows operators and shapes only. `worst` is"
    " the time of the slowest kernel over what its bytes and operations explain: beyond 5 its group"
    " was timed in pieces, too, if it has any."
)


def files_of(folder: Path) -> dict[str, Path]:
    """Return the models of a folder by name, the ladder's models first, in its order."""
    found = {path.stem: path for path in sorted(folder.glob("*.onnx"))}
    return {name: found[name] for name in [*(n for n in LADDER if n in found), *found]}


def bound_values(name: str) -> Mapping[str, float]:
    """Return the values of scalar inputs that a model of the ladder is made for."""
    return LADDER[name].bind if name in LADDER else {}


def front_seconds(file: Path, bind: Mapping[str, float]) -> dict[str, float]:
    """Return processor seconds of import, passes and partition of a model."""
    begin = time.process_time()
    graph = read_model(file, bind, hosted=True)
    imported = time.process_time()
    simplified = simplify(graph)
    passed = time.process_time()
    partition(simplified.graph)
    return {
        "nodes": len(graph.nodes),
        "nodes_after": len(simplified.graph.nodes),
        "import_s": imported - begin,
        "passes_s": passed - imported,
        "partition_s": time.process_time() - passed,
    }


def tune_command(file: Path, bundle: Path, bind: Mapping[str, float], *more: str) -> list[str]:
    """Return the command that tunes a model to a bundle and prints JSON."""
    command = [sys.executable, "-m", "ansorpy", "tune", str(file), "--hosted", "--json"]
    bound = [word for name, value in bind.items() for word in ("--bind", f"{name}={value}")]
    return [*command, "--out", str(bundle), *bound, *more]


def tuned(command: Sequence[str]) -> dict[str, Any]:
    """Run a command of `tune_command`; return its answer, or the reason of its failure."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TUNE_S, check=False)
    except subprocess.TimeoutExpired:
        return {"failed": f"no bundle within {TUNE_S} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"failed": lines[-1][:300]}
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def errors_of(file: Path, bundle: Path) -> dict[str, float]:
    """Return the errors of a bundle and of ONNX Runtime's optimiser, on the stored sample."""
    with load_model(bundle) as model:
        inputs, bound = model.sample(), model.bound()
        arena = model.manifest["memory"]
        dtypes = [one.dtype for one in model.outputs]
    plain, optimised = (
        outputs_of(Entry(runtime, file), {**inputs, **bound}, 1) for runtime in ("ort_plain", "ort")
    )
    ours = outputs_of(Entry("ansorpy", bundle), inputs, 1)
    return {
        "error": distance(ours, plain, dtypes),
        "own_error": distance(optimised, plain, dtypes),
        "arena_bytes": arena["arena_bytes"],
        "arena_bound_bytes": arena["arena_bound_bytes"],
    }


def row_of(name: str, file: Path, bundle: Path) -> Row:
    """Return the row of a model; its bundle is written."""
    bind = bound_values(name)
    front = front_seconds(file, bind)
    answer = tuned(tune_command(file, bundle, bind, "--trials", "0", "--cores", "1"))
    try:
        errors = {} if "failed" in answer else errors_of(file, bundle)
    except RunError as error:
        answer = {"failed": str(error)}
    if "failed" in answer:
        return {"model": name, **front, "failed": answer["failed"]}
    return {
        "model": name,
        **front,
        "failed": "",
        "calls": answer["calls"],
        "tasks": len(answer["tasks"]),
        "hosted": answer["hosted"],
        "first_s": answer["seconds"],
        "kernels_s": answer["kernels_s"],
        "worst": max(one["best_s"] / one["explained_s"] for one in answer["tasks"]),
        "cut": len(answer["recuts"]),
        **errors,
    }


def bound_of(row: Row) -> float:
    """Return the error that a row may have."""
    return max(OWN_ERROR * float(row["own_error"]), LEAST_BOUND)


def front_s(row: Row) -> float:
    """Return the processor seconds before tuning."""
    return float(row["import_s"] + row["passes_s"] + row["partition_s"])


def arena_ratio(row: Row) -> float:
    """Return the size of the arena as a multiple of its lower bound."""
    return float(row["arena_bytes"] / row["arena_bound_bytes"]) if row["arena_bound_bytes"] else 1.0


def misses(row: Row) -> list[str]:
    """Return the goals that a row misses."""
    if row["failed"]:
        return ["bundle"]
    tests = {
        "error": row["error"] <= bound_of(row),
        "arena": arena_ratio(row) <= ARENA,
        "front": front_s(row) <= FRONT_S,
    }
    return [name for name, met in tests.items() if not met]


def page(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Return the Markdown page."""
    made = [row for row in rows if not row["failed"]]
    lines = [
        "# Whole models: first bundles, verified",
        "",
        f"{len([row for row in rows if not misses(row)])} of {len(rows)} models meet every goal;"
        f" {facts['cpu']}, commit {facts['commit'] or 'unknown'}. {HOW}",
        "",
        table(
            made,
            {
                "model": lambda row: row["model"],
                "nodes": lambda row: f"{row['nodes']} -> {row['nodes_after']}",
                "calls": lambda row: row["calls"],
                "tasks": lambda row: row["tasks"],
                "hosted": lambda row: len(row["hosted"]),
                "error": lambda row: f"{row['error']:.1e}",
                "own": lambda row: f"{row['own_error']:.1e}",
                "bound": lambda row: f"{bound_of(row):.1e}",
                "arena / bound": lambda row: f"{arena_ratio(row):.3f}",
                "import, s": lambda row: f"{row['import_s']:.2f}",
                "passes": lambda row: f"{row['passes_s']:.2f}",
                "partition": lambda row: f"{row['partition_s']:.2f}",
                "first bundle, s": lambda row: f"{row['first_s']:.0f}",
                "s a task": lambda row: f"{row['first_s'] / row['tasks']:.2f}",
                "worst": lambda row: f"{row['worst']:.1f}" if "worst" in row else "",
                "misses": lambda row: ", ".join(misses(row)) or "-",
            },
        ),
    ]
    lines += [f"- {row['model']}: {row['failed']}" for row in rows if row["failed"]]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Run the command; return its exit code."""
    parser = arguments(__doc__, "ladder")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--bundles", type=Path, help="folder of the bundles; FOLDER/bundles")
    args = parser.parse_args()
    files = files_of(args.folder)
    place = args.bundles or args.folder / "bundles"
    facts = {"cpu": cpu_model(), "commit": commit(), "versions": versions()}
    results = Results(args.out, ("model",), facts, args.fresh)
    for name in chosen(files, args.only):
        if args.only is None and results.find(model=name) is not None:
            continue
        row = row_of(name, files[name], place / f"{name}.zip")
        say(f"{name}: {row['failed'] or row['error']}; misses: {', '.join(misses(row)) or 'none'}")
        results.add(row)
        publish(args.out, page(results.rows, facts))
    return int(any(misses(row) for row in results.rows))


if __name__ == "__main__":
    sys.exit(main())
