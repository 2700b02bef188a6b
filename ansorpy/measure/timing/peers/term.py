"""Terms: tensors as trees of library operators, with the names and attributes of ONNX."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np

from ansorpy.graph.graph import Array, Attribute

INPUT: Final = "input"  # a leaf: a placeholder of the Dag
CONSTANT: Final = "constant"  # a leaf: an array


@dataclass(frozen=True, slots=True, eq=False)
class Term:
    """An operator applied to terms. Equal terms of one `Terms` are one object.

    Args:
        place: the number of the input, of INPUT.
        array: the values, of CONSTANT.
    """

    op: str
    inputs: tuple["Term", ...]
    shape: tuple[int, ...]
    dtype: str
    attrs: Mapping[str, Attribute]
    place: int = -1
    array: Array | None = None

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)

    @property
    def number(self) -> float | None:
        """The value of a constant of one element, else None."""
        if self.array is None or self.array.size != 1:
            return None
        return float(self.array.reshape(()))


class Terms:
    """The terms of one Dag: each is made once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Term] = {}

    def make(
        self,
        op: str,
        inputs: Sequence[Term],
        shape: Sequence[int],
        dtype: str,
        **attrs: Attribute,
    ) -> Term:
        """Return an operator applied to terms, as it is."""
        key = (op, tuple(map(id, inputs)), tuple(shape), dtype, tuple(sorted(attrs.items())))
        made = Term(op, tuple(inputs), tuple(shape), dtype, attrs)
        return self._known.setdefault(key, made)

    def input(self, place: int, shape: Sequence[int], dtype: str) -> Term:
        """Return an input of the Dag."""
        key = (INPUT, place)
        return self._known.setdefault(key, Term(INPUT, (), tuple(shape), dtype, {}, place))

    def constant(self, values: Any, dtype: str) -> Term:
        """Return a constant; equal ones are one term."""
        array = np.asarray(values).astype(dtype)
        key = (CONSTANT, dtype, array.shape, array.tobytes())
        return self._known.setdefault(key, Term(CONSTANT, (), array.shape, dtype, {}, array=array))


def ordered(outputs: Sequence[Term]) -> Iterator[Term]:
    """Yield the terms that outputs need, operands first, each once."""
    done: set[int] = set()
    stack = [(term, False) for term in reversed(outputs)]
    while stack:
        term, ready = stack.pop()
        if id(term) in done:
            continue
        if ready:
            done.add(id(term))
            yield term
        else:
            stack.append((term, True))
            stack += [(one, False) for one in reversed(term.inputs)]
