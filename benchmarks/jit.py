"""Functions of NumPy names under `ansorpy.jit`, against NumPy and PyTorch.

    python -m benchmarks.jit [--only NAME ...] [--fresh] [--threads N] [--trials 64]

first call   seconds of the first call in a fresh interpreter with an empty folder of answers, after
             the imports: trace, first answer, verification, comparison with NumPy (median of 3)
tuned        seconds of a first call that tunes with that many trials before its result
times        calls in turns: the function itself, the tuned bundle, eager PyTorch and torch.compile
             if torch is installed; median of the turns, and their interquartile range

A layer norm, an attention head and an MLP; then the functions of `tests/jit/functions.py`, two
signatures and two dtypes each, by their first answers. Existing rows are not measured again.
"""

import inspect
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

import ansorpy
from benchmarks.common import (
    Cell,
    Results,
    Row,
    arguments,
    chosen,
    duration,
    in_turns,
    percent,
    publish,
    say,
    spread,
    table,
    times,
)
from benchmarks.machine import run_facts
from tests.jit.functions import FUNCTIONS

Arrays = list[Any]

KEYS: Final = ("name", "dtype", "signature", "threads")
STARTS: Final = 3  # fresh interpreters for a median of first calls
TURNS: Final = 15
TURN_S: Final = 0.05  # seconds of a turn
SCALE: Final = 16  # ratio of the extents here to those in the tests
GOAL_S: Final = 5.0
BLOCKS: Final[dict[str, tuple[tuple[int, ...], ...]]] = {
    "layer_norm": ((128, 768), (768,), (768,)),
    "attention": ((128, 64), (128, 64), (128, 64)),
    "mlp": ((32, 256), (256, 1024), (1024,), (1024, 256)),
}


def shapes_of(name: str, signature: int) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of a signature; -1: of a block."""
    if signature < 0:
        return BLOCKS[name]
    return tuple(tuple(SCALE * n for n in shape) for shape in FUNCTIONS[name][1][signature])


def arrays_of(row: Mapping[str, Any]) -> Arrays:
    """Return arguments of a row, equal in each process."""
    rng = np.random.default_rng(0)
    shapes = shapes_of(row["name"], row["signature"])
    return [rng.standard_normal(shape).astype(row["dtype"]) for shape in shapes]


def jitted(row: Mapping[str, Any], trials: int) -> Any:
    """Return the function of a row; with trials the first call tunes."""
    mode = "now" if trials else "first"
    return ansorpy.jit(tune=mode, trials=trials, cores=row["threads"])(FUNCTIONS[row["name"]][0])


def first_call(row: Mapping[str, Any], trials: int) -> float:
    """Return the seconds of a first call, in this process."""
    function, arrays = jitted(row, trials), arrays_of(row)
    begin_s = time.perf_counter()
    function(*arrays)
    return time.perf_counter() - begin_s


def ask(row: Mapping[str, Any], trials: int) -> float:
    """Return the seconds of a first call in a fresh interpreter, with an empty folder."""
    command = [
        sys.executable,
        "-m",
        "benchmarks.jit",
        "--ask",
        json.dumps({**row, "trials": trials}),
    ]
    with TemporaryDirectory(prefix="ansorpy-jit-") as folder:
        environment = {**os.environ, "ANSORPY_DATA_DIR": folder}
        done = subprocess.run(
            command, env=environment, check=True, stdout=subprocess.PIPE, text=True
        )
    return float(done.stdout)


def raced(calls: Mapping[str, Callable[[], Any]]) -> Row:
    """Return the median seconds of a call of each, and the interquartile range of its turns."""
    samples = in_turns([*calls.values()], TURNS, TURN_S)
    found = {name: spread(one) for name, one in zip(calls, samples, strict=True)}
    return {
        "times_s": {name: one.median for name, one in found.items()},
        "iqr": {name: one.iqr for name, one in found.items()},
    }


def torch_calls(name: str, arrays: Arrays, threads: int) -> dict[str, Callable[[], Any]]:
    """Return eager and compiled calls of PyTorch, {} if it is not installed."""
    if find_spec("torch") is None:
        return {}
    import torch

    torch.set_num_threads(threads)

    def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
        return torch.nn.functional.layer_norm(x, x.shape[-1:], gain, bias)

    def attention(q: Any, k: Any, v: Any) -> Any:
        return torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5, -1) @ v

    def mlp(x: Any, w1: Any, b1: Any, w2: Any) -> Any:
        return torch.relu(x @ w1 + b1) @ w2

    functions: dict[str, Callable[..., Any]] = {
        "layer_norm": layer_norm, "attention": attention, "mlp": mlp,
    }  # fmt: skip
    function = functions[name]
    given = [torch.from_numpy(one) for one in arrays]
    compiled = torch.compile(function)

    def call(which: Callable[..., Any]) -> Any:
        with torch.inference_mode():
            return which(*given)

    return {"torch": partial(call, function), "torch.compile": partial(call, compiled)}


def measured(row: Row, trials: int) -> Row:
    """Return a row with its times."""
    block = row["signature"] < 0
    firsts = [ask(row, 0) for _ in range(STARTS if block else 1)]
    found: Row = {**row, "first_s": median(firsts), "firsts_s": firsts}
    if block:
        found["lines"] = len(inspect.getsource(FUNCTIONS[row["name"]][0]).splitlines()) - 1
        found["tuned_s"] = ask(row, trials)
    with TemporaryDirectory(prefix="ansorpy-jit-") as folder:
        os.environ["ANSORPY_DATA_DIR"] = folder
        function, arrays = jitted(row, trials if block else 0), arrays_of(row)
        function(*arrays)  # compiled in this process
        calls: dict[str, Callable[[], Any]] = {
            "numpy": partial(FUNCTIONS[row["name"]][0], *arrays),
            "ansorpy": partial(function, *arrays),
        }
        if block:
            calls |= torch_calls(row["name"], arrays, row["threads"])
        return found | raced(calls)


def plan(names: list[str], threads: int) -> list[Row]:
    """Return the keys of all rows, the blocks first."""
    rows: list[Row] = [
        {"name": name, "dtype": "float32", "signature": -1} for name in BLOCKS if name in names
    ]
    for name in names:
        for dtype in ("float32", "float16"):
            count = len(FUNCTIONS[name][1])
            rows += [{"name": name, "dtype": dtype, "signature": n} for n in range(count)]
    return [{**row, "threads": threads} for row in rows]


def ratio(row: Row, name: str) -> float | None:
    """Return the time of a rival over ours."""
    told: dict[str, float] = row["times_s"]
    return told[name] / told["ansorpy"] if name in told else None


def told_time(name: str, row: Row) -> str:
    """Return the time of a call, for people."""
    return duration(row["times_s"].get(name))


def told_ratio(name: str, row: Row) -> str:
    """Return the time of a rival over ours, for people."""
    return times(ratio(row, name))


def page(results: Results) -> str:
    """Return the Markdown page of the results."""
    blocks = [row for row in results.rows if row["signature"] < 0]
    others = [row for row in results.rows if row["signature"] >= 0]
    text = [__doc__.splitlines()[0], ""]
    if blocks:
        columns: dict[str, Cell] = {
            "block": lambda r: f"{r['name']} {r['dtype']}, {r['threads']} threads",
            "lines": lambda r: r["lines"],
            f"first call (goal {GOAL_S:g} s)": lambda r: duration(r["first_s"]),
            "tuned": lambda r: duration(r["tuned_s"]),
            **{
                name: partial(told_time, name)
                for name in ("ansorpy", "numpy", "torch", "torch.compile")
            },
            "spread": lambda r: percent(max(r["iqr"].values())),
            **{
                f"against {name}": partial(told_ratio, name)
                for name in ("numpy", "torch", "torch.compile")
            },
        }
        text += ["## Blocks", "", table(blocks, columns)]
    if others:
        ratios = [one for row in others if (one := ratio(row, "numpy")) is not None]
        text += [
            "## Functions", "",
            f"First answers against NumPy, {len(others)} rows: {times(geometric_mean(ratios))} in"
            f" the geometric mean, {times(min(ratios))} to {times(max(ratios))}; first calls take"
            f" {duration(median(row['first_s'] for row in others))} in the median.",
            "",
            table(
                others,
                {
                    "function": lambda r: r["name"],
                    "dtype": lambda r: r["dtype"],
                    "shapes": lambda r: ", ".join(
                        "x".join(map(str, one)) for one in shapes_of(r["name"], r["signature"])
                    ),
                    "first call": lambda r: duration(r["first_s"]),
                    "ansorpy": lambda r: duration(r["times_s"]["ansorpy"]),
                    "numpy": lambda r: duration(r["times_s"]["numpy"]),
                    "ratio": lambda r: times(ratio(r, "numpy")),
                    "spread": lambda r: percent(max(r["iqr"].values())),
                },
            ),
        ]  # fmt: skip
    return "\n".join(text)


def main() -> None:
    """Measure the rows that are missing, and write the page."""
    parser = arguments(__doc__, "jit", trials=64)
    parser.add_argument("--ask", help="a row as JSON: print the seconds of its first call")
    asked: Namespace = parser.parse_args()
    if asked.ask:
        row = json.loads(asked.ask)
        print(first_call(row, row["trials"]))
        return
    facts = run_facts(asked.threads, asked.seed, trials=asked.trials, turns=TURNS)
    results = Results(asked.out, KEYS, facts, asked.fresh)
    for row in plan(chosen(FUNCTIONS, asked.only), asked.threads):
        if results.find(**row) is None:
            say(f"{row['name']} {row['dtype']} {shapes_of(row['name'], row['signature'])}")
            results.add(measured(row, asked.trials))
            publish(asked.out, page(results))


if __name__ == "__main__":
    main()
