"""Test cases of a kernel: inputs and expected outputs.

Dense random numbers; small integers if the Dag is exact on them (then outputs must be equal);
sparse numbers, whose bound is narrow; edge values; if there are extremes, ramps on one side of
zero, and NaNs. References are computed once per task (`each_case`), kept as files
(`save_cases`), and mapped by the children (`load_cases`).
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Any, Final

import numpy as np

from ansorpy.expr.dtypes import FLOATS
from ansorpy.loopir.nodes import SIZES
from ansorpy.measure.sandbox.seals import Seal, create
from ansorpy.measure.verify import inputs as make
from ansorpy.measure.verify.accept import AcceptInterval, accept_interval
from ansorpy.measure.verify.exactness import exact_magnitude
from ansorpy.measure.verify.guard_pages import Side
from ansorpy.measure.verify.inputs import Array, Inputs, decode
from ansorpy.measure.verify.mapped import mapped
from ansorpy.measure.verify.nans import hands_nans_on
from ansorpy.oracle.error_bounds import allowed
from ansorpy.oracle.reference import evaluate_bounded
from ansorpy.te.dag import Compute, Dag
from ansorpy.te.dims import Dim, at_sizes, dims_of, ends_of, timed_sizes, timed_weights

LONG_SUM: Final = 64  # terms of a sum, above which its worst-case bound hides a coarse operand
INDEX_FILE: Final = "cases.json"
MORE_SIZES: Final = 6  # random sizes of dims that are checked beside those that are timed
FIRST_SIZES: Final = 2  # cases behind those that are timed, by which a first answer is checked, too


@dataclass(frozen=True)
class Expected:
    """Condition on an output: |kernel - value| <= bound, or equality if the bound is None.

    Elements in the `interval` meet it.
    """

    name: str  # name of the output buffer
    dtype: str
    value: Array
    bound: Array | None
    interval: AcceptInterval | None = None


@dataclass(frozen=True)
class Case:
    """Inputs in storage form and the expected outputs."""

    name: str
    inputs: Inputs
    expected: tuple[Expected, ...]
    side: Side = "right"
    constant: tuple[str, ...] = ()  # inputs that are known before the call
    nans: bool = False  # an element that is NaN in the reference must be NaN in the kernel
    sizes: tuple[int, ...] = ()  # one per dim, in order
    weight: float = 0.0  # weight in the cost of a kernel; 0: not timed, unless all have 0

    @property
    def given(self) -> Inputs:
        """The arrays that a call takes: inputs, and the sizes of dims."""
        sizes = {SIZES: np.array(self.sizes, np.int64)} if self.sizes else {}
        return {**self.inputs, **sizes}

    def part(self, name: str) -> tuple[slice, ...]:
        """Return the region of a buffer for which the case has elements; () for all of it."""
        arrays = {**self.inputs, **{one.name: one.value for one in self.expected}}
        return tuple(map(slice, arrays[name].shape)) if name in arrays and self.sizes else ()


def make_cases(dag: Dag, seed: int, edges: bool = True) -> tuple[Case, ...]:
    """Return all cases of `each_case`."""
    return tuple(each_case(dag, seed, edges))


def each_case(dag: Dag, seed: int, edges: bool = True) -> Iterator[Case]:
    """Yield the cases of a Dag with their references, computed one by one: the costly part.

    Dense random numbers are first; with dims, for each of `timed_sizes`.
    """
    if dims_of(dag):
        yield from _each_size(dag, seed, edges)
        return
    dense, narrow, edge, sparse, nan = np.random.default_rng(seed).spawn(5)
    first = _dense_case(dag, dense)
    yield first
    magnitude = exact_magnitude(dag)
    if magnitude:
        # Many equal values show which of them an argmax returns.
        magnitude = 1 if _combines(dag, "argmax", "argmin") else magnitude
        integers = make.integer_inputs(dag, narrow, magnitude)
        yield case_of(dag, "small-integer", integers, exact=True, side="left")
    if not magnitude or make.longest_sum(dag) >= LONG_SUM:
        yield case_of(dag, "sparse", make.sparse_inputs(dag, sparse), side="left")
    if _combines(dag, "max", "min", "argmax", "argmin"):
        yield case_of(dag, "rising negative", make.ordered_inputs(dag, rising=True))
        yield case_of(dag, "falling positive", make.ordered_inputs(dag, rising=False))
    if edges:
        yield case_of(dag, "edge", make.edge_inputs(dag, edge))
        if hands_nans_on(dag) and _all_known(first):
            spoiled = make.with_nans(dag, first.inputs, nan)
            yield case_of(dag, "NaN", spoiled, nans=True)


def _each_size(dag: Dag, seed: int, edges: bool) -> Iterator[Case]:
    """Yield cases with dims: dense ones to time, dense ones in between, and all at the ends."""
    rng = np.random.default_rng(seed)

    def sized(case: Case, sizes: Mapping[str, int], weight: float = 0.0) -> Case:
        at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        return replace(case, name=f"{case.name} ({at})", sizes=tuple(sizes.values()), weight=weight)

    ends = {
        tuple(sizes.values()): each_case(at_sizes(dag, sizes), seed, edges)
        for sizes in ends_of(dag)
    }
    timed = timed_sizes(dag)
    for sizes, weight in zip(timed, timed_weights(dag), strict=True):
        cases = ends.get(tuple(sizes.values()), each_case(at_sizes(dag, sizes), seed, edges))
        yield sized(next(cases), sizes, weight)  # the dense one; others are computed later
    done = [*timed, *(sizes for sizes in ends_of(dag) if sizes not in timed)]
    for _ in range(MORE_SIZES):
        sizes = {one.name: _drawn(one, rng) for one in dims_of(dag)}
        if sizes not in done:
            done.append(sizes)
            yield sized(_dense_case(at_sizes(dag, sizes), rng), sizes)
    for sizes in ends_of(dag):
        cases = ends.pop(tuple(sizes.values()), iter(()))
        yield from (sized(case, sizes) for case in cases)


def first_count(dag: Dag) -> int:
    """Return how many of the cases come first: those that are timed, and with dims a few more."""
    return len(timed_sizes(dag)) + FIRST_SIZES * bool(dims_of(dag))


def _drawn(dim: Dim, rng: np.random.Generator) -> int:
    least, most = dim.counts
    return dim.step * int(rng.integers(least, most + 1))


def timed_cases(cases: Sequence[Case]) -> Sequence[Case]:
    """Return the cases that kernels are timed on."""
    return [case for case in cases if case.weight] or cases[:1]


def _dense_case(dag: Dag, rng: np.random.Generator) -> Case:
    """Return random numbers, positive ones where nothing is known of the others."""
    state = rng.bit_generator.state
    case = case_of(dag, "random", make.random_inputs(dag, rng))
    if _all_known(case):
        return case
    rng.bit_generator.state = state
    positive = case_of(dag, "random positive", make.positive_inputs(dag, rng))
    return positive if _all_known(positive) else case


def case_of(
    dag: Dag,
    name: str,
    inputs: Inputs,
    *,
    exact: bool = False,
    side: Side = "right",
    nans: bool = False,
) -> Case:
    """Return a case with its reference.

    Args:
        exact: whether outputs must be equal to it.
        nans: whether the kernel must give NaN where the reference does.
    """
    numbers = {node.name: decode(inputs[node.name], node.dtype) for node in dag.placeholders}
    known = evaluate_bounded(dag, numbers)
    expected = []
    for output in dag.outputs:
        node = dag.node(output)
        assert isinstance(node, Compute)
        for i, (bounded, dtype) in enumerate(zip(known[output], node.dtypes, strict=True)):
            bound = None
            if not exact and not (bounded.exact and dtype not in FLOATS):
                bound = allowed(bounded, dtype)
            interval = accept_interval(bounded.value, bound, dtype, nans)
            expected.append(
                Expected(f"{output}.{i}" if i else output, dtype, bounded.value, bound, interval)
            )
    constant = tuple(node.name for node in dag.placeholders if node.constant)
    return Case(name, inputs, tuple(expected), side, constant, nans)


def _combines(dag: Dag, *combiners: str) -> bool:
    return any(node.combiner in combiners for node in dag.computes)


def _all_known(case: Case) -> bool:
    return all(
        bool(np.isfinite(one.value).all())
        and (one.bound is None or bool(np.isfinite(one.bound).all()))
        for one in case.expected
    )


def save_cases(cases: Sequence[Case], constants: Inputs, folder: Path) -> dict[str, Seal]:
    """Write cases and constants as plain .npy files with a JSON index, none of which is there yet.

    Returns:
        By file name, how to tell whether a file was changed.
    """
    seals: dict[str, Seal] = {}

    def keep(array: Array | None) -> str | None:
        if array is None:
            return None
        name = f"{len(seals) + 1}.npy"
        seals[name] = create(folder, name, *_npy(array))
        return name

    index = {
        "constants": {name: keep(array) for name, array in constants.items()},
        "cases": [
            {
                "name": case.name,
                "side": case.side,
                "constant": case.constant,
                "nans": case.nans,
                "sizes": case.sizes,
                "weight": case.weight,
                "inputs": {name: keep(array) for name, array in case.inputs.items()},
                "expected": [
                    [one.name, one.dtype, keep(one.value), keep(one.bound)]
                    + [keep(end) for end in one.interval or ()]
                    for one in case.expected
                ],
            }
            for case in cases
        ],
    }
    seals[INDEX_FILE] = create(folder, INDEX_FILE, json.dumps(index).encode())
    return seals


def _npy(array: Array) -> tuple[bytes, memoryview]:
    """Return an array as the header and the data of a .npy file."""
    array = np.asarray(array, order="C")
    head = BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    return head.getvalue(), array.reshape(-1).view(np.uint8).data


def load_cases(folder: Path) -> tuple[tuple[Case, ...], Inputs]:
    """Map the files of `save_cases`; an array is read when it is used."""

    def array(name: str) -> Array:
        return mapped(folder / name)

    def expected(name: str, dtype: str, value: str, bound: str | None, *ends: str) -> Expected:
        low_high = (array(ends[0]), array(ends[1])) if ends else None
        reach = None if bound is None else array(bound)
        return Expected(name, dtype, array(value), reach, low_high)

    index: dict[str, Any] = json.loads((folder / INDEX_FILE).read_text())
    cases = tuple(
        Case(
            one["name"],
            {name: array(file) for name, file in one["inputs"].items()},
            tuple(expected(*parts) for parts in one["expected"]),
            one["side"],
            tuple(one["constant"]),
            one["nans"],
            tuple(one["sizes"]),
            one["weight"],
        )
        for one in index["cases"]
    )
    return cases, {name: array(file) for name, file in index["constants"].items()}
