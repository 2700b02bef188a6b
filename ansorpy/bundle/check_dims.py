"""Checks of the dims, and of the state, that the manifest of a bundle tells."""

from collections.abc import Mapping, Sequence
from typing import Any

from ansorpy.artifact.harness import DimSpec
from ansorpy.bundle.runner import ModelRunner, dims_of


def check_state(state: Mapping[str, Any], runner: ModelRunner) -> None:
    """Raise ValueError unless each pair of a state has the rows of the past, and of the total."""
    past, total = state["past"], state["total"]
    outputs = [pair[-1] for pair in state["pairs"]]
    known = total in runner.dims and past in runner.dims[total].terms and outputs
    if not known or len({*outputs}) < len(outputs):
        raise ValueError("its state has no dims of the model, or an output twice")
    for pair in state["pairs"]:
        given, made = (
            tensors[number] if number < len(tensors) else None
            for tensors, number in zip((runner.inputs, runner.outputs), pair, strict=True)
        )
        if given is None or made is None:
            raise ValueError("its state has an input or output that is not there")
        rows = runner.dims[total].high
        axes = zip(given.dims, given.shape, strict=False)
        grown = [(total, rows) if name == past else (name, extent) for name, extent in axes]
        same = given.dtype == made.dtype and past in given.dims
        if not same or grown != list(zip(made.dims, made.shape, strict=False)):
            raise ValueError(f"the rows of its state {given.name!r} are not those of an output")


def check_dims(facts: Mapping[str, Any]) -> None:
    """Raise ValueError unless tensors and values have the largest sizes of dims that there are."""
    dims = dims_of(facts)
    extents = {dim.name: dim.high for dim in dims}
    for dim in dims:
        known = bool(dim.timed) and min(dim.low, dim.high - 1, dim.step - 1) >= 0
        if not known or not all(map(dim.has, (dim.low, *dim.timed, dim.high))):
            raise ValueError(f"dim {dim.name!r} has no range")
        if dim.weights and (len(dim.weights) != len(dim.timed) or min(dim.weights) <= 0):
            raise ValueError(f"dim {dim.name!r} has not a weight for each timed size")
    if len({(len(dim.timed), dim.weights) for dim in dims}) > 1 or len(extents) < len(dims):
        raise ValueError("its dims do not fit together")
    _check_sums(dims)
    for one in (*facts["inputs"], *facts["outputs"], *facts["values"].values()):
        names = one.get("dims", [""] * len(one["shape"]))
        if len(names) != len(one["shape"]) or any(
            extents.get(name) != extent
            for name, extent in zip(names, one["shape"], strict=True)
            if name
        ):
            raise ValueError(f"{one['name']!r} has other dims than the model")


def _check_sums(dims: Sequence[DimSpec]) -> None:
    """Raise ValueError unless each sum ranges as its terms do, which are dims of their own."""
    known = {dim.name: (dim.low, dim.high) for dim in dims if not dim.terms}
    for dim in dims:
        ends = [
            known.get(one, (-1, -1)) if isinstance(one, str) else (one, one) for one in dim.terms
        ]
        if ends and (
            (-1, -1) in ends
            or [sum(each) for each in zip(*ends, strict=True)] != [dim.low, dim.high]
        ):
            raise ValueError(f"dim {dim.name!r} is no sum of its terms")
