"""Budgets in seconds: asked for, told, taken, on a quiet machine and beside a busy process.

    python -m benchmarks.budgets FOLDER [--seconds 5 12 20 30 60] [--only NAME ...] [--busy]

`ansorpy tune --seconds S --fresh` of three operators, of the model `encoder` and of squeezenet;
with `--busy`, a process loops beside it. Seconds count the whole command by the wall clock.
A row is over if it takes 10 % and 1.5 s more than its seconds, or than the least that the command
tells at its start. Zips and bundles are tested by their own `--selftest` where ansorpy cannot be
imported. FOLDER takes the models, the kernels and the records. The exit code is 1 if a row is over,
or a self-test fails.
"""

import json
import os
import re
import subprocess
import sys
import time
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common import Results, Row, arguments, chosen, commit, looping, publish, say, table
from benchmarks.machine import cpu_model, versions

KEYS: Final = ("name", "beside", "asked_s")
SECONDS: Final = (5, 12, 20, 30, 60)
OPERATORS: Final = ("matmul_relu", "softmax", "conv2d_bias_relu")
MODELS: Final = ("encoder", "squeezenet")
EXAMPLES: Final = Path(__file__).parents[1] / "examples"
ANSORPY: Final = (sys.executable, "-m", "ansorpy")
SHARE, SLACK_S = 0.1, 1.5  # a row may take so much more
LEAST: Final = re.compile(r"are too few: .* takes? about (\d+) s")
ALONE: Final = (
    "import runpy, sys; sys.modules['ansorpy'] = None; sys.argv = [sys.argv[1], '--selftest'];"
    " runpy.run_path(sys.argv[0], run_name='__main__')"
)
TEST_S: Final = 600.0
TRIALS: Final = 100_000  # never reached: seconds end the search


def source_of(name: str, folder: Path) -> Path:
    """Return the file of an operator, or of a model, which is written if it is absent."""
    if name in OPERATORS:
        return EXAMPLES / f"{name}.te"
    file = folder / f"{name}.onnx"
    if not file.exists():
        subprocess.run([*ANSORPY, "example", name, "--out", str(file)], check=True)
    return file


def measured(name: str, seconds: float, folder: Path) -> Row:
    """Return the row of a tuning; it runs here and now."""
    file, out = source_of(name, folder), folder / "out" / f"{name}-{seconds:g}"
    out = out.with_suffix(".zip") if name in MODELS else out
    limits = ["--seconds", f"{seconds:g}", "--trials", str(TRIALS)]
    command = [*ANSORPY, "tune", str(file), *limits, "--fresh", "--json"]
    begin_s = time.monotonic()
    done = subprocess.run(
        [*command, "--out", str(out)], capture_output=True, text=True, check=False,
        env={**os.environ, "ANSORPY_DATA_DIR": str(folder / "data")},
    )  # fmt: skip
    taken_s = time.monotonic() - begin_s
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"taken_s": taken_s, "failed": lines[-1][:300]}
    answer: dict[str, Any] = json.loads(done.stdout)
    (task,) = [answer] if name in MODELS else answer["tasks"]
    told = LEAST.search(done.stderr)
    zipped = Path(answer["bundle"] if name in MODELS else task["kernel"])
    return {
        "taken_s": taken_s,
        "least_s": float(told[1]) if told else None,
        "trials": task["trials"],
        "untuned": task.get("untuned", int(task.get("winner") == "baseline")),
        "verdict": headline(task["verdict"]),
        "selftest": self_test(zipped),
        "failed": "",
    }


def headline(verdict: Mapping[str, Any] | None) -> str:
    """Return a verdict in a few words."""
    return "none" if verdict is None else str(verdict["sentence"]).split(" (")[0].split(":")[0]


def self_test(zipped: Path) -> str:
    """Return "" if a zip passes its self-test without ansorpy, else the last line that it says."""
    place = zipped.with_suffix(".unpacked")
    with zipfile.ZipFile(zipped) as archive:
        archive.extractall(place)
    files = [place / one for one in ("kernel.py", "model.py", "native.py")]
    main = next(one.name for one in files if one.exists())
    done = subprocess.run(
        [sys.executable, "-c", ALONE, str(place / main)], cwd=place, capture_output=True, text=True,
        check=False, timeout=TEST_S,
    )  # fmt: skip
    said = (done.stdout + done.stderr).strip().splitlines()
    return "" if not done.returncode else (said or [f"exit code {done.returncode}"])[-1][:200]


def limit_s(row: Row) -> float:
    """Return the seconds that count: those asked for, or the least that was told."""
    return float(row.get("least_s") or row["asked_s"])


def is_over(row: Row) -> bool:
    """Return whether a row takes longer than it may."""
    counted_s = limit_s(row)
    return float(row["taken_s"]) > counted_s + max(SHARE * counted_s, SLACK_S)


def is_wrong(row: Row) -> bool:
    """Return whether a row misses a goal."""
    return bool(row["failed"] or row["selftest"]) or is_over(row)


def page(rows: Sequence[Row], facts: Mapping[str, Any]) -> str:
    """Return the Markdown page."""
    made = [row for row in rows if not row["failed"]]
    lines = [
        "# Budgets: seconds asked for and taken",
        "",
        f"{sum(not is_wrong(row) for row in rows)} of {len(rows)} rows end in time and pass their"
        f" self-test without ansorpy; {facts['cpu']}, commit {facts['commit'] or 'unknown'}. A row"
        f" may take {SHARE:.0%} or {SLACK_S} s more than was asked for, or than the least that was"
        " told at the start; `beside` is what ran at the same time.",
        "",
        table(
            made,
            {
                "name": lambda row: row["name"],
                "beside": lambda row: row["beside"],
                "asked, s": lambda row: f"{row['asked_s']:g}",
                "told": lambda row: f"{row['least_s']:g}" if row["least_s"] else "",
                "taken": lambda row: f"{row['taken_s']:.1f}",
                "over": lambda row: (
                    f"{row['taken_s'] - limit_s(row):+.1f}" + (" !" if is_over(row) else "")
                ),
                "trials": lambda row: row["trials"],
                "untuned": lambda row: row["untuned"],
                "verdict": lambda row: row["verdict"],
                "self-test": lambda row: row["selftest"] or "passes",
            },
        ),
    ]
    lines += [f"- {row['name']}, {row['asked_s']:g} s: {row['failed']}" for row in rows
              if row["failed"]]  # fmt: skip
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Run the command; return its exit code."""
    parser = arguments(__doc__, "budgets")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, nargs="+", default=SECONDS)
    parser.add_argument("--busy", action="store_true", help="beside a process that loops")
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    facts = {"cpu": cpu_model(), "commit": commit(), "versions": versions()}
    results = Results(args.out, KEYS, facts, args.fresh)
    load = "a loop" if args.busy else "nothing"
    for name in chosen([*OPERATORS, *MODELS], args.only):
        for seconds in args.seconds:
            key = {"name": name, "beside": load, "asked_s": float(seconds)}
            if args.only is None and results.find(**key) is not None:
                continue
            with looping(int(args.busy)):
                row = {**key, **measured(name, seconds, args.folder)}
            say(f"{name}, {seconds:g} s beside {load}: {row['taken_s']:.1f} s")
            results.add(row)
            publish(args.out, page(results.rows, facts))
    return int(any(map(is_wrong, results.rows)))


if __name__ == "__main__":
    sys.exit(main())
