"""The harness of a delivered kernel: calls on arrays, self-test and benchmark.

`simd.py` and `native.py` of a zip hold a copy of it; so it needs numpy and the standard library
only, and nothing of ansorpy.
"""

# --- harness: the same in every kernel zip ---
import argparse
import importlib.util
import math
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

Array = np.ndarray[Any, Any]
ALIGN_BYTES = 64
READY = " ready"  # key of a room whose work on constants is done (no tensor has this name)


class TensorSpec(NamedTuple):
    """One buffer of the kernel. `role`: input, weight, constant, output, scratch or sizes.

    `span` is the range (first, last + 1) of random integers for an input that chooses indices.
    `dims` has, for each axis, the name of the dim that is its extent, or "": `shape` then has the
    largest size.
    """

    name: str
    dtype: str  # bfloat16 arrays are uint16 bit patterns
    shape: tuple[int, ...]
    role: str
    span: tuple[int, int] | None = None
    dims: tuple[str, ...] = ()


class DimSpec(NamedTuple):
    """An extent that each call decides: a multiple of `step` from `low` to `high`.

    `timed` are the sizes of a race, `weights` the weights of their times; (): all are equal.
    """

    name: str
    low: int
    high: int
    timed: tuple[int, ...]
    step: int = 1
    weights: tuple[float, ...] = ()
    terms: tuple[str | int, ...] = ()  # dims and numbers whose sum it is

    def __str__(self) -> str:
        step = f" step {self.step}" if self.step > 1 else ""
        return f"{self.name} in {self.low}..{self.high}{step}"

    def has(self, size: int) -> bool:
        """Return True if a call may have this size."""
        return self.low <= size <= self.high and size % self.step == 0


class Test(NamedTuple):
    """Inputs of the self-test, and tolerances against the float64 reference.

    `tolerances` (one per output) bound the rounding of the kernel's dtype on these inputs, in any
    order of summation. If `magnitude` is not 0, integers up to it make every step exact, and the
    results must be equal.
    """

    low: float
    high: float
    tolerances: tuple[float, ...]
    magnitude: int


class Raced(NamedTuple):
    """The time of one call in the final race, as in `manifest.json`; 0: there was no race.

    `unit` is the unit of operations per second; "": the rate is beyond the machine's peak.
    """

    best_s: float
    unit: str


UNRACED = Raced(0.0, "GFLOP/s")


def stored_dtype(dtype: str) -> Any:
    """Return the NumPy dtype of arrays of `dtype`."""
    return np.dtype("uint16" if dtype == "bfloat16" else dtype)


def as_passed(array: Array) -> Array:
    """Return an array as the phases take it: the bits of float16, which numba does not know."""
    return array.view(np.uint16) if array.dtype == np.float16 else array


def fresh(shape: tuple[int, ...], dtype: str) -> Array:
    """Return an uninitialised array that starts at a multiple of 64 bytes."""
    kind = stored_dtype(dtype)
    raw = np.empty(math.prod(shape) * kind.itemsize + ALIGN_BYTES, np.uint8)
    return np.ndarray(shape, kind, raw, -raw.ctypes.data % ALIGN_BYTES)


def usable(array: Array) -> bool:
    """Return True if a kernel can read an array in place: contiguous, with aligned elements."""
    return bool(array.flags.c_contiguous and array.flags.aligned)


def aligned_copy(array: Array) -> Array:
    """Return an array that begins at a multiple of 64 bytes: itself, or a copy."""
    if usable(array) and array.ctypes.data % ALIGN_BYTES == 0:
        return array
    copy = fresh(array.shape, str(array.dtype))
    copy[...] = array
    return copy


def region(whole: Array, shape: tuple[int, ...]) -> Array:
    """Return the part of a tensor's memory that an array of a shape takes, by the sizes of dims."""
    return whole if whole.shape == shape else whole[tuple(map(slice, shape))]


@lru_cache(1024)  # asked of every tensor in every call
def by_rows(tensor: TensorSpec) -> bool:
    """Return True if a smaller array is the start of the whole one: its first long axis varies."""
    if not tensor.dims:
        return True
    varied = [axis for axis, dim in enumerate(tensor.dims) if dim]
    return len(varied) == 1 and all(extent == 1 for extent in tensor.shape[: varied[0]])


def kept(room: dict[str, Any], tensor: TensorSpec) -> Array:
    """Return the memory for a tensor in a room, made the first time."""
    if tensor.name not in room:
        room[tensor.name] = fresh(tensor.shape, tensor.dtype)
    array: Array = room[tensor.name]
    return array


def refill(goal: Array, source: Array) -> None:
    """Copy, unless both are the same array; memory of a tensor may be larger than the array."""
    if goal is not source:
        least = tuple(map(slice, map(min, goal.shape, source.shape)))
        goal[least] = source[least]


def matched(
    tensors: Sequence[TensorSpec],
    given: Sequence[Any],
    place: str = "",
    dims: Mapping[str, DimSpec] = MappingProxyType({}),
    sizes: dict[str, int] | None = None,
) -> list[tuple[TensorSpec, Array]]:
    """Return tensors and the arrays given for them, of the right dtypes and shapes.

    Args:
        sizes: of dims, which the first array with each of them tells.
    """
    sizes = {} if sizes is None else sizes
    if len(given) != len(tensors):
        names = ", ".join(tensor.name for tensor in tensors)
        count = f"{len(given)} arrays were given{place}"
        raise TypeError(f"cannot run because {count}; expected {len(tensors)}: {names}")
    pairs = list(zip(tensors, map(np.asarray, given), strict=True))
    for tensor, array in pairs:
        name = f"cannot run because {tensor.name}{place}"
        if array.dtype != stored_dtype(tensor.dtype):
            raise TypeError(f"{name} has dtype {array.dtype}; expected {tensor.dtype}")
        if not fits(tensor, array.shape, dims, sizes):
            expected = described(tensor, dims, sizes)
            raise ValueError(f"{name} has shape {array.shape}; expected {expected}")
    return pairs


def fits(
    tensor: TensorSpec, shape: tuple[int, ...], dims: Mapping[str, DimSpec], sizes: dict[str, int]
) -> bool:
    """Return True if an array has the shape of a tensor; the sizes of new dims are noted."""
    if not tensor.dims or len(shape) != len(tensor.shape):
        return shape == tensor.shape
    for name, size, extent in zip(tensor.dims, shape, tensor.shape, strict=True):
        if not name:
            if size != extent:
                return False
        elif not dims[name].has(size) or sizes.setdefault(name, size) != size:
            return False
    return True


def add_sums(dims: Mapping[str, DimSpec], sizes: dict[str, int]) -> None:
    """Note the sizes of dims that are sums of others; an array may have told them."""
    for dim in dims.values():
        if dim.terms:
            total = sum(sizes[term] if isinstance(term, str) else term for term in dim.terms)
            if sizes.setdefault(dim.name, total) != total:
                terms = " + ".join(map(str, dim.terms))
                told = f"{dim.name} is {sizes[dim.name]}"
                raise ValueError(f"cannot run because {told}; expected {terms} = {total}")


def described(
    tensor: TensorSpec, dims: Mapping[str, DimSpec], sizes: Mapping[str, int]
) -> tuple[int, ...] | str:
    """Return the shape that a call expects of an array."""
    if not tensor.dims:
        return tensor.shape

    def extent(name: str, most: int) -> str:
        if name in sizes:
            return f"{name} = {sizes[name]}"
        return str(dims[name]) if name else str(most)

    return f"({', '.join(map(extent, tensor.dims, tensor.shape))})"


def placed(
    room: dict[str, Any], pairs: Sequence[tuple[TensorSpec, Array]]
) -> list[tuple[TensorSpec, Array, Array]]:
    """Return every array with the array for the kernel: itself, or a copy's memory."""
    return [
        (t, array if usable(array) and by_rows(t) else kept(room, t), array) for t, array in pairs
    ]


def widened(array: Array, dtype: str) -> Array:
    """Return an array for the reference: floats as float64, other dtypes as they are."""
    if dtype == "bfloat16":
        return (array.astype(np.uint32) << np.uint32(16)).view(np.float32).astype(np.float64)
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def narrowed(values: Array, dtype: str) -> Array:
    """Return values in the dtype of an input."""
    if dtype == "bfloat16":
        bits = np.ascontiguousarray(values, np.float32).view(np.uint32).reshape(np.shape(values))
        odd = (bits >> np.uint32(16)) & np.uint32(1)
        return ((bits + np.uint32(0x7FFF) + odd) >> np.uint32(16)).astype(np.uint16)
    return values.astype(stored_dtype(dtype))


class Bound:
    """A call of a kernel on these arrays; `room` holds, by name, memory that may be reused."""

    def __init__(
        self, runner: "Runner", room: dict[str, Any], inputs: Sequence[Any], out: Any
    ) -> None:
        self.runner, self.out, self.begun = runner, out, False
        self.sizes = dict[str, int]()
        self.given = placed(room, matched(runner.inputs, inputs, "", runner.dims, self.sizes))
        add_sums(runner.dims, self.sizes)
        self.wanted = [] if out is None else placed(room, self._targets())
        self.arrays = dict(runner.constants)
        self.arrays |= {tensor.name: own for tensor, own, _ in (*self.given, *self.wanted)}
        for tensor in runner.tensors.values():
            if tensor.role == "sizes":
                self.arrays[tensor.name] = np.array([self.sizes[n] for n in runner.dims], np.int64)
        self._renew()
        for _, own, array in self.given:
            refill(own, array)
        for tensor in runner.tensors.values():
            if tensor.name not in self.arrays:
                self.arrays[tensor.name] = kept(room, tensor)
        if runner.weighted or READY not in room:  # work on constants only is done once
            runner.ahead(*self.ordered())
            room[READY] = True

    def into_out(self) -> Callable[[], Any] | None:
        """Return the bare call, between copies of arrays that need them; None without `out`."""
        if self.out is None:
            return None
        launch, out = self.runner.bound(self.ordered()), self.out
        copied = [(region(own, a.shape), a, t) for t, own, a in self.given if own is not a]
        before = [(own, array) for own, array, t in copied if t.role != "weight"]
        after = [(a, region(own, a.shape)) for _, own, a in self.wanted if own is not a]

        def call() -> Any:
            launch()
            return out

        def copying_call() -> Any:
            for goal, source in before:
                np.copyto(goal, source)
            launch()
            for goal, source in after:
                np.copyto(goal, source)
            return out

        return copying_call if before or after else call

    def __call__(self) -> Any:
        """Run; return the results."""
        if self.begun:
            self._renew()
            for tensor, own, array in self.given:
                if tensor.role != "weight":
                    refill(own, array)
        self.begun = True
        self.runner.launch(*self.ordered())
        for _, own, array in self.wanted:
            refill(array, own)
        if self.out is not None:
            return self.out
        results = tuple(map(self._result, self.runner.outputs))
        return results if len(results) > 1 else results[0]

    def _result(self, tensor: TensorSpec) -> Array:
        """Return an output of the caller's own: memory of largest sizes is kept for other calls."""
        array = region(self.arrays[tensor.name], self.runner.shape_of(tensor, self.sizes))
        return array if by_rows(tensor) else array.copy()

    def ordered(self) -> list[Array]:
        """Return the arrays of a call, in the order of the runner's tensors."""
        return [as_passed(self.arrays[name]) for name in self.runner.tensors]

    def _renew(self) -> None:
        """Make new result arrays, unless `out` was given: earlier results stay unchanged."""
        if self.out is None:
            for tensor in filter(by_rows, self.runner.outputs):
                shape = self.runner.shape_of(tensor, self.sizes)
                self.arrays[tensor.name] = fresh(shape, tensor.dtype)

    def _targets(self) -> list[tuple[TensorSpec, Array]]:
        """Return the arrays for the results; none may overlap an input or another one."""
        out = self.out if isinstance(self.out, tuple) else (self.out,)
        if not all(isinstance(each, np.ndarray) for each in out):
            raise TypeError("cannot run because out has other objects; expected NumPy arrays")
        pairs = matched(self.runner.outputs, out, " in out", self.runner.dims, self.sizes)
        for place, (tensor, array) in enumerate(pairs):
            name = f"cannot run because {tensor.name} in out"
            if not array.flags.writeable:
                raise ValueError(f"{name} is read-only; expected an array to write to")
            if any(np.may_share_memory(array, read) for _, _, read in self.given):
                raise ValueError(f"{name} overlaps an input; expected memory of its own")
            for other, earlier in pairs[:place]:
                if np.may_share_memory(array, earlier):
                    raise ValueError(f"{name} overlaps {other.name}; expected memory of its own")
        return pairs


class Runner:
    """Calls the phases of one kernel on arrays.

    Args:
        tensors: every buffer, in the order in which `launch` and `ahead` take the arrays.
        inputs, outputs: names, in the order of `run` and of its results.
        launch, ahead: the timed phases; those that depend on weights and constants only.
        reference: (inputs, constants) -> outputs, in float64.
        dims: the extents that a call decides.
    """

    def __init__(
        self,
        tensors: Sequence[TensorSpec],
        inputs: Sequence[str],
        outputs: Sequence[str],
        constants: Mapping[str, Array],
        launch: Callable[..., None],
        ahead: Callable[..., None],
        reference: Callable[[list[Array], list[Array]], tuple[Array, ...]],
        test: Test,
        flop: int,
        raced: Raced = UNRACED,
        dims: Sequence[DimSpec] = (),
    ) -> None:
        self.dims = {dim.name: dim for dim in dims}
        self.tensors = {tensor.name: tensor for tensor in tensors}
        self.inputs = tuple(self.tensors[name] for name in inputs)
        self.outputs = tuple(self.tensors[name] for name in outputs)
        self.constants = {name: aligned_copy(values) for name, values in constants.items()}
        self.weighted = any(tensor.role == "weight" for tensor in self.inputs)
        self.rooms = threading.local()
        self.launch, self.ahead = launch, ahead
        self.reference, self.test, self.flop, self.raced = reference, test, flop, raced

    def run(self, *inputs: Any, out: Any = None) -> Any:
        """Return the output array, or a tuple if there are several.

        Every thread keeps its memory for intermediates, and for copies of inputs, between calls.

        Args:
            out: the array (or tuple of arrays) to write to and return; new ones unless given.
                Contiguous arrays are not copied; arrays of `fresh`, at multiples of 64
                bytes, are fastest.

        Raises:
            TypeError: another number of arrays, another dtype, or `out` is no NumPy array.
            ValueError: another shape; `out` may not be written to, or overlaps an input or itself.
        """
        return Bound(self, self.rooms.__dict__, inputs, out)()

    def prepare(self, *inputs: Any, out: Any = None) -> Callable[[], Any]:
        """Return a function without arguments that runs on these very arrays, as `run` does.

        Work that depends on weights and constants only is done here, once; the arrays may change
        in place between calls, weights may not. An array that is not contiguous is copied at
        every call; arrays of `fresh`, at multiples of 64 bytes, are fastest.
        """
        bound = Bound(self, {}, inputs, out)
        bound.begun = True  # arrays may change before the first call
        return bound.into_out() or bound

    def bound(self, arrays: Sequence[Array]) -> Callable[[], None]:
        """Return `launch` on these arrays, as a function without arguments."""
        return lambda: self.launch(*arrays)

    def timed_sizes(self) -> list[dict[str, int]]:
        """Return the sizes of dims at which the kernel was timed, the largest last."""
        count = max((len(dim.timed) for dim in self.dims.values()), default=1)
        return [{name: dim.timed[k] for name, dim in self.dims.items()} for k in range(count)]

    def tested_sizes(self) -> list[dict[str, int]]:
        """Return the sizes of the self-test: those at which it was timed, and both ends."""
        found = self.timed_sizes()
        ends = [(dim.low, dim.high) for dim in self.dims.values()]
        every = [dict(zip(self.dims, sizes, strict=True)) for sizes in zip(*ends, strict=True)]
        return found + [sizes for sizes in every if sizes not in found]

    def shape_of(self, tensor: TensorSpec, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """Return the shape of an array at some sizes of dims."""
        if not tensor.dims:
            return tensor.shape
        return tuple(map(sizes.get, tensor.dims, tensor.shape))

    def random_inputs(
        self, rng: np.random.Generator, sizes: Mapping[str, int] | None = None
    ) -> list[Array]:
        """Return floats uniform in [test.low, test.high), integers over a wide range."""
        spans = {"int8": (-128, 128), "uint8": (0, 256), "bool": (0, 2)}
        drawn = []
        for tensor in self.inputs:
            low = 0 if tensor.dtype.startswith("uint") else -1000
            span = tensor.span or spans.get(tensor.dtype, (low, 1000))
            shape = self.shape_of(tensor, sizes or {})
            values: Any = rng.integers(*span, shape)
            if stored_dtype(tensor.dtype).kind == "f" or tensor.dtype == "bfloat16":
                values = rng.uniform(self.test.low, self.test.high, shape)
            drawn.append(narrowed(np.asarray(values), tensor.dtype))
        return drawn

    def integer_inputs(
        self, rng: np.random.Generator, sizes: Mapping[str, int] | None = None
    ) -> list[Array]:
        """Return integers of at most test.magnitude."""
        most = self.test.magnitude
        drawn = []
        for tensor in self.inputs:
            low, high = (0, 1) if tensor.dtype == "bool" else (-most, most)
            low = 0 if tensor.dtype.startswith("uint") else low
            values = np.asarray(rng.integers(low, high + 1, self.shape_of(tensor, sizes or {})))
            drawn.append(narrowed(values, tensor.dtype))
        return drawn

    def mistakes(self, inputs: list[Array], exact: bool) -> list[str]:
        """Run once and compare with the reference; return one line per wrong output."""
        before = [array.copy() for array in inputs]
        results = self.run(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        wide = [widened(a, t.dtype) for a, t in zip(inputs, self.inputs, strict=True)]
        fixed = [
            widened(values, self.tensors[name].dtype) for name, values in self.constants.items()
        ]
        wanted = self.reference(wide, fixed)
        mistakes = [
            f"input {tensor.name} was changed"
            for tensor, old, new in zip(self.inputs, before, inputs, strict=True)
            if old.tobytes() != new.tobytes()  # bits: NaN is equal to itself
        ]
        limits = (0.0,) * len(wanted) if exact else self.test.tolerances
        for tensor, result, want, limit in zip(self.outputs, results, wanted, limits, strict=True):
            got = widened(result, tensor.dtype)
            with np.errstate(invalid="ignore"):
                error = np.abs(got.astype(np.float64) - want.astype(np.float64))
            right = (error <= limit) | (got == want) | ((got != got) & (want != want))
            if not np.all(right):
                at = tuple(int(i) for i in np.argwhere(~right)[0])
                mistakes.append(
                    f"{tensor.name}{list(at)}: {got[at]!r}, expected {want[at]!r} +- {limit:.3g}"
                    f" ({int(np.sum(~right))} of {right.size} wrong)"
                )
        return mistakes

    def selftest(self) -> list[str]:
        """Return one line per wrong output; none if the kernel agrees with its reference."""
        rng, found = np.random.default_rng(0), list[str]()
        for sizes in self.tested_sizes():
            found += self.mistakes(self.random_inputs(rng, sizes), exact=False)
            if self.test.magnitude:
                found += self.mistakes(self.integer_inputs(rng, sizes), exact=True)
        return found

    def bench(self, seconds: float = 1.0) -> list[float]:
        """Return the wall times of calls in seconds, after one warm-up call, fastest first.

        With dims, a time is the weighted mean of one call at each of the timed sizes.
        """
        rng, every = np.random.default_rng(0), self.timed_sizes()
        weights = next((dim.weights for dim in self.dims.values()), ()) or (1.0,) * len(every)
        drawn = [self.random_inputs(rng, sizes) for sizes in every]
        calls = [self.prepare(*map(aligned_copy, inputs)) for inputs in drawn]
        for call in calls:
            call()
        times_s: list[float] = []
        end_s = time.perf_counter() + seconds
        while len(times_s) < 5 or time.perf_counter() < end_s:
            spent_s = 0.0
            for call, weight in zip(calls, weights, strict=True):
                begin_s = time.perf_counter()
                call()
                spent_s += weight * (time.perf_counter() - begin_s)
            times_s.append(spent_s / sum(weights))
        return sorted(times_s)

    def figure(self, seconds: float) -> str:
        """Return the time of a call, and its operations per second if there is a unit."""
        unit = self.raced.unit
        rate = f", {self.flop / seconds / 1e9:.2f} {unit}" if unit and self.flop else ""
        return f"{seconds * 1e6:.1f} us{rate}"

    def bench_text(self) -> str:
        """Return the figure of the manifest beside the present time of calls."""
        times_s = self.bench()
        middle_s = times_s[len(times_s) // 2]
        now = f"now: {self.figure(times_s[0])}"
        raced = f"manifest: {self.figure(self.raced.best_s)}; " if self.raced.best_s else ""
        return f"{raced}{now} (median {middle_s * 1e6:.1f} us, {len(times_s)} calls)"

    def main(self, arguments: Sequence[str] | None = None) -> int:
        """Run the command line; return the exit code."""
        parser = argparse.ArgumentParser(description="Self-test and bench.")
        parser.add_argument("--selftest", action="store_true", help="compare with float64 loops")
        parser.add_argument("--bench", action="store_true", help="time calls for a second")
        options = parser.parse_args(arguments)
        if options.selftest:
            wrong = self.selftest()
            print("\n".join(["selftest failed:", *wrong]) if wrong else "selftest passed")
            if wrong:
                return 1
        if options.bench:
            print(self.bench_text())
        if not (options.selftest or options.bench):
            parser.print_help()
        return 0


def reference_of(folder: Path) -> Any:
    """Return the function of the `reference.py` in a folder: float64, one loop per axis."""
    spec = importlib.util.spec_from_file_location("reference", folder / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reference
