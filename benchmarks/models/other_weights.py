"""A model tuned again with other weights: trials and seconds of both, and kernels of both bundles.

    python -m benchmarks.models.ladder make FOLDER
    python -m benchmarks.models.other_weights FOLDER [--only resnet18] [--trials-per-task 24]

Both are made by `ansorpy tune` in one data folder of their own. The second model is the first with
each weight of rank 2 and more multiplied by random factors between 0.5 and 1.5. The exit code is 1
if the second bundle took a trial or is not verified. Its kernels may differ: without a trial, the
leaders of the store are timed again, and the fastest is delivered.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np
import onnx

from ansorpy.bundle.load import load_model
from benchmarks.common import Results, Row, arguments, chosen, commit, publish, say, table
from benchmarks.machine import cpu_model, versions
from benchmarks.models.verified import bound_values, files_of, tune_command, tuned

MODEL: Final = "resnet18"
SPREAD: Final = 0.5  # the most that a factor differs from 1
SEED: Final = 1


def scaled_copy(file: Path, place: Path) -> int:
    """Write a model whose weights of rank 2 and more are scaled at random; return their number."""
    model = onnx.load(file)
    rng = np.random.default_rng(SEED)
    changed = 0
    for weight in model.graph.initializer:
        array = onnx.numpy_helper.to_array(weight)
        if array.ndim < 2 or array.dtype != np.float32:
            continue
        factors = rng.uniform(1 - SPREAD, 1 + SPREAD, array.shape).astype(np.float32)
        weight.CopyFrom(onnx.numpy_helper.from_array(array * factors, weight.name))
        changed += 1
    onnx.save(model, place)
    return changed


def kernels_of(bundle: Path) -> list[Any]:
    """Return the kernels of a bundle without the times at which they were raced."""
    with load_model(bundle) as model:
        names: list[Any] = sorted(one["object_sha256"] for one in model.manifest["kernels"])
        return names


def row_of(name: str, file: Path, trials: int) -> Row:
    """Return the row of a model: both answers, and whether their kernels are equal."""
    with TemporaryDirectory() as folder:
        place = Path(folder)
        os.environ["ANSORPY_DATA_DIR"] = str(place / "data")
        other = place / f"{name}.onnx"
        changed = scaled_copy(file, other)
        more = ["--trials-per-task", str(trials), "--cores", "1"]
        answers, kernels = [], []
        for number, model in enumerate((file, other)):
            bundle = place / f"{number}.zip"
            answer = tuned(tune_command(model, bundle, bound_values(name), *more))
            if "failed" in answer:
                return {"model": name, "trials_per_task": trials, "failed": answer["failed"]}
            answers.append(answer)
            kernels.append(kernels_of(bundle))
    return {
        "model": name,
        "trials_per_task": trials,
        "failed": "",
        "weights_changed": changed,
        "trials": [answer["trials"] for answer in answers],
        "seconds": [answer["seconds"] for answer in answers],
        "errors": [answer["error"] for answer in answers],
        "equal_kernels": kernels[0] == kernels[1],
    }


def is_met(row: Row) -> bool:
    """Return True if the second bundle is verified and took no trial."""
    return not row["failed"] and row["trials"][1] == 0


def page(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Return the Markdown page."""
    made = [row for row in rows if not row["failed"]]
    columns = {
        "model": lambda row: row["model"],
        "weights changed": lambda row: row["weights_changed"],
        "trials, first": lambda row: row["trials"][0],
        "second": lambda row: row["trials"][1],
        "seconds, first": lambda row: f"{row['seconds'][0]:.0f}",
        "second, s": lambda row: f"{row['seconds'][1]:.1f}",
        "error of the second": lambda row: f"{row['errors'][1]:.1e}",
        "kernels": lambda row: "equal" if row["equal_kernels"] else "differ",
    }
    told = (
        f"{sum(map(is_met, rows))} of {len(rows)} models with other weights are answered from the"
        f" store; {facts['cpu']}, commit {facts['commit'] or 'unknown'}."
    )
    lines = ["# Models with other weights", "", told, "", table(made, columns)]
    lines += [f"- {row['model']}: {row['failed']}" for row in rows if row["failed"]]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Run the command; return its exit code."""
    parser = arguments(__doc__, "other_weights")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials-per-task", type=int, default=24)
    args = parser.parse_args()
    facts = {"cpu": cpu_model(), "commit": commit(), "versions": versions()}
    results = Results(args.out, ("model", "trials_per_task"), facts, args.fresh)
    files = files_of(args.folder)
    for name in chosen(files, args.only or [MODEL]):
        row = row_of(name, files[name], args.trials_per_task)
        say(f"{name}: {row['failed'] or row['trials']}")
        results.add(row)
        publish(args.out, page(results.rows, facts))
    return int(not all(map(is_met, results.rows)))


if __name__ == "__main__":
    sys.exit(main())
