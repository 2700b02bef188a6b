"""Load a bundle as a callable model."""

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from math import prod
from os import PathLike
from pathlib import Path
from typing import Any, Final, Self

import numpy as np

from ansorpy.artifact import manifest
from ansorpy.artifact.arrays import importer_of, in_order, to_arrays
from ansorpy.artifact.elf import check_library
from ansorpy.artifact.folder import new_folder, remove
from ansorpy.artifact.harness import Array, DimSpec, TensorSpec, described, fits, stored_dtype
from ansorpy.artifact.package import open_plain
from ansorpy.artifact.stored_zip import opened
from ansorpy.bundle.check_dims import check_dims, check_state
from ansorpy.bundle.format import BUNDLE, GRAPH, HOSTED, LIBRARY, SAMPLES, WEIGHTS
from ansorpy.bundle.runner import ModelRunner, hosted_functions, marks
from ansorpy.bundle.state import LoadedState
from ansorpy.errors import PackageError

UNPICKLED: Final = 2  # models that a process keeps: a worker gets one of them with every call

Digests = tuple[tuple[str, str], ...]  # sha256 of every file of a bundle, by name


class LoadedModel:
    """A model of this process.

    Calling it takes arrays in the order of `inputs` or by their names, from NumPy or any library
    that speaks DLPack, and returns the same kind: an array, or a tuple if there are several. Calls
    of several threads may overlap; each thread has its own intermediates. A pickle of a model
    holds the path and the digests of its bundle, which is opened there again.
    """

    def __init__(self, runner: ModelRunner, path: Path) -> None:
        self._runner, self._path = runner, path.absolute()
        self.manifest: Mapping[str, Any] = runner.facts
        self.name: str = runner.facts["name"]

    @property
    def threads(self) -> int:
        """The number of threads of a call, with the caller's."""
        return self._runner.threads

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of each input, in order; bfloat16 arrays are uint16 bits."""
        return self._runner.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of each output, in order."""
        return self._runner.outputs

    @property
    def dims(self) -> tuple[DimSpec, ...]:
        """The extents that each call decides; `dims` of inputs and outputs name them by axis."""
        return tuple(self._runner.dims.values())

    @property
    def timed_weights(self) -> tuple[float, ...]:
        """The weights of `timed_samples` in a mean time; () if all are equal."""
        return next((dim.weights for dim in self.dims), ())

    @property
    def timed_samples(self) -> tuple[dict[str, Any], ...]:
        """The inputs of `sample` at each of the sizes that a model with dims is timed at."""
        rng = np.random.default_rng(0)
        drawn = [self._runner.random_inputs(rng, one) for one in self._runner.timed_sizes()]
        names = [tensor.name for tensor in self.inputs]
        return tuple(dict(zip(names, arrays, strict=True)) for arrays in drawn)

    def __call__(self, /, *inputs: Any, out: Any = None, **named: Any) -> Any:
        """Return the output array, or a tuple of several.

        Args:
            inputs: arrays in order, or one mapping of names to arrays.
            out: NumPy array (or tuple of arrays) to write to and return; new ones unless given.
                Beside arrays by keyword it is the input of this name, if there is one.
            named: arrays by name of the input.

        Raises:
            TypeError: a missing or unknown input, another dtype, or memory that cannot be read.
            ValueError: another shape, or a size out of its range; `out` is read-only or overlaps an
                input.
        """
        if out is not None and not inputs and any(one.name == "out" for one in self.inputs):
            out, named = None, {**named, "out": out}
        names = [tensor.name for tensor in self.inputs]
        given = in_order(self.name, names, inputs, named)
        out = tuple(out) if isinstance(out, list) else out
        arrays = to_arrays([(one.name, one.dtype) for one in self.inputs], given)
        result = self._runner.run(*arrays, out=out)
        if out is not None:
            return result
        imported = importer_of(given)
        return tuple(map(imported, result)) if isinstance(result, tuple) else imported(result)

    def prepare(self, *inputs: Any, out: Any = None) -> Any:
        """Return a function without arguments that runs on these very NumPy arrays.

        That is the fastest way to call a model. The arrays may change in place between calls.
        With `out`, and arrays that are contiguous, a call copies nothing.
        """
        return self._runner.prepare(*inputs, out=out)

    def state(self) -> LoadedState:
        """Return memory for inputs that the model gives back with more rows, such as a cache.

        Example:
            state = model.state()
            logits = state(ids, mask)  # in place of model(ids, *past, mask)

        Raises:
            ValueError: the model has no such inputs.
        """
        return LoadedState(self._runner.state(), self.name)

    def sample(self, sizes: Mapping[str, int] | None = None) -> dict[str, Any]:
        """Return the inputs of the stored self-test by name; random ones if there is none.

        Args:
            sizes: of all dims: parts of the inputs; the largest ones unless given.
        """
        arrays = self._runner.random_inputs(np.random.default_rng(0), sizes)
        return {tensor.name: a for tensor, a in zip(self.inputs, arrays, strict=True)}

    def selftest(self) -> list[str]:
        """Return one line per wrong output of the stored self-test; none if all are right.

        Raises:
            PackageError: it cannot be run.
        """
        try:
            return self._runner.selftest()
        except Exception as error:  # hosted functions are code of the bundle
            raise PackageError(f"cannot run the self-test of {self.name}: {error}") from error

    def bench(self, seconds: float = 1.0) -> list[float]:
        """Return the wall times of calls in seconds, fastest first."""
        return self._runner.bench(seconds)

    def profile(
        self, runs: int = 100, sizes: Sequence[Mapping[str, int]] | None = None
    ) -> list[float]:
        """Return the least time of every step in seconds, in the order of `manifest["steps"]`.

        If outputs are copied, one more time follows.

        Args:
            sizes: of all dims, over which a time is the mean; the timed ones unless given.
        """
        return self._runner.profile(runs, sizes)

    def bound(self) -> dict[str, Array]:
        """Return by name the inputs of the model's file whose value the bundle was made for."""
        return {
            one["name"]: np.full(one["shape"], one["value"], one["dtype"])
            for one in self.manifest.get("bound", ())
        }

    def close(self) -> None:
        """End the threads; no call may be running. Later calls run on their callers' threads."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, Digests, int]]:
        """Pickle the path, the digests and the threads; the weights stay in the bundle."""
        return _unpickled, (str(self._path), _digests(self.manifest), self.threads)

    def __repr__(self) -> str:
        given, made = (
            ", ".join(f"{t.name}: {t.dtype}{_shown(t, self._runner.dims)}" for t in tensors)
            for tensors in (self.inputs, self.outputs)
        )
        return f"<model {self.name}({given}) -> {made}>"


@lru_cache(UNPICKLED)
def _unpickled(path: str, digests: Digests, threads: int) -> LoadedModel:
    """Open the bundle of a pickle, once.

    Raises:
        PackageError: it is gone, or another one.
    """
    if not Path(path).exists():
        raise PackageError(
            f"cannot unpickle a model because {path} is gone; expected the bundle that it came from"
        )
    model = load_model(path, threads)
    if _digests(model.manifest) != digests:
        raise PackageError(
            f"cannot unpickle a model because {path} has other digests than when it was pickled;"
            " expected the same bundle"
        )
    return model


def _digests(facts: Mapping[str, Any]) -> Digests:
    return tuple((name, one["sha256"]) for name, one in facts["files"].items())


def load_model(
    path: PathLike[str] | str, threads: int | None = None, *, verify: bool = True
) -> LoadedModel:
    """Open a bundle. This runs its code: load only trusted files, and leave them unchanged.

    Weights are mapped, not read into memory, and packed once for the kernels.

    Args:
        threads: number of threads with the caller's; as tuned unless given. A bundle keeps to
            the threads of its tuning if the number is larger, with a warning in the log.
        verify: check the digest of the weights; digests of all other files are always checked.

    Raises:
        PackageError: a byte is not as it was packed, or this processor lacks a feature.
        ValueError: fewer than one thread.
    """
    if threads is not None and threads < 1:
        raise ValueError(f"cannot run a model on {threads} threads; expected at least 1")
    path = Path(path)
    place = path.name
    data = mapped(path)
    facts, files = opened(memoryview(data), place, BUNDLE, () if verify else (WEIGHTS,))
    manifest.check_fields(facts, manifest.MODEL, place)
    if GRAPH in files:
        raise PackageError(
            f"cannot load {place} because it has no weights; expected a bundle of"
            f" `ansorpy join {place} MODEL --out BUNDLE`"
        )
    missing = {LIBRARY, WEIGHTS} - set(files)
    if missing:
        raise PackageError(f"{place}: it has no {', '.join(sorted(missing))}")
    if len(files[WEIGHTS]) != facts["memory"]["weights_bytes"]:
        raise PackageError(f"{place}: its manifest tells another size of {WEIGHTS}")
    runner = _runner(facts, files, path, threads)
    data.madvise(mmap.MADV_DONTNEED)  # packed by now: the pages that steps read come back
    return LoadedModel(runner, path)


def _runner(
    facts: Mapping[str, Any], files: Mapping[str, memoryview], path: Path, threads: int | None
) -> ModelRunner:
    """Return the runner of a checked bundle; the folder of its library lasts as long."""
    check_library(bytes(files[LIBRARY]), f"{path.name}: {LIBRARY}")
    folder = new_folder()
    try:
        for name in {LIBRARY, HOSTED} & set(files):
            (folder / name).write_bytes(files[name])
        runner = ModelRunner(
            facts,
            ctypes.CDLL(str(folder / LIBRARY)),
            np.frombuffer(files[WEIGHTS], np.uint8),
            hosted_functions(folder, facts),
            threads,
            bytes(files.get(SAMPLES, b"")),
        )
        _check_places(facts, runner)
        LoadedModel(runner, path).bound()
        _check_self_test(runner)
    except Exception as error:  # the files are code of the bundle: they may raise anything
        remove(folder, os.getpid())
        raise PackageError(f"cannot load {path.name}: {error}") from error
    weakref.finalize(runner, remove, folder, os.getpid())
    return runner


def _check_places(facts: Mapping[str, Any], runner: ModelRunner) -> None:
    """Raise ValueError unless every value of a step lies within the memory that it is in."""
    memory, values = facts["memory"], facts["values"]
    tensors = (*runner.inputs, *runner.outputs)
    if len(runner.tensors) != len(tensors) + bool(runner.dims) + 2:
        raise ValueError("two tensors of its manifest have one name")
    check_dims(facts)
    areas = [_size_bytes(one.dtype, one.shape) for one in tensors] + [0] * bool(runner.dims)
    areas += [memory[f"{area}_bytes"] for area in ("weights", "packed", "arena", "scratch")]
    for name, one in values.items():
        area = one["argument"]
        end = one["at"] + _size_bytes(one["dtype"], one["shape"])
        if area >= len(areas) or end > areas[area]:
            raise ValueError(f"the place of {name!r} is not in its memory")
    if "state" in facts:
        check_state(facts["state"], runner)
    steps = facts["steps"]
    used = {name for step in steps for key in ("reads", "writes") for name in step[key]}
    if not used <= set(values) or facts["native_steps"] - len(steps) not in (0, 1):
        raise ValueError("its steps are not those of its values")


def _check_self_test(runner: ModelRunner) -> None:
    """Raise ValueError unless the self-test has the inputs and outputs of the model."""
    if len(runner.facts["tolerances"]) != len(runner.outputs):
        raise ValueError("its manifest has not a tolerance for each output")
    if runner.samples and not _is_self_test(runner):
        raise ValueError("its self-test has not the tensors of the model")


def _is_self_test(runner: ModelRunner) -> bool:
    """Return True if each stored case has all tensors; the first one has the largest sizes."""
    kinds = {
        f"{kind}{number}": one
        for kind, tensors in (("in", runner.inputs), ("out", runner.outputs))
        for number, one in enumerate(tensors)
    }
    samples, every = runner.samples, marks(runner.samples)
    if samples.keys() != {f"{mark}{name}" for mark in every for name in kinds}:
        return False
    for mark in every:
        sizes = {} if mark else {one.name: one.high for one in runner.dims.values()}
        for name, one in kinds.items():
            array = samples[f"{mark}{name}"]
            if array.dtype != stored_dtype(one.dtype):
                return False
            if not fits(one, array.shape, runner.dims, sizes):
                return False
    return True


def _shown(tensor: TensorSpec, dims: Mapping[str, DimSpec]) -> str:
    """Return a shape for people, with the ranges of its dims."""
    return f"[{str(described(tensor, dims, {}))[1:-1]}]" if tensor.dims else str(list(tensor.shape))


def _size_bytes(dtype: str, shape: Sequence[int]) -> int:
    return prod(shape) * int(stored_dtype(dtype).itemsize)


def mapped(path: Path) -> mmap.mmap:
    """Return a file as memory that is read only.

    Raises:
        PackageError: it cannot be read, or is no plain file.
    """
    with open_plain(path) as file:
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:  # ValueError: an empty file
            raise PackageError(f"cannot read {str(path)[:80]!r}: {error}") from error
