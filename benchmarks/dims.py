"""Kernels for every number of rows beside kernels tuned for each number.

    python -m benchmarks.dims [--trials 32] [--all-trials 64] [--high 512] [--sizes 1 2 ...]

Both kernels of a product of M rows run on the same arrays, in turns. The numbers of rows are 1 and
random ones unless given. Each run replaces the result file, since one kernel serves all its rows.
"""

import time
from statistics import geometric_mean
from tempfile import TemporaryDirectory

import numpy as np

import ansorpy
from ansorpy.artifact.harness import aligned_copy, fresh
from ansorpy.artifact.load import LoadedKernel
from ansorpy.measure.verify.inputs import Array
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

TEXT = (
    "def mm(float({rows}, {width}) A, const float({width}, {width}) B) -> (C)"
    " {{ C(i, j) +=! A(i, k) * B(k, j) }}"
)
KEYS = ("rows", "width", "high", "trials")
SAMPLES = 21
SAMPLE_S = 2e-3


def tuned(text: str, trials: int, folder: str) -> tuple[LoadedKernel, float]:
    """Return a kernel for one thread, and the seconds of its tuning."""
    begin_s = time.monotonic()
    result = ansorpy.tune(
        text, trials=trials, cores=1, store=ansorpy.MemoryStore(), out=folder, progress=False,
        race=False,
    ).task  # fmt: skip
    if result.kernel is None:
        raise RuntimeError(f"no kernel of {text}")
    return ansorpy.load(result.kernel), time.monotonic() - begin_s


def contested(kernels: list[LoadedKernel], a: Array, b: Array) -> list[list[float]]:
    """Return the seconds of calls of each kernel on the same arrays."""
    out = [fresh((len(a), b.shape[1]), "float32") for _ in kernels]
    calls = [kernel.prepare(a, b, out=to) for kernel, to in zip(kernels, out, strict=True)]
    found = in_turns(calls, SAMPLES, SAMPLE_S)
    np.testing.assert_allclose(out[0], out[1], rtol=1e-3)
    return found


def page_of(results: Results) -> str:
    """Return the page of the rows."""
    rows = sorted(results.rows, key=lambda row: row["rows"])
    columns = {
        "rows": lambda row: str(row["rows"]),
        "tuned for all": lambda row: duration(row["dim_s"]),
        "tuned for the size": lambda row: duration(row["own_s"]),
        "ratio": lambda row: f"{row['dim_s'] / row['own_s']:.2f}",
        "seconds of its tuning": lambda row: f"{row['own_tuning_s']:.0f}",
    }
    ratios = [row["dim_s"] / row["own_s"] for row in rows]
    first: Row = rows[0]
    return (
        f"# Kernels for 1 to {first['high']} rows\n\n"
        f"Products of M x {first['width']} by {first['width']} x {first['width']}, one thread;"
        f" {first['trials']} trials for each number of rows alone, {first['all_trials']} for all"
        " numbers of rows; `python -m benchmarks.dims`. Ratio of times: geometric mean"
        f" {geometric_mean(ratios):.2f}, worst {max(ratios):.2f}. The tuning for all sizes took"
        f" {first['dim_tuning_s']:.0f} s.\n\n{table(rows, columns)}"
    )


def main() -> None:
    """Run the benchmark."""
    parser = arguments(__doc__, "dims", 32)
    parser.add_argument("--all-trials", type=int, default=64, help="for all sizes")
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows")
    parser.add_argument("--high", type=int, default=512)
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--width", type=int, default=768)
    asked = parser.parse_args()
    run = run_facts(1, asked.seed, trials=asked.trials, high=asked.high, width=asked.width)
    results = Results(asked.out, KEYS, run, fresh=True)
    rng = np.random.default_rng(asked.seed)
    drawn = [1, *(int(n) for n in rng.integers(2, asked.high + 1, asked.count - 1))]
    sizes = asked.sizes or sorted(set(drawn))
    b = aligned_copy(rng.random((asked.width, asked.width), dtype=np.float32))
    with TemporaryDirectory() as folder:
        every = TEXT.format(rows=f"M in 1..{asked.high}", width=asked.width)
        kernel, dim_s = tuned(every, asked.all_trials, folder)
        say(f"all sizes: tuned in {dim_s:.0f} s")
        for rows in sizes:
            own, own_s = tuned(TEXT.format(rows=rows, width=asked.width), asked.trials, folder)
            a = aligned_copy(rng.random((rows, asked.width), dtype=np.float32))
            times = [spread(samples).median for samples in contested([kernel, own], a, b)]
            row = {
                "rows": rows, "width": asked.width, "high": asked.high, "trials": asked.trials,
                "all_trials": asked.all_trials, "dim_s": times[0], "own_s": times[1],
                "dim_tuning_s": dim_s, "own_tuning_s": own_s,
            }  # fmt: skip
            results.add(row)
            say(f"{rows} rows: {times[0] / times[1]:.2f}")
    publish(results.path, page_of(results))


if __name__ == "__main__":
    main()
