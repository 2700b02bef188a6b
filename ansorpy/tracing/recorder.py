"""The recorder of one trace: nodes of a graph, with the casts that NumPy would make."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import DTYPES
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Attribute
from ansorpy.tracing.places import Unsupported
from ansorpy.tracing.tracer import Tracer

NUMBERS: Final = ", ".join(name for name in DTYPES if name != "bfloat16")

Operand = Any  # a tracer, an array of NumPy, or a number
Shape = tuple[int, ...]


class TraceRecorder:
    """Nodes that tracers add; every array that is no argument becomes a constant.

    Args:
        function: the name of the traced function.
    """

    def __init__(self, function: str) -> None:
        self.function = function
        self.builder = GraphBuilder(function)
        self.captured: list[Array] = []  # arrays of the user that became constants
        self._constants: dict[tuple[str, Shape, bytes], str] = {}
        self._count = 0

    def input(self, name: str, shape: Sequence[int], dtype: np.dtype[Any]) -> Tracer:
        """Return the tracer of an argument."""
        return self._tracer(self.builder.input(name, shape, dtype.name))

    def emit(
        self, op: str, *inputs: Tracer, constants: Sequence[Array] = (), **attrs: Attribute | None
    ) -> Tracer:
        """Add a node of one output.

        Args:
            inputs: its first inputs.
            constants: its further inputs.
            attrs: its attributes; those that are None are absent.

        Raises:
            Unsupported: the operator does not take these operands.
        """
        given: Mapping[str, Attribute] = {k: v for k, v in attrs.items() if v is not None}
        names = [one.value for one in inputs] + [self.constant(one).value for one in constants]
        try:
            (made,) = self.builder.add(op, names, [self._fresh()], given)
        except SpecError as error:
            text = str(error).rpartition(" because ")[2] or str(error)
            because, _, expected = text.partition("; expected ")
            raise Unsupported(because, expected or "operands that the operator takes") from error
        return self._tracer(made)

    def constant(self, array: Array) -> Tracer:
        """Return the tracer of known values; equal values are one constant."""
        check_dtype(array.dtype)
        values = np.array(array, order="C")  # a copy: the user's array may change
        key = (values.dtype.name, values.shape, values.tobytes())
        if key not in self._constants:
            self._constants[key] = self.builder.constant(self._fresh(), values)
        return self._tracer(self._constants[key])

    def operand(self, value: Operand, dtype: np.dtype[Any] | None = None) -> Tracer:
        """Return an operand as a tracer, of `dtype` if it is given.

        Raises:
            Unsupported: it is no array, or has an unsupported dtype.
        """
        if not isinstance(value, Tracer):
            if isinstance(value, np.ndarray):
                self.captured.append(value)
            array = np.asarray(value) if dtype is None else np.asarray(value, dtype)
            return self.constant(array)
        if value.recorder is not self:
            raise Unsupported(
                "an operand belongs to another trace", "arguments, or arrays, of this function"
            )
        return value if dtype is None else self.cast(value, dtype)

    def cast(self, x: Tracer, dtype: np.dtype[Any]) -> Tracer:
        """Return a tensor in another dtype."""
        check_dtype(dtype)
        if x.dtype == dtype:
            return x
        if dtype == np.bool_:
            return self.emit("Not", self.emit("Equal", x, constants=[np.zeros((), x.dtype)]))
        return self.emit("Cast", x, to=dtype.name)

    def known(self, x: Operand) -> Array | None:
        """Return the values of a constant; None for others."""
        if not isinstance(x, Tracer):
            return np.asarray(x)
        weight = self.builder.weights.get(x.value)
        return None if weight is None else weight.array

    def _tracer(self, name: str) -> Tracer:
        value = self.builder.values[name]
        return Tracer(self, name, value.fixed_shape, np.dtype(value.dtype))

    def _fresh(self) -> str:
        self._count += 1
        return f"value.{self._count}"  # no argument has a dot in its name


def check_dtype(dtype: np.dtype[Any]) -> None:
    """Raise Unsupported unless kernels have a dtype."""
    if dtype.name not in DTYPES:
        raise Unsupported(f"dtype {dtype.name} has no kernels", NUMBERS)


def common_dtype(*values: Operand) -> np.dtype[Any]:
    """Return the dtype that NumPy promotes operands to; numbers of Python adapt to arrays."""
    kinds = [value.dtype if isinstance(value, Tracer) else value for value in values]
    return np.result_type(*kinds)
