"""The runner of a bundle: NumPy and ctypes only.

The texts of the harness, of the calls of libraries and of this file, each below its marker line,
are copied into the bundle as `model.py`.
"""

import argparse
import ctypes
import importlib.util
import json
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ansorpy.artifact.harness import (
    Array,
    Bound,
    DimSpec,
    Runner,
    TensorSpec,
    Test,
    aligned_copy,
    by_rows,
    fresh,
    region,
    stored_dtype,
    widened,
)
from ansorpy.artifact.library_calls import Pool, addresses_of, function_of
from ansorpy.bundle.growing import ModelState

# --- runner: the same in every bundle ---

Hosted = Callable[..., Sequence[Any]]


class ModelRunner(Runner):
    """Runs the steps of a model on arrays.

    Args:
        facts: the manifest, `model.json`.
        library: the opened `libmodel.so`.
        weights: uint8, the bytes of `weights.safetensors`, at a multiple of 64 bytes.
        functions: the hosted functions, by name.
        threads: number of threads with the caller's; as tuned if None, or if it is larger.
        samples: the bytes of `selftest.safetensors`; b"": there is no self-test.

    Raises:
        RuntimeError: this processor lacks a feature that a kernel needs, or the library is not of
            this manifest.
    """

    def __init__(
        self,
        facts: Mapping[str, Any],
        library: ctypes.CDLL,
        weights: Array,
        functions: Mapping[str, Hosted],
        threads: int | None,
        samples: bytes = b"",
    ) -> None:
        self.facts, self.weights, self.functions = facts, weights, functions
        prefix, memory = facts["prefix"], facts["memory"]
        if not getattr(library, f"{prefix}_supported")():
            needed = ", ".join(facts["features"])
            raise RuntimeError(f"cannot run the model because this processor lacks one of {needed}")
        _check_sizes(facts, library)
        self.threads = threads_of(facts, threads)
        self.pool = Pool(library, prefix, self.threads) if self.threads != 1 else None
        self.packed = fresh((memory["packed_bytes"],), "uint8")
        scratch = fresh((memory["scratch_bytes"],), "uint8")
        prepare = function_of(library, f"{prefix}_prepare", *[ctypes.c_void_p] * 3)
        prepare(weights.ctypes.data, self.packed.ctypes.data, scratch.ctypes.data)
        pointers, bounds = [ctypes.c_void_p] * 2, [ctypes.c_int64] * 2
        self._run_steps = function_of(library, f"{prefix}_run_steps", *pointers, *bounds)
        self._hosts = [k for k, step in enumerate(facts["steps"]) if "function" in step]
        self._run = None if self._hosts else function_of(library, f"{prefix}_run", *pointers)
        self.samples = read_tensors(samples) if samples else {}
        tensors = [
            *(_tensor(one, "input") for one in facts["inputs"]),
            *(_tensor(one, "output") for one in facts["outputs"]),
        ]
        names = [tensor.name for tensor in tensors]
        given, results = len(facts["inputs"]), len(facts["outputs"])
        longest = max(names, key=len)  # no tensor of the model has a longer name
        dims = dims_of(facts)
        if dims:
            tensors.append(TensorSpec(f"{longest} sizes", "int64", (len(dims),), "sizes"))
        tensors += [
            TensorSpec(f"{longest} {area}", "uint8", (memory[f"{area}_bytes"],), "scratch")
            for area in ("arena", "scratch")
        ]
        super().__init__(
            tensors, names[:given], names[given : given + results], {}, self._launch, _nothing,
            self._expected, Test(-1.0, 1.0, tuple(facts["tolerances"]), 0), 0, dims=dims,
        )  # fmt: skip

    def close(self) -> None:
        """End the threads; no call may be running. Later calls run on their callers' threads."""
        if self.pool is not None:
            self.pool.close()

    def bound(self, arrays: Sequence[Array]) -> Callable[[], None]:
        """Return a call without arguments that runs all steps on these arrays."""
        order = self.arguments(arrays)
        words = addresses_of(order)
        if self._run is not None:
            calls: list[Callable[[], None]] = [partial(self._run, words, self.pool)]
        else:
            # Ranges of native steps; every hosted step divides them.
            ends = [*self._hosts, self.facts["native_steps"]]
            begins = [0, *(k + 1 for k in self._hosts)]
            calls = []
            for begin, end in zip(begins, ends, strict=True):
                calls.append(partial(self._run_steps, words, self.pool, begin, end))
                if end in self._hosts:
                    calls.append(self._hosted(self.facts["steps"][end], order))

        def call(_alive: object = order) -> None:
            for each in calls:
                each()

        return call

    def state(self) -> ModelState:
        """Return memory for inputs to which the model appends rows, such as a cache.

        Raises:
            ValueError: the model appends to no input that it gives back.
        """
        return ModelState(self, self.facts)

    def profile(
        self, runs: int = 100, sizes: Sequence[Mapping[str, int]] | None = None
    ) -> list[float]:
        """Return the least time of every step in seconds, in runs of the whole model.

        Each includes a call from Python, about a microsecond. A last, further step copies outputs
        if any are copies. With dims, a time is the mean over sizes; unless given, these are the
        timed ones with their weights.
        """
        rng, every = np.random.default_rng(0), self.timed_sizes() if sizes is None else sizes
        told = next((dim.weights for dim in self.dims.values()), ()) if sizes is None else ()
        weights = told or (1.0,) * len(every)
        means_s = [0.0] * self.facts["native_steps"]
        for at, weight in zip(every, weights, strict=True):
            inputs = [aligned_copy(one) for one in self.random_inputs(rng, at)]
            calls = self.steps(self.arguments(Bound(self, {}, inputs, None).ordered()))
            least_s = [math.inf] * len(calls)
            for _ in range(max(2, runs)):
                for number, call in enumerate(calls):
                    begin_s = time.perf_counter()
                    call()
                    least_s[number] = min(least_s[number], time.perf_counter() - begin_s)
            share = weight / sum(weights)
            means_s = [sum_s + share * one for sum_s, one in zip(means_s, least_s, strict=True)]
        return means_s

    def steps(self, order: Sequence[Array]) -> list[Callable[[], None]]:
        """Return a call of every step, and of the copies if there are any, on `arguments`."""
        words, steps = addresses_of(order), self.facts["steps"]

        def native(number: int, _alive: object = order) -> None:
            self._run_steps(words, self.pool, number, number + 1)

        return [
            self._hosted(steps[k], order) if k in self._hosts else partial(native, k)
            for k in range(self.facts["native_steps"])
        ]

    def arguments(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the arguments of the driver; `arrays` are inputs, outputs, arena and scratch."""
        arena, scratch = arrays[-2:]
        return [*arrays[:-2], self.weights, self.packed, arena, scratch]

    def _launch(self, *arrays: Array) -> None:
        self.bound(arrays)()

    def _hosted(self, step: Mapping[str, Any], order: Sequence[Array]) -> Callable[[], None]:
        """Return a call of a hosted step on views of the driver's arguments."""
        function = self.functions[step["function"]]
        at = len(self.inputs) + len(self.outputs)
        sizes = dict(zip(self.dims, order[at].tolist(), strict=True)) if self.dims else {}
        reads, writes = (
            [self._view(name, order, sizes) for name in step[key]] for key in ("reads", "writes")
        )
        attributes = step["attributes"]

        def call() -> None:
            results = [np.asarray(one) for one in function(reads, **attributes)]
            if [(r.dtype, r.shape) for r in results] != [(w.dtype, w.shape) for w in writes]:
                wanted = ", ".join(f"{w.dtype}{list(w.shape)}" for w in writes)
                got = ", ".join(f"{r.dtype}{list(r.shape)}" for r in results)
                raise RuntimeError(
                    f"cannot go on because hosted function {step['function']} returned {got};"
                    f" expected {wanted}"
                )
            for goal, result in zip(writes, results, strict=True):
                np.copyto(goal, result)

        return call

    def _view(self, name: str, order: Sequence[Array], sizes: Mapping[str, int]) -> Array:
        """Return a value of a step at some sizes of dims, where it lies."""
        value = self.facts["values"][name]
        tensor = _tensor(value, "scratch")
        kind, at, shape = stored_dtype(tensor.dtype), value["at"], self.shape_of(tensor, sizes)
        place = shape if by_rows(tensor) else tensor.shape
        size_bytes = math.prod(place) * kind.itemsize
        whole = order[value["argument"]].reshape(-1).view(np.uint8)
        found: Array = whole[at : at + size_bytes].view(kind).reshape(place)
        return region(found, shape)

    def random_inputs(
        self, rng: np.random.Generator, sizes: Mapping[str, int] | None = None
    ) -> list[Array]:
        """Return the inputs of the self-test, parts of them at smaller sizes; else random ones."""
        drawn = super().random_inputs(rng, sizes)
        stored = [self.samples.get(f"in{k}") for k in range(len(self.inputs))]
        return [
            d if s is None else region(s, d.shape) if sizes else s
            for s, d in zip(stored, drawn, strict=True)
        ]

    def selftest(self) -> list[str]:
        """Return one line per wrong output; none if all are within their tolerances."""
        if not self.samples:
            return ["this bundle has no self-test"]
        found: list[str] = []
        for mark in marks(self.samples):
            inputs = [self.samples[f"{mark}in{k}"] for k in range(len(self.inputs))]
            found += self.mistakes(inputs, exact=False)
        return found

    def _expected(self, inputs: list[Array], _constants: list[Array]) -> tuple[Array, ...]:
        """Return the stored outputs of the case of these shapes."""
        shapes = [one.shape for one in inputs]
        count = range(len(self.inputs))
        mark = next(
            mark
            for mark in marks(self.samples)
            if [self.samples[f"{mark}in{k}"].shape for k in count] == shapes
        )
        stored = [self.samples[f"{mark}out{k}"] for k in range(len(self.outputs))]
        return tuple(widened(a, t.dtype) for a, t in zip(stored, self.outputs, strict=True))


def dims_of(facts: Mapping[str, Any]) -> list[DimSpec]:
    """Return the dims of a model by its manifest."""
    return [
        DimSpec(
            one["name"],
            one["low"],
            one["high"],
            tuple(one["timed"]),
            one["step"],
            tuple(one["weights"]),
            tuple(one.get("terms", ())),
        )
        for one in facts.get("dims", ())
    ]


def marks(samples: Mapping[str, Array]) -> list[str]:
    """Return the beginnings of names in a self-test, one per case: "", "1.", "2." ..."""
    first = [name.rpartition("in0")[0] for name in samples if name.endswith("in0")]
    return sorted(first, key=lambda mark: (len(mark), mark)) if first else [""]


def _check_sizes(facts: Mapping[str, Any], library: ctypes.CDLL) -> None:
    """Raise RuntimeError unless the library takes memory of the sizes that the manifest tells."""
    memory = facts["memory"]
    sizes = [memory[f"{area}_bytes"] for area in ("weights", "packed", "arena", "scratch")]
    for one in (*facts["inputs"], *facts["outputs"]):
        sizes.append(math.prod(one["shape"]) * stored_dtype(one["dtype"]).itemsize)
    sizes.append(facts["native_steps"])
    dims = dims_of(facts)
    numbers = {"": 0, **{dim.name: 1 + k for k, dim in enumerate(dims)}}
    for dim in dims:
        sizes += [dim.low, dim.high, dim.step]
    for one in (*facts["inputs"], *facts["outputs"]):
        if dims:
            sizes += [numbers[name] for name in one.get("dims", [""] * len(one["shape"]))]
    symbol = f"{facts['prefix']}_sizes"
    count = ctypes.c_int64.in_dll(library, symbol).value
    found = list((ctypes.c_int64 * (1 + count)).in_dll(library, symbol))
    if found[1:] != sizes:
        raise RuntimeError("cannot run the model because model.json is not that of libmodel.so")


def _tensor(facts: Mapping[str, Any], role: str) -> TensorSpec:
    # A model may give an input back under its own name: outputs have keys of their own.
    name = facts["name"] if role == "input" else facts.get("key", facts["name"])
    dims = tuple(facts.get("dims", ()))
    return TensorSpec(name, facts["dtype"], tuple(facts["shape"]), role, None, dims)


def _nothing(*_arrays: Array) -> None:
    """Do no work ahead: weights were packed when the model was opened."""


def read_tensors(data: bytes) -> dict[str, Array]:
    """Return the arrays of a file in the layout of safetensors."""
    size = int.from_bytes(data[:8], "little")
    kinds = {
        "BOOL": "bool", "I8": "int8", "U8": "uint8", "I16": "int16", "U16": "uint16",
        "I32": "int32", "U32": "uint32", "I64": "int64", "U64": "uint64",
        "F16": "float16", "BF16": "uint16", "F32": "float32", "F64": "float64",
    }  # fmt: skip
    found = {}
    for name, facts in json.loads(data[8 : 8 + size]).items():
        begin, end = (8 + size + at for at in facts["data_offsets"])
        array: Array = np.frombuffer(data[begin:end], kinds[facts["dtype"]])
        found[name] = array.reshape(facts["shape"])
    return found


def hosted_functions(folder: Path, facts: Mapping[str, Any]) -> dict[str, Hosted]:
    """Return the functions of `hosted.py` that the steps name."""
    names = {step["function"] for step in facts["steps"] if "function" in step}
    if not names:
        return {}
    spec = importlib.util.spec_from_file_location(f"{facts['prefix']}_hosted", folder / "hosted.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {name: getattr(module, name) for name in names}


def threads_of(facts: Mapping[str, Any], asked: int | None) -> int:
    """Return the threads of a bundle: those asked for, at most those that it was tuned for.

    A step is divided into tasks for the tuned threads: more would only wait.
    """
    tuned: int = facts["threads"]
    if asked is None or asked <= tuned:
        return tuned if asked is None else asked
    logging.getLogger(__name__).warning(
        "%s was tuned for %d thread%s and runs on as many; expected a tuning with cores=%d",
        facts["name"], tuned, "" if tuned == 1 else "s", asked,
    )  # fmt: skip
    return tuned


def open_model(folder: Path, threads: int | None = None) -> ModelRunner:
    """Return the runner of an unpacked bundle.

    Args:
        threads: as tuned unless given, and at most as many.
    """
    facts = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    samples, weights = folder / "selftest.safetensors", folder / "weights.safetensors"
    if weights.stat().st_size != facts["memory"]["weights_bytes"]:
        raise RuntimeError("cannot run the model because weights.safetensors is of another one")
    return ModelRunner(
        facts,
        ctypes.CDLL(str(folder / "libmodel.so")),
        np.memmap(weights, np.uint8, "r"),
        hosted_functions(folder, facts),
        threads,
        samples.read_bytes() if samples.exists() else b"",
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line on the folder of this file; return the exit code."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--threads", type=int, help="number of threads; as tuned unless given")
    options, rest = parser.parse_known_args(arguments)
    return open_model(Path(__file__).parent, options.threads).main(rest)
