"""Kernels for every size of a range beside kernels tuned for each size.

    python -m benchmarks.dims [--trials 32] [--all-trials 64] [--count 16] [--only NAME ...]

All kernels of a size run on the same arrays, in turns: the kernel for all sizes, the kernel tuned
for the size, and, at large sizes, a kernel of the size with the schedule (steps, choices and sizes
of loops) that the kernel for all sizes has there, if it fits the size. The sizes are 1 and random
ones, evenly by logarithm. A workload with all its rows in the result file is not measured again.
Kernels tuned for a size are kept in benchmarks/results/raw.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import exp, log, prod
from pathlib import Path
from statistics import geometric_mean, mean
from tempfile import TemporaryDirectory
from typing import Any, Final

import numpy as np

import ansorpy
from ansorpy import te
from ansorpy.artifact.harness import aligned_copy, fresh
from ansorpy.artifact.load import LoadedKernel
from ansorpy.errors import RecordError, SpecError
from ansorpy.measure.host import local_target
from ansorpy.plan.join import rows_of
from ansorpy.replay import plan_from_text, plan_text
from ansorpy.schedule import Schedule
from ansorpy.te.dag import Dag
from ansorpy.topi.workloads import Window, attention, conv2d, layer_norm, matmul, softmax
from benchmarks.common import (
    RAW,
    Results,
    Row,
    arguments,
    chosen,
    duration,
    in_turns,
    publish,
    say,
    spread,
    table,
)
from benchmarks.machine import run_facts

KEYS: Final = ("workload", "size", "trials", "all_trials")
SAMPLES: Final = 61  # turns; other work of the machine lasts several
SAMPLE_S: Final = 2e-3
TIMES: Final = ("dim_s", "own_s", "alike_s")  # columns of the kernels that take turns


@dataclass(frozen=True, slots=True)
class Workload:
    """A computation for sizes of 1 to `high`."""

    title: str
    dag: Callable[[int], Dag]
    high: int
    alike: int = 32  # least size at which the same schedule is timed: shorter loops fit few tiles


def square(length: int) -> Dag:
    """Return an attention head whose queries and keys have one length."""
    return attention(length, length, 64)


def images(batch: int) -> Dag:
    """Return a convolution with weights that may be packed."""
    return conv2d(batch, 64, 28, 28, 64, 3, Window(padding=1), constant_weights=True)


WORKLOADS: Final[Mapping[str, Workload]] = {
    "product": Workload(
        "N x 768 by 768 x 768", lambda n: matmul(n, 768, 768, constant_weights=True), 512
    ),
    "softmax": Workload("softmax of 64 rows of N", partial(softmax, 64), 512),
    "layer norm": Workload("layer norm of N rows of 768", lambda n: layer_norm(n, 768), 512),
    "attention": Workload("attention head of N x N, 64 wide", square, 256),
    # The shortest inner loops have 28 steps at any batch.
    "convolution": Workload("N images, 3x3, 64 channels of 28 x 28", images, 16, alike=2),
    "softmax rows": Workload("softmax of N rows of 512", lambda n: softmax(n, 512), 512),
    "wide product": Workload(
        "N x 384 by 384 x 1536", lambda n: matmul(n, 1536, 384, constant_weights=True), 64
    ),
}


@dataclass(frozen=True, slots=True)
class Tuned:
    """A kernel for one thread, and the seconds of its tuning."""

    kernel: LoadedKernel
    seconds: float


def tuned(dag: Dag, trials: int, folder: Path, schedule: Schedule | None = None) -> Tuned:
    """Return the fastest kernel of a search, or the kernel of a schedule.

    A kernel that an earlier run left in the folder is not tuned again.

    Raises:
        SpecError: the schedule does not fit the sizes.
    """
    done = folder / "seconds"  # written last
    if not done.exists():
        begin_s = time.monotonic()
        result = ansorpy.tune(
            dag, trials=trials, cores=1, store=ansorpy.MemoryStore(), out=folder, progress=False,
            race=False, mode="auto" if schedule is None else "manual", schedule=schedule,
        ).task  # fmt: skip
        if result.kernel is None:
            raise RuntimeError(f"no kernel of {dag.name}: {dict(result.failures)}")
        result.kernel.rename(folder / "kernel.zip")
        done.write_text(str(time.monotonic() - begin_s))
    return Tuned(ansorpy.load(folder / "kernel.zip"), float(done.read_text()))


def schedule_at(over: Dag, manifest: Mapping[str, Any], dag: Dag, size: int) -> Schedule:
    """Return the schedule that the kernel of `over`, a Dag with a dim, has at a size.

    Tile sizes that exceed the loops of the size are reduced, the outermost first.

    Args:
        dag: the Dag of the size.

    Raises:
        RecordError: the plan does not fit the size.
    """
    target = local_target(1)
    plan, row = plan_from_text(over, target, json.dumps(manifest["plan"])), tuple(manifest["row"])
    for part, own in rows_of(plan, row):
        if part.sizes.has(size):
            plan, row = part.plan, own
    plan = plan_from_text(dag, target, plan_text(plan))
    values = dict(zip((one.name for one in plan.sizes), row, strict=True))
    for one in sorted(plan.sizes, key=lambda one: one.part):
        own = values[one.name]
        if one.role != "tile":
            values[one.name] = max(n for n in one.values if n <= max(own, min(one.values)))
            continue
        inside = [values[n.name] for n in plan.sizes if n.group == one.group and n.part > one.part]
        *outer, unit = inside or [one.multiple_of]
        most = -(-one.extent // unit) // prod(outer) * (1 if inside else unit)
        values[one.name] = min(own, max(1, most))
    return Schedule(plan.state.steps, tuple(values.items()), choices=plan.choices)


def contested(kernels: Sequence[LoadedKernel], rng: np.random.Generator) -> list[float]:
    """Return the median seconds of a call of each kernel on the same arrays.

    Args:
        kernels: the second one is of a single size, and tells the shapes.
    """
    tensors = kernels[1].manifest
    inputs = [
        aligned_copy(rng.random(tensor["shape"], dtype=np.float32)) for tensor in tensors["inputs"]
    ]
    (result,) = tensors["outputs"]
    out = [fresh(tuple(result["shape"]), "float32") for _ in kernels]
    calls = [kernel.prepare(*inputs, out=to) for kernel, to in zip(kernels, out, strict=True)]
    samples = in_turns(calls, SAMPLES, SAMPLE_S)
    for other in out[1:]:
        np.testing.assert_allclose(out[0], other, rtol=1e-3, atol=1e-5)
    return [spread(one).median for one in samples]


@dataclass(frozen=True, slots=True)
class Bench:
    """The measurement of one workload."""

    name: str
    trials: int
    all_trials: int
    kept: Path  # folder of kernels tuned for a size

    @property
    def workload(self) -> Workload:
        """The computation."""
        return WORKLOADS[self.name]

    def rows(self, sizes: Sequence[int], rng: np.random.Generator) -> Iterator[Row]:
        """Yield a row for each size."""
        over = self.workload.dag(te.dim("N", 1, self.workload.high))
        with TemporaryDirectory() as folder:
            every = tuned(over, self.all_trials, Path(folder))
            say(f"{self.name}: tuned for all sizes in {every.seconds:.0f} s")
            for size in sizes:
                yield self.row(over, every, size, rng)

    def row(self, over: Dag, every: Tuned, size: int, rng: np.random.Generator) -> Row:
        """Return the times of the kernel for all sizes and of the kernels of a size."""
        dag = self.workload.dag(size)
        own = tuned(dag, self.trials, self.kept / f"{self.name}-{size}-{self.trials}")
        kernels = [every.kernel, own.kernel]
        if size >= self.workload.alike:
            with TemporaryDirectory() as folder, suppress(RecordError, SpecError):
                schedule = schedule_at(over, every.kernel.manifest, dag, size)
                kernels.append(tuned(dag, 1, Path(folder), schedule).kernel)
        seconds = contested(kernels, rng)
        row = {
            "workload": self.name, "size": size, "trials": self.trials,
            "all_trials": self.all_trials, **dict(zip(TIMES, seconds, strict=False)),
            "dim_tuning_s": every.seconds, "own_tuning_s": own.seconds,
        }  # fmt: skip
        say(f"{self.name}, {size}: {ratio(row, 'own_s')}, same schedule {ratio(row, 'alike_s')}")
        return row


def sizes_of(high: int, count: int, rng: np.random.Generator) -> list[int]:
    """Return 1 and random sizes up to `high`, evenly by logarithm, each once."""
    sizes = {1}
    while len(sizes) < min(count, high):
        sizes.add(round(exp(rng.uniform(0, log(high)))))
    return sorted(sizes)


def ratio(row: Row, other: str) -> str:
    """Return the time of the kernel for all sizes over another one; "-" if there is none."""
    return f"{row['dim_s'] / row[other]:.2f}" if other in row else "-"


def summary(rows: Sequence[Row]) -> Row:
    """Return the line of a workload."""
    ratios = {row["size"]: row["dim_s"] / row["own_s"] for row in rows}
    alike = [row["dim_s"] / row["alike_s"] for row in rows if "alike_s" in row]
    worst = max(ratios, key=ratios.__getitem__)
    return {
        "title": WORKLOADS[rows[0]["workload"]].title,
        "sizes": len(rows),
        "mean": geometric_mean(ratios.values()),
        "worst": f"{ratios[worst]:.2f} at {worst}",
        "alike": geometric_mean(alike) if alike else None,
        "alike sizes": len(alike),
        "tuning": f"{rows[0]['dim_tuning_s']:.0f} s",
        "own tuning": f"{mean(row['own_tuning_s'] for row in rows):.0f} s",
    }


def page_of(rows: Sequence[Row]) -> str:
    """Return the page of the rows."""
    by_name = [[row for row in rows if row["workload"] == name] for name in WORKLOADS]
    workloads = [sorted(mine, key=lambda row: row["size"]) for mine in by_name if mine]
    lines = [summary(mine) for mine in workloads]
    alike = [line["alike"] for line in lines if line["alike"] is not None]
    overview = {
        "workload": lambda line: line["title"],
        "sizes": lambda line: line["sizes"],
        "mean": lambda line: f"{line['mean']:.2f}",
        "worst": lambda line: line["worst"],
        "same schedule": lambda line: "-" if line["alike"] is None else f"{line['alike']:.2f}",
        "at sizes": lambda line: line["alike sizes"],
        "tuning for all": lambda line: line["tuning"],
        "for a size": lambda line: line["own tuning"],
    }  # fmt: skip
    columns = {
        "workload": lambda row: row["workload"],
        "N": lambda row: row["size"],
        "for all": lambda row: duration(row["dim_s"]),
        "for the size": lambda row: duration(row["own_s"]),
        "ratio": lambda row: ratio(row, "own_s"),
        "same schedule": lambda row: ratio(row, "alike_s"),
    }
    every = [row for mine in workloads for row in mine]
    return (
        "# Kernels for a range of sizes\n\n"
        f"One thread; {rows[0]['trials']} trials for each size alone, {rows[0]['all_trials']} for"
        " all sizes from 1 to the largest; `python -m benchmarks.dims`. Ratios of times: the kernel"
        " for all sizes over the kernel tuned for the size, and over a kernel of the size with the"
        " same schedule, if its loops are long enough. Geometric means:"
        f" {geometric_mean(line['mean'] for line in lines):.2f} over the workloads"
        + (f", {geometric_mean(alike):.2f} with the same schedule" if alike else "")
        + f".\n\n{table(lines, overview)}\n{table(every, columns)}"
    )


def main() -> None:
    """Measure the missing workloads; write JSON and page."""
    parser = arguments(__doc__, "dims", 32)
    parser.add_argument("--all-trials", type=int, default=64, help="for all sizes")
    parser.add_argument("--count", type=int, default=16, help="sizes of a workload")
    asked = parser.parse_args()
    run = run_facts(1, asked.seed, trials=asked.trials, all_trials=asked.all_trials)
    results = Results(asked.out, KEYS, run, asked.fresh)
    for name in chosen(WORKLOADS, asked.only):
        rng = np.random.default_rng(asked.seed)
        sizes = sizes_of(WORKLOADS[name].high, asked.count, rng)
        key = {"workload": name, "trials": asked.trials, "all_trials": asked.all_trials}
        if all(results.find(**key, size=size) for size in sizes):
            continue
        bench = Bench(name, asked.trials, asked.all_trials, RAW / "dims")
        for row in bench.rows(sizes, rng):
            results.add(row)
        publish(results.path, page_of(results.rows))


if __name__ == "__main__":
    main()
