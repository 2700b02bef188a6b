"""One bundle for ranges of sizes beside bundles for single sizes, ONNX Runtime and OpenVINO.

    python -m benchmarks.models.sizes MODEL.onnx --bind batch=1 --bind length=1..128
        [--trials 0] [--count 64] [--own 8] [--calls 10000] [--bundles FOLDER]

All run on the same inputs, on one thread of this process, in turns, at `--count` drawn sizes, at
`--own` of which a bundle for the size alone runs, too. Bundles that are there already are not tuned
again. Then ours and ONNX Runtime run in processes of their own, whose resident memory is read after
a call at each size and after `--calls` calls of mixed sizes. A row is a model.
"""

import json
import os
from argparse import Namespace
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from statistics import geometric_mean
from subprocess import DEVNULL
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

from ansorpy.bundle.load import LoadedModel, load_model
from ansorpy.graph.graph import Array
from ansorpy.measure.cores import slot_cores
from ansorpy.measure.timing.turn_process import TurnProcess
from ansorpy.model.contestant import RUNTIMES, Call
from ansorpy.model.race import Entry, command_of, distance, to_prepare
from benchmarks.common import (
    Results,
    Row,
    arguments,
    duration,
    in_turns,
    publish,
    say,
    spread,
    table,
)
from benchmarks.machine import run_facts
from benchmarks.models.latency import PEERS
from benchmarks.models.latency_page import TITLES
from benchmarks.models.verified import tune_command, tuned

KEYS: Final = ("model", "ranges", "trials")
RIVALS: Final = ("ort", "openvino")
SAMPLES: Final = 7
SAMPLE_S: Final = 0.03
OPEN_S: Final = 600.0  # seconds until a process that opens a model, or runs it, counts as hung
MIB: Final = 1 << 20

Sizes = dict[str, int]
Inputs = Mapping[str, Array]


def bundle_of(file: Path, bind: Mapping[str, str], trials: int, place: Path) -> tuple[Path, float]:
    """Return a bundle for one thread, tuned unless it is there, and the seconds of its tuning."""
    words = [f"{name}-{value}" for name, value in bind.items()]
    bundle = place / f"{'-'.join([file.stem, *words, str(trials)]).replace('.', '_')}.zip"
    told = bundle.with_suffix(".json")
    if not told.exists():
        place.mkdir(parents=True, exist_ok=True)
        more = ["--trials", str(trials), "--cores", "1"]
        more += [word for one in bind.items() for word in ("--bind", "=".join(one))]
        answer = tuned(tune_command(file, bundle, {}, *more))
        if "failed" in answer:
            raise SystemExit(f"no bundle {bundle} because {answer['failed']}")
        told.write_text(json.dumps({"seconds": answer["seconds"]}))
    return bundle, float(json.loads(told.read_text())["seconds"])


def drawn(model: LoadedModel, count: int, seed: int) -> list[Sizes]:
    """Return different sizes of the dims of a model: the least, the largest and random ones."""
    every: list[Sizes] = [{one.name: one.low for one in model.dims}]
    every.append({one.name: one.high for one in model.dims})
    rng, most = np.random.default_rng(seed), 1
    for one in model.dims:
        most *= 1 + (one.high - one.low) // one.step
    while len(every) < min(count, most):
        found = {n.name: int(rng.integers(n.low // n.step, n.high // n.step + 1)) * n.step
                 for n in model.dims}  # fmt: skip
        if found not in every:
            every.append(found)
    return every


def resident_bytes(runtime: str, file: Path, every: Sequence[Inputs], calls: int) -> list[int]:
    """Return the resident memory of a process: after one call at each size, and after `calls`."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory()))
        process = stack.enter_context(TurnProcess(command_of(Entry(runtime, file), 1), DEVNULL))
        answers = [process.ask(to_prepare(every, folder, "out.npz"), OPEN_S)]
        found, done = [_resident(process.pid)], len(every)
        while done < calls and "failed" not in answers[-1]:
            answers.append(process.ask({"do": "visit", "seconds": 10.0}, OPEN_S))
            done += len(every) * len(answers[-1].get("times_s", ()))
        if "failed" in answers[-1]:
            raise SystemExit(f"no memory of {runtime}: {answers[-1]['failed']}")
        return [*found, _resident(process.pid)]


def _resident(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))


def timed(
    calls: Mapping[str, Sequence[Call]], own: Mapping[int, Call], every: Sequence[Sizes]
) -> list[Row]:
    """Return the median seconds of each contestant at each size, and the error of ours."""
    rows = []
    for number, sizes in enumerate(every):
        here = {who: each[number] for who, each in calls.items()}
        here |= {"own": own[number]} if number in own else {}
        made = {who: [np.array(one) for one in call()] for who, call in here.items()}
        times = in_turns(list(here.values()), SAMPLES, SAMPLE_S)
        rows.append(
            {
                "sizes": sizes,
                "times_s": {who: spread(one).median for who, one in zip(here, times, strict=True)},
                "error": distance(made["ansorpy"], made["ort"]),
            }
        )
    return rows


def row_of(file: Path, bind: Mapping[str, str], args: Namespace) -> Row:
    """Return the row of a model."""
    bundle, seconds = bundle_of(file, bind, args.trials, args.bundles)
    model = load_model(bundle, threads=1)
    every = drawn(model, args.count, args.seed)
    inputs = [{**model.bound(), **model.sample(sizes)} for sizes in every]
    say(f"{bundle}: {seconds:.0f} s, {len(every)} sizes")
    memory = [model.manifest["memory"]["packed_bytes"]]
    symbols = [name for name, value in bind.items() if ".." in value]
    alone = []
    for sizes in every[: args.own]:
        numbers = dict(zip(symbols, map(str, sizes.values()), strict=True))
        alone.append(bundle_of(file, {**bind, **numbers}, args.trials, args.bundles))
        say(f"{alone[-1][0]}: {alone[-1][1]:.0f} s")
    os.sched_setaffinity(0, slot_cores(1))
    calls: dict[str, Sequence[Call]] = {"ansorpy": RUNTIMES["ansorpy"](bundle, 1, "")(inputs)}
    for peer in RIVALS:
        if find_spec(PEERS[peer]) is not None:
            calls[peer] = RUNTIMES[peer](file, 1, "")(inputs)
    own = {}
    for number, (path, _) in enumerate(alone):
        own[number] = RUNTIMES["ansorpy"](path, 1, "")(inputs[number : number + 1])[0]
        memory.append(load_model(path, threads=1).manifest["memory"]["packed_bytes"])
    return {
        "model": file.stem,
        "ranges": ", ".join(f"{name} {value}" for name, value in bind.items()),
        "trials": args.trials,
        "seconds": seconds,
        "own_seconds": [one for _, one in alone],
        "packed_bytes": memory[0],
        "own_packed_bytes": memory[1:],
        "sizes": timed(calls, own, every),
        "calls": args.calls,
        "resident_bytes": {
            who: resident_bytes(who, path, inputs, args.calls)
            for who, path in (("ansorpy", bundle), ("ort", file))
        },
    }


def ratio_text(row: Row, who: str) -> str:
    """Return the geometric mean, over the sizes, of a time divided by ours, and the least."""
    found = [
        one["times_s"][who] / one["times_s"]["ansorpy"]
        for one in row["sizes"]
        if who in one["times_s"]
    ]
    return f"{geometric_mean(found):.2f} ({min(found):.2f})" if found else "-"


def page_of(rows: Sequence[Row], machine: str) -> str:
    """Return the page of the rows, measured on a machine."""

    def packed(row: Row) -> str:
        most = max(row["own_packed_bytes"], default=0) / MIB
        return f"{row['packed_bytes'] / MIB:.1f} / {most:.1f}"

    def resident(row: Row, who: str) -> str:
        first, last = (one / MIB for one in row["resident_bytes"][who])
        return f"{first:.0f}, {last:.0f}"

    columns: dict[str, Callable[[Row], object]] = {
        "model": lambda row: row["model"],
        "ranges": lambda row: row["ranges"],
        "to a bundle for the size": lambda row: ratio_text(row, "own"),
        **{f"to {TITLES[peer]}": partial(ratio_text, who=peer) for peer in RIVALS},
        "seconds": lambda row: f"{row['seconds']:.0f}",
        "for a size": lambda row: f"{np.mean(row['own_seconds'] or [0]):.0f}",
        "packed, MiB": packed,
        "resident, MiB": partial(resident, who="ansorpy"),
        "ONNX Runtime": partial(resident, who="ort"),
        "calls": lambda row: row["calls"],
        "error": lambda row: f"{max(one['error'] for one in row['sizes']):.0e}",
    }
    parts = [
        f"# One bundle for all sizes\n\n{machine}, one thread; `python -m benchmarks.models.sizes`."
        " A ratio is the other time divided by ours: the geometric mean over the sizes, and the"
        " least; above 1 we are faster. Seconds are those of the tuning of the bundle, and the mean"
        " of bundles for one size. Packed weights are those of the bundle for all sizes and the"
        " most of a bundle for one. Resident memory is that of a process after a call at each size,"
        " and after calls of mixed sizes. The error is the largest distance to ONNX Runtime.\n\n"
        f"{table(rows, columns)}"
    ]
    for row in rows:
        lines: dict[str, Any] = {
            "sizes": lambda one: ", ".join(f"{name} {n}" for name, n in one["sizes"].items())
        }
        for who, title in {"ansorpy": "ours", "own": "for the size", **TITLES}.items():
            if any(who in one["times_s"] for one in row["sizes"]):
                lines[title] = lambda one, who=who: duration(one["times_s"].get(who))
        every = sorted(row["sizes"], key=lambda one: tuple(one["sizes"].values()))
        parts.append(f"## {row['model']}\n\n{table(every, lines)}")
    return "\n".join(parts)


def main() -> None:
    """Run the command."""
    parser = arguments(__doc__, "sizes", 0)
    parser.add_argument("file", type=Path)
    parser.add_argument("--bind", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--count", type=int, default=64, help="drawn sizes")
    parser.add_argument("--own", type=int, default=8, help="sizes with a bundle of their own")
    parser.add_argument("--calls", type=int, default=10_000, help="until memory is read")
    parser.add_argument("--bundles", type=Path, help="folder of the bundles; beside the model")
    args = parser.parse_args()
    args.bundles = args.bundles or args.file.parent / "bundles"
    bind = dict(one.split("=", 1) for one in args.bind)
    row = row_of(args.file, bind, args)
    run = run_facts(1, args.seed, samples=SAMPLES, sample_s=SAMPLE_S)
    results = Results(args.out, KEYS, run, args.fresh)
    results.add(row)
    publish(results.path, page_of(results.rows, run["machine"]["model"]))
    for who in ("own", *RIVALS):
        say(f"{row['model']}, {who}: {ratio_text(row, who)}")


if __name__ == "__main__":
    main()
