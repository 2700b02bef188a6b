"""Memory of a bundle that grows in place; a part of the text of `model.py`, ahead of the runner."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ansorpy.artifact.harness import (
    Array,
    Runner,
    add_sums,
    as_passed,
    by_rows,
    fresh,
    kept,
    matched,
    placed,
    refill,
    region,
)

# --- growing: the same in every bundle ---


class ModelState:
    """Memory of a model that grows: rows that a call appends are the past of the next one.

    Calls take the other inputs, and return the other outputs: nothing of the past is copied. Calls
    of two threads may not overlap.

    Args:
        facts: the manifest.

    Raises:
        ValueError: the model appends to no input that it gives back.
    """

    def __init__(self, runner: Runner, facts: Mapping[str, Any]) -> None:
        if "state" not in facts:
            raise ValueError(
                f"cannot make a state of {facts['name']} because it appends to no input that it"
                " gives back; expected a model with a past and a present of the same values"
            )
        facts = facts["state"]
        self.runner, self.past, self.total = runner, facts["past"], facts["total"]
        self.pairs = {
            runner.inputs[given].name: runner.outputs[made].name for given, made in facts["pairs"]
        }
        self.inputs = tuple(one for one in runner.inputs if one.name not in self.pairs)
        kept_ones = set(self.pairs.values())
        self.outputs = tuple(one for one in runner.outputs if one.name not in kept_ones)
        self._memory = {
            name: array
            for given, made in self.pairs.items()
            for array in [fresh(runner.tensors[made].shape, runner.tensors[made].dtype)]
            for name in (given, made)
        }
        self._room: dict[str, Any] = {}
        self._sizes: dict[str, int] = {}  # dims of the memory, without its rows
        self._length = 0

    @property
    def length(self) -> int:
        """The rows of the past; a smaller number forgets the last ones.

        Raises:
            ValueError: it is set to more rows than there are.
        """
        return self._length

    @length.setter
    def length(self, rows: int) -> None:
        if not 0 <= rows <= self._length:
            raise ValueError(
                f"cannot go back to {rows} rows because the state has {self._length}; expected"
                f" 0 to {self._length}"
            )
        self._length = rows

    def arrays(self) -> dict[str, Array]:
        """Return a copy of the rows so far, by the names of the inputs that take them."""
        most = {name: dim.high for name, dim in self.runner.dims.items()}
        sizes = {**most, **self._sizes, self.past: self._length}
        found = {}
        for name in self.pairs:
            shape = self.runner.shape_of(self.runner.tensors[name], sizes)
            found[name] = region(self._memory[name], shape).copy()
        return found

    def __call__(self, *inputs: Any) -> Any:
        """Run on the inputs that are not in memory, in order; return the other outputs.

        Raises:
            TypeError: another number of arrays, or another dtype.
            ValueError: another shape, more rows than fit, or another size of a dim of the memory.
        """
        runner = self.runner
        sizes = {**(self._sizes if self._length else {}), self.past: self._length}
        if not runner.dims[self.past].has(self._length):
            raise ValueError(
                f"cannot go on because the state has {self._length} rows; expected"
                f" {runner.dims[self.past]}"
            )
        given = placed(self._room, matched(self.inputs, inputs, "", runner.dims, sizes))
        add_sums(runner.dims, sizes)
        arrays = dict(self._memory)
        for tensor, own, array in given:
            refill(own, array)
            arrays[tensor.name] = own
        for tensor in filter(by_rows, self.outputs):
            arrays[tensor.name] = fresh(runner.shape_of(tensor, sizes), tensor.dtype)
        for tensor in runner.tensors.values():
            if tensor.role == "sizes":
                arrays[tensor.name] = np.array([sizes[name] for name in runner.dims], np.int64)
            elif tensor.name not in arrays:
                arrays[tensor.name] = kept(self._room, tensor)
        runner.launch(*(as_passed(arrays[name]) for name in runner.tensors))
        self._sizes = {
            name: sizes[name]
            for one in self.pairs
            for name in runner.tensors[one].dims
            if name and name != self.past
        }
        self._length = sizes[self.total]
        results = tuple(
            array if by_rows(one) else array.copy()
            for one in self.outputs
            for array in [region(arrays[one.name], runner.shape_of(one, sizes))]
        )
        return results if len(results) != 1 else results[0]
