"""The time of the steps of a bundle alone and inside the model, apart by the data that is cold.

    python -m benchmarks.models.cold_data model.zip [more.zip] [--rounds 15] [--threads 1]

Per step, in turns with runs of the whole model:

hot        the step alone, called again and again
weights    its weights, packed and as stored, are flushed from every cache before the call
scratch    its scratch is flushed
values     the values that it reads and writes are flushed
code       the code of the whole library is flushed: from memory, which is more than a model does
all        all four are flushed
model      the step in a run of the whole model
apart      as `model`, with scratch of its own for every step, instead of the shared scratch

A figure is the sum over the steps of their median calls, divided by the sum of `hot`; the range has
the first and the third quartiles of the steps in place of medians. Calls during which the process
was preempted do not count. Needs an x86 processor: there an instruction flushes a cache line.
"""

import argparse
import tempfile
import time
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any, Final

import numpy as np

from ansorpy.artifact.harness import Array, aligned_copy, as_passed, fresh
from ansorpy.bundle.memory import AREAS
from ansorpy.bundle.runner import ModelRunner, open_model
from ansorpy.codegen.runtime.native_launcher import native_call
from ansorpy.expr.dtypes import SIZE_BYTES
from ansorpy.host_jit import compile_here
from ansorpy.measure.timing.sampling import preemptions
from benchmarks.common import RESULTS, Results, Row, publish
from benchmarks.machine import run_facts

RESULT: Final = RESULTS / "cold_data.json"
FLUSHED: Final = {
    "hot": (),
    "weights": ("weights",),
    "scratch": ("scratch",),
    "values": ("values",),
    "code": ("code",),
    "all": ("weights", "scratch", "values", "code"),
}
CASES: Final = (*FLUSHED, "model", "apart")
FLUSH: Final = """
declare void @llvm.x86.sse2.clflush(ptr)
declare void @llvm.x86.sse2.mfence()

define void @flush(ptr %words) {
entry:
  br label %range
range:
  %at = phi ptr [ %words, %entry ], [ %after, %line ]
  %first = load i64, ptr %at
  %place = getelementptr i64, ptr %at, i64 1
  %end = load i64, ptr %place
  %after = getelementptr i64, ptr %at, i64 2
  %some = icmp ult i64 %first, %end
  br i1 %some, label %lines, label %out
lines:
  br label %line.loop
line.loop:
  %line.at = phi i64 [ %first, %lines ], [ %next, %line.loop ]
  %address = inttoptr i64 %line.at to ptr
  call void @llvm.x86.sse2.clflush(ptr %address)
  %next = add i64 %line.at, 64
  %more = icmp ult i64 %next, %end
  br i1 %more, label %line.loop, label %line
line:
  br label %range
out:
  call void @llvm.x86.sse2.mfence()
  ret void
}
"""

Call = Callable[[], object]
Range = tuple[int, int]  # the first address and the end


@dataclass(frozen=True, slots=True)
class StepCalls:
    """A step as a call, with scratch of its own, and calls that flush parts of its data."""

    call: Call
    apart: Call
    flush: Mapping[str, Call]


def opened(path: Path, folder: Path, threads: int | None) -> ModelRunner:
    """Return the runner of a bundle, unpacked to a folder.

    Raises:
        ValueError: a step of the bundle is hosted.
    """
    with zipfile.ZipFile(path) as file:
        file.extractall(folder)
    runner = open_model(folder, threads)
    if any("function" in step for step in runner.facts["steps"]):
        raise ValueError(f"cannot time {path.name} because NumPy computes a step of it")
    return runner


def steps_of(runner: ModelRunner) -> list[StepCalls]:
    """Return the steps of a bundle, bound to one set of arrays."""
    facts = runner.facts
    drawn = [aligned_copy(one) for one in runner.random_inputs(np.random.default_rng(0))]
    rest = [one for one in runner.tensors.values() if one.role != "input"]
    arrays = [*map(as_passed, drawn), *(fresh(one.shape, one.dtype) for one in rest)]
    order = runner.arguments(arrays)
    engine = compile_here(FLUSH)
    entry = int(engine.get_function_address("flush"))
    code = code_ranges()
    parts = [
        {**part, "code": code} for part in parts_of(facts, [array.ctypes.data for array in order])
    ]
    shared = runner.steps(order)
    scratch = [fresh((facts["memory"]["scratch_bytes"],), "uint8") for _ in shared]
    found = []
    for number, (call, part) in enumerate(zip(shared, parts, strict=False)):
        apart = runner.steps([*order[:-1], scratch[number]])[number]
        flush = {
            name: native_call(entry, [*flat(part[one] for one in chosen), 0, 0], engine)
            for name, chosen in FLUSHED.items()
        }
        found.append(StepCalls(call, apart, flush))
    return found


def code_ranges() -> list[Range]:
    """Return the addresses of the code of `libmodel.so` in this process."""
    found = []
    for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
        place, rights, *_, name = line.split(maxsplit=5)
        if "x" in rights and name.endswith("/libmodel.so"):
            begin, end = (int(word, 16) for word in place.split("-"))
            found.append((begin, end))
    return found


def flat(ranges: Any) -> list[int]:
    """Return the words of ranges: multiples of a cache line first."""
    return [
        word for some in ranges for first, end in some if end > first for word in (first & -64, end)
    ]


def parts_of(facts: Mapping[str, Any], addresses: Sequence[int]) -> list[dict[str, list[Range]]]:
    """Return the ranges of weights, scratch and values of every step, by the manifest of a bundle.

    Raises:
        ValueError: the packed weights of its steps are not as large as it tells.
    """
    first = len(addresses) - len(AREAS)
    weights, packed, _, scratch = range(first, len(addresses))
    kernels = {one["name"]: one for one in facts["kernels"]}
    places: dict[tuple[object, ...], int] = {}  # as `memory` packs: once per kernel and weights
    end, parts = 0, []
    for step in facts["steps"]:
        kernel = kernels[step["kernel"]]
        used = [facts["values"][name] for name in (*step["reads"], *step["writes"])]
        fixed = [one for one in used if one["argument"] == weights]
        key = (kernel["name"], *(one["at"] for one in fixed))
        if key not in places:
            places[key] = end
            end += kernel["packed_bytes"]
        at = addresses[packed] + places[key]
        found = [_range(one, addresses) for one in used]
        parts.append(
            {
                "weights": [
                    (at, at + kernel["packed_bytes"]),
                    *(_range(one, addresses) for one in fixed),
                ],
                "scratch": [(addresses[scratch], addresses[scratch] + kernel["scratch_bytes"])],
                "values": [
                    r for r, one in zip(found, used, strict=True) if one["argument"] != weights
                ],
            }
        )
    if end != facts["memory"]["packed_bytes"]:
        raise ValueError(f"the packed weights are {end} bytes, not as the manifest tells")
    return parts


def _range(value: Mapping[str, Any], addresses: Sequence[int]) -> Range:
    begin = addresses[value["argument"]] + value["at"]
    return begin, begin + prod(value["shape"]) * SIZE_BYTES[value["dtype"]]


def measure(steps: Sequence[StepCalls], rounds: int) -> dict[str, Array]:
    """Return seconds by case, shape (rounds, steps); NaN for a call that was disturbed.

    A call is disturbed if this process was preempted since it prepared the call: the caches may
    hold another program's data then. A round visits the steps in order, so that each has the values
    of the step before.
    """
    found = {case: np.full((rounds, len(steps)), np.nan) for case in CASES}
    for number in range(rounds):
        for case in ("model", "apart"):
            calls = [step.apart if case == "apart" else step.call for step in steps]
            for call in calls:
                call()
            before = preemptions()
            for place, call in enumerate(calls):
                now = preemptions()
                seconds = timed(call)
                if preemptions() == before:
                    found[case][number, place] = seconds
                before = now if preemptions() == now else -1
        for place, step in enumerate(steps):
            step.call()
            for case, flush in step.flush.items():
                step.call()  # data that stay are hot
                before = preemptions()
                step.call()
                flush()
                seconds = timed(step.call)
                if preemptions() == before:
                    found[case][number, place] = seconds
    return found


def timed(call: Call) -> float:
    """Return the seconds of one call."""
    begin_s = time.perf_counter()
    call()
    return time.perf_counter() - begin_s


def row_of(name: str, runner: ModelRunner, times_of: Mapping[str, Array]) -> Row:
    """Return the row of a model: sums over its steps, of those that have a time in every case."""
    complete = np.all([np.isfinite(times).any(axis=0) for times in times_of.values()], axis=0)
    quartiles = {
        case: np.nanquantile(times[:, complete], (0.25, 0.5, 0.75), axis=0)
        for case, times in times_of.items()
    }
    hot_s = float(quartiles["hot"][1].sum())
    row: Row = {"bundle": name, "threads": runner.facts["threads"], "hot_s": hot_s}
    row |= {f"{area}_bytes": runner.facts["memory"][f"{area}_bytes"] for area in AREAS}
    row["code_bytes"] = sum(end - begin for begin, end in code_ranges())
    row |= {"steps": len(complete), "timed_steps": int(complete.sum())}
    for case in CASES:
        low, ratio, high = (float(one.sum()) / hot_s for one in quartiles[case])
        calls = int(np.isfinite(times_of[case]).sum())
        row[case] = {"ratio": ratio, "low": low, "high": high, "calls": calls}
    row["step_s"] = {c: [round(float(s), 9) for s in quartiles[c][1]] for c in CASES}
    return row


def page_of(rows: Sequence[Row]) -> str:
    """Return the Markdown page of the results."""
    heads = ["bundle", "threads", "steps timed", "weights packed", "hot", *CASES[1:]]

    def cells(row: Row) -> list[str]:
        told = [f"{row[c]['ratio']:.3f} ({row[c]['low']:.3f}-{row[c]['high']:.3f})" for c in CASES]
        size = f"{row['packed_bytes'] / 2**20:.1f} MiB"
        steps = f"{row['timed_steps']} of {row['steps']}"
        return [
            row["bundle"],
            str(row["threads"]),
            steps,
            size,
            f"{row['hot_s'] * 1e3:.2f} ms",
            *told[1:],
        ]

    return "\n".join(
        [
            "# Steps of models alone and inside the model",
            "",
            "By `benchmarks.models.cold_data`, which explains the columns: ratios to `hot`.",
            "",
            "| " + " | ".join(heads) + " |",
            "|" + "---|" * len(heads),
            *("| " + " | ".join(cells(row)) + " |" for row in rows),
            "",
        ]
    )


def main(words: Sequence[str] | None = None) -> None:
    """Measure bundles and write the results."""
    parser = argparse.ArgumentParser(description="Time steps of bundles with cold data.")
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULT)
    options = parser.parse_args(words)
    results = Results(
        options.out, ("bundle", "threads"), run_facts(options.threads, 0, rounds=options.rounds),
        fresh=False,
    )  # fmt: skip
    for path in options.bundles:
        with tempfile.TemporaryDirectory() as folder:
            runner = opened(path, Path(folder), options.threads)
            row = row_of(path.stem, runner, measure(steps_of(runner), options.rounds))
            row["threads"] = options.threads
            results.add(row)
    page = page_of(results.rows)
    publish(options.out, page)
    print(page)


if __name__ == "__main__":
    main()
