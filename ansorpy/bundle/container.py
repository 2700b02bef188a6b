"""The zip of a bundle: weights, one library, its header, the runner, and the manifest."""

import json
from collections.abc import Collection, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from ansorpy.artifact.kernel_file import below, caller_parts
from ansorpy.artifact.manifest import (
    BoundEntry,
    DimEntry,
    StateEntry,
    StepEntry,
    TensorEntry,
    ValueEntry,
    entry,
    picked,
)
from ansorpy.artifact.stored_zip import Buffer, write_zip
from ansorpy.bundle.driver import driver_prefix
from ansorpy.bundle.format import BUNDLE, HEADER, HOSTED, LIBRARY, RUNNER, SAMPLES, WEIGHTS
from ansorpy.bundle.header import model_header
from ansorpy.bundle.library import model_library
from ansorpy.bundle.memory import ModelMemory, memory_of
from ansorpy.bundle.plan import ModelPlan, SelfTest
from ansorpy.bundle.steps import CopyStep, HostedStep, KernelStep, Step
from ansorpy.bundle.tensor_file import TensorFile, raw, tensor_file
from ansorpy.graph.aliases import ALIGN_BYTES
from ansorpy.graph.graph import Array, ValueInfo, Weight
from ansorpy.records.record import parts_to_json
from ansorpy.te.dims import Dim, spread, spread_weights


def write_bundle(path: Path, plan: ModelPlan) -> Path:
    """Link the library of a model and write its bundle; equal plans give equal bytes.

    Raises:
        BuildError: the library cannot be linked.
        GraphError: values of a weight are not at hand.
        ValueError: the bundle would be larger than 4 GiB.
    """
    memory = memory_of(plan)
    prefix = driver_prefix(plan, memory)
    content: dict[str, Sequence[Buffer]] = {
        RUNNER: [runner_text().encode()],
        HEADER: [model_header(plan, memory, prefix).encode()],
        LIBRARY: [model_library(plan, memory, prefix)],
        WEIGHTS: stored(memory.weights, {n: plan.weights[n].array for n in memory.weights.order}),
    }
    if plan.hosted:
        content[HOSTED] = [hosted_text(plan).encode()]
    if plan.self_test is not None:
        given, made = (
            [plan.values[name] for name in names]
            for names in (plan.inputs, [output.value for output in plan.outputs])
        )
        content[SAMPLES] = samples_file(given, made, plan.self_test)
    return write_zip(path, content, manifest_of(plan, memory, prefix), BUNDLE)


def manifest_of(plan: ModelPlan, memory: ModelMemory, prefix: str) -> dict[str, Any]:
    """Return the fields of `model.json`, but for the digests of the files."""
    test = plan.self_test
    keys = output_keys([out.name for out in plan.outputs], plan.inputs)
    return {
        "name": plan.name,
        "inputs": [_tensor(plan, name, name) for name in plan.inputs],
        "outputs": [
            {**_tensor(plan, out.name, out.value), **key}
            for out, key in zip(plan.outputs, keys, strict=True)
        ],
        **({"dims": _dims(plan.dims)} if plan.dims else {}),
        **({"state": entry(StateEntry, plan.state)} if plan.state else {}),
        "threads": plan.threads,
        "prefix": prefix,
        "features": sorted({name for k in plan.kernels for name in k.library.features}),
        "native_steps": len(plan.steps) + bool(memory.copies),
        "tolerances": [0.0] * len(plan.outputs) if test is None else list(test.limits),
        "verified_against": test.oracle if test else "",
        "memory": {
            "weights_bytes": memory.weights.size_bytes,
            "packed_bytes": memory.packed_bytes,
            "arena_bytes": memory.arena.size_bytes,
            "arena_bound_bytes": memory.arena.bound_bytes,
            "arena_sum_bytes": memory.arena.sum_bytes,
            "arena_align_bytes": ALIGN_BYTES,
            "scratch_bytes": memory.scratch_bytes,
        },
        "values": {
            name: entry(ValueEntry, place, **_tensor(plan, name, name))
            for name, place in memory.places.items()
        },
        "steps": [_step(plan, step) for step in plan.steps],
        "kernels": [
            {
                **picked(kernel, "name", "workload"),
                **picked(kernel.library, "object_sha256", "prefix"),
                "best_s": kernel.best_s,
                **picked(kernel.library, "packed_bytes", "scratch_bytes"),
                "tasks": [phase.tasks for phase in kernel.library.phases],
            }
            for kernel in plan.kernels
        ],
        "source_sha256": plan.source_digest or None,
        "bound": bound_facts(plan.bound),
        "ansorpy": version("ansorpy"),
        **({"parts": parts_to_json(plan.parts)} if plan.parts else {}),
    }


def bound_facts(bound: Mapping[str, Weight]) -> list[BoundEntry]:
    """Return the manifest's entries of inputs that the model was made for a value of."""
    return [
        entry(BoundEntry, weight, name=name, value=weight.array.item())
        for name, weight in bound.items()
    ]


def _tensor(plan: ModelPlan, name: str, value: str) -> TensorEntry:
    info = plan.values[value]
    dims = tuple(one.name if isinstance(one, Dim) else "" for one in info.fixed_shape)
    return entry(
        TensorEntry, info, name=name, shape=info.fixed_shape, dims=dims if any(dims) else None
    )


def _dims(dims: Sequence[Dim]) -> list[DimEntry]:
    timed, weights = spread(dims), spread_weights(dims)
    return [
        entry(DimEntry, one, timed=[sizes[one.name] for sizes in timed], weights=weights)
        for one in dims
    ]


def output_keys(names: Sequence[str], inputs: Collection[str]) -> list[dict[str, str]]:
    """Return the manifest's `key` of each output that shares its name with an input."""
    taken = {*names, *inputs}
    keys = []
    for name in names:
        key = name
        while name in inputs and key in taken:
            key = f"{key} (output)"
        taken.add(key)
        keys.append({"key": key} if name in inputs else {})
    return keys


def _step(plan: ModelPlan, step: Step) -> StepEntry:
    match step:
        case KernelStep():
            return entry(StepEntry, step, plan.by_name[step.kernel])
        case HostedStep():
            return entry(StepEntry, step, attributes=json.loads(step.attributes))
        case CopyStep():
            rows = [[one.read, *map(_size, (one.start, one.goal, one.count))] for one in step.rows]
            return entry(StepEntry, step, rows=rows)


def _size(extent: int) -> int | str:
    """Return a number, or the name of a dim."""
    return extent.name if isinstance(extent, Dim) else extent


def samples_file(
    inputs: Sequence[ValueInfo], outputs: Sequence[ValueInfo], test: SelfTest
) -> Sequence[Buffer]:
    """Return the self-test's file: in0, in1 ..., out0, out1 ...; 1.in0 ... at other sizes."""
    infos, arrays = [], {}
    for number, case in enumerate((test, *test.others)):
        mark = f"{number}." if number else ""
        for kind, tensors, given in (("in", inputs, case.inputs), ("out", outputs, case.outputs)):
            for place, (info, array) in enumerate(zip(tensors, given, strict=True)):
                name = f"{mark}{kind}{place}"
                infos.append(ValueInfo(name, array.shape, info.dtype))
                arrays[name] = array
    return stored(tensor_file(infos), arrays)


def stored(file: TensorFile, arrays: Mapping[str, Array]) -> Sequence[Buffer]:
    """Return the parts of a file of tensors."""
    return [file.header, *(raw(arrays[name]) for name in file.order)]


def hosted_text(plan: ModelPlan) -> str:
    """Return `hosted.py`."""
    texts = [function.text.strip("\n") for function in plan.hosted]
    return "\n\n\n".join([_HOSTED_DOC, *texts]) + "\n"


def runner_text() -> str:
    """Return `model.py`, the same text in every bundle of a version."""
    parts = (("growing", _GROWING), ("runner", _MARKER))
    texts = [
        "# " + "-" * 30 + f" {name}\n" + below("ansorpy.bundle", f"{name}.py", marker).strip()
        for name, marker in parts
    ]
    return "\n\n\n".join([_RUNNER_DOC, *caller_parts(), *texts, _RUNNER_MAIN])


_GROWING: Final = "# --- growing: the same in every bundle ---\n"
_MARKER: Final = "# --- runner: the same in every bundle ---\n"
_HOSTED_DOC: Final = '''"""The steps of the model that run in NumPy."""

import math

import numpy as np'''
_RUNNER_DOC: Final = '''"""A whole model, called from Python: needs numpy and ctypes only.

    import model
    run = model.open_model(folder, threads=2).run
    outputs = run(*inputs)
    python model.py --selftest --bench [--threads N]
"""

import ctypes
import importlib.util
import json
import logging
import os
import weakref
from functools import partial
from pathlib import Path
from typing import Self'''
_RUNNER_MAIN: Final = """\
if __name__ == "__main__":
    raise SystemExit(main())
"""
