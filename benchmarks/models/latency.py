"""Latency of whole models in turns with ONNX Runtime, OpenVINO and torch.compile.

    python -m benchmarks.models.ladder make FOLDER
    python -m benchmarks.models.latency FOLDER [--only NAME ...] [--trials-per-task 32]
        [--threads 1 2] [--allow winograd2 winograd4] [--bundles FOLDER] [--tune-only]

`ansorpy tune` makes a bundle of each model that has none of this number of trials and threads;
records lie in ANSORPY_DATA_DIR. Then a race is held: each runtime in a process of its own, all but
one stopped. A row is a model at a number of threads, with or without reformulations allowed;
measuring again replaces that row only. Rows go to results/models.json, models.md and
models-ratios.svg. A runtime that is not installed, or has no module, is left out; `--against`
chooses.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from ansorpy.bundle.load import load_model
from ansorpy.model.race import Entry, Standing, race
from benchmarks.common import Results, Row, arguments, chosen, say
from benchmarks.machine import run_facts
from benchmarks.models import modules
from benchmarks.models.ladder import LADDER
from benchmarks.models.latency_page import KEYS, publish_latency, speed_up
from benchmarks.models.verified import bound_values, files_of, tune_command, tuned

PEERS: Final = {"ort": "onnxruntime", "openvino": "openvino", "inductor": "torch"}
SECONDS: Final = 10.0  # seconds of timing per runtime, over all rounds
ROUNDS: Final = 7


def bundle_of(name: str, file: Path, place: Path, threads: int, args: Any) -> tuple[Path, Row]:
    """Return the bundle of a model and the facts of its tuning; it is tuned if it is not there."""
    words = "-".join([name, f"{args.trials_per_task}", f"{threads}t", *args.allow])
    bundle = place / f"{words}.zip"
    told = bundle.with_suffix(".json")
    if bundle.exists() and told.exists():
        answer: Row = json.loads(told.read_text())
        return bundle, answer
    say(f"{name}: tuning with {args.trials_per_task} trials a task on {threads} threads")
    more = ["--trials-per-task", str(args.trials_per_task), "--cores", str(threads)]
    more += [word for one in args.allow for word in ("--allow", one)]
    place.mkdir(parents=True, exist_ok=True)
    answer = tuned(tune_command(file, bundle, bound_values(name), *more))
    if "failed" not in answer:
        told.write_text(json.dumps(answer, indent=2) + "\n")
    return bundle, answer


def entries_of(name: str, file: Path, bundle: Path, against: Sequence[str]) -> list[Entry]:
    """Return our bundle and those runtimes that are here and can run the model."""
    found = [Entry("ansorpy", bundle)]
    for peer in against:
        if find_spec(PEERS[peer]) is None or (peer == "inductor" and name not in modules.NAMES):
            continue
        module = f"{modules.__file__}:{name}" if peer == "inductor" else ""
        found.append(Entry(peer, file, module))
    return found


def row_of(name: str, threads: int, args: Any, answer: Row, standings: Sequence[Standing]) -> Row:
    """Return the row of a race."""
    return {
        "model": name,
        "threads": threads,
        "allow": ",".join(args.allow),
        "trials_per_task": args.trials_per_task,
        "trials": answer["trials"],
        "tune_s": answer["seconds"],
        "kernels_s": answer["kernels_s"],
        "tasks": len(answer["tasks"]),
        "calls": answer["calls"],
        "hosted": answer["hosted"],
        "tuned_error": answer["error"],
        "runtimes": {
            one.runtime: {
                "failed": one.failed,
                "visits_s": list(one.visits_s),
                "least_s": one.least_s,
                "calls": one.calls,
                "difference": None if one.failed else one.error,
            }
            for one in standings
        },
    }


def measured(name: str, file: Path, threads: int, args: Any) -> Row | None:
    """Return the row of a model; None if it is tuned only, or cannot be measured."""
    bundle, answer = bundle_of(name, file, args.bundles, threads, args)
    if "failed" in answer:
        say(f"{name}: not measured because {answer['failed']}")
        return None
    if args.tune_only:
        return None
    with load_model(bundle) as model:
        every = [{**inputs, **model.bound()} for inputs in model.timed_samples]
    entries = entries_of(name, file, bundle, args.against)
    found = race(entries, every, threads, args.seconds, args.rounds)
    for one in found:
        if one.failed:
            say(f"{name}: {one.runtime} has no time because {one.failed}")
    return None if found[0].failed else row_of(name, threads, args, answer, found)


def parsed(words: Sequence[str] | None) -> argparse.Namespace:
    """Return the options of the command."""
    parser = arguments(__doc__, "models")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials-per-task", type=int, default=32)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--allow", nargs="+", default=[], choices=("winograd2", "winograd4"))
    parser.add_argument("--bundles", type=Path, help="folder of the bundles; FOLDER/bundles")
    parser.add_argument("--against", nargs="+", default=list(PEERS), choices=list(PEERS))
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of timing per runtime")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--tune-only", action="store_true", help="make bundles, hold no race")
    args = parser.parse_args(words)
    args.bundles = args.bundles or args.folder / "bundles"
    args.allow = sorted(args.allow)
    return args


def main(words: Sequence[str] | None = None) -> int:
    """Run the command; return 1 if a model has no row."""
    args = parsed(words)
    files = {name: file for name, file in files_of(args.folder).items() if name in LADDER}
    names = chosen(files, args.only)
    settings = {"seconds": args.seconds, "rounds": args.rounds, "against": args.against}
    results: Results | None = None
    lacking = 0
    for threads in args.threads:
        for name in names:
            row = measured(name, files[name], threads, args)
            if row is None:
                lacking += not args.tune_only
                continue
            if results is None:
                facts = run_facts(max(args.threads), 0, **settings)
                results = Results(args.out, KEYS, facts, args.fresh)
            results.add(row)
            publish_latency(args.out)
            told = speed_up(row, "ort")
            say(f"{name}, {threads} threads: {'no time of ort' if told is None else told}")
    return int(lacking > 0)


if __name__ == "__main__":
    sys.exit(main())
