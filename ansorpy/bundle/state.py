"""States of models that append to their inputs, such as caches, for callers of any library."""

from collections.abc import Mapping
from typing import Any

from ansorpy.artifact.arrays import importer_of, in_order, to_arrays
from ansorpy.artifact.harness import Array, TensorSpec
from ansorpy.bundle.growing import ModelState


class LoadedState:
    """Memory of a model that grows: rows that a call appends are the past of the next one.

    Calling it takes the inputs that are not in this memory, in order or by their names, and returns
    the outputs that are not, of the same kind of arrays. Nothing of the past is copied. A state
    belongs to one sequence of calls: calls of two threads may not overlap.
    """

    def __init__(self, state: ModelState, name: str) -> None:
        self._state, self._name = state, name

    @property
    def inputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of each input of a call, in order."""
        return self._state.inputs

    @property
    def outputs(self) -> tuple[TensorSpec, ...]:
        """Name, dtype and shape of each output of a call, in order."""
        return self._state.outputs

    @property
    def length(self) -> int:
        """The rows of the past. Set it to a smaller number to forget the last ones.

        Raises:
            ValueError: it is set to more rows than there are.
        """
        return self._state.length

    @length.setter
    def length(self, rows: int) -> None:
        self._state.length = rows

    @property
    def arrays(self) -> dict[str, Array]:
        """Copies of the rows so far, by the names of the model's inputs."""
        return self._state.arrays()

    def __call__(self, /, *inputs: Any, **named: Any) -> Any:
        """Return the output array, or a tuple of several; the state is longer afterwards.

        Raises:
            TypeError: a missing or unknown input, another dtype, or memory that cannot be read.
            ValueError: another shape, more rows than the model takes, or another batch than before.
        """
        given = in_order(self._name, [one.name for one in self.inputs], inputs, named)
        result = self._state(*to_arrays([(one.name, one.dtype) for one in self.inputs], given))
        imported = importer_of(given)
        return tuple(map(imported, result)) if isinstance(result, tuple) else imported(result)

    def __repr__(self) -> str:
        held: Mapping[str, str] = self._state.pairs
        return f"<state of {self._name}: {self.length} rows of {', '.join(held)}>"
