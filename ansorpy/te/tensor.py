"""Tensors of the Python API: placeholders, computes, and arithmetic with broadcasting."""

import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, overload

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.expr.dtypes import INDEX
from ansorpy.expr.expr import Binary, Const, Expr, Read, Var, substitute, variables
from ansorpy.te.arguments import known_dtype, new_token, shape_of, unique, whole
from ansorpy.te.broadcast import broadcast_index, broadcast_shape
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Placeholder
from ansorpy.te.dims import given
from ansorpy.te.functions import ArgReduction, ReduceAxis, Reduction
from ansorpy.te.scalar import Draft, Operand, Scalar, lift
from ansorpy.te.tensor_data import tensor_bytes


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """One output of a node: `T[i, j]` or `T(i, j)` reads an element.

    `+`, `-`, `*` and `/` of tensors and numbers make a tensor, element by element, with
    broadcasting as in NumPy; more operators are in `ansorpy.topi`.
    """

    __array_ufunc__ = None  # a NumPy scalar on the left leaves the operator to the tensor

    draft: Draft
    output: int = 0

    @property
    def name(self) -> str:
        """The name that was asked for; `te.dag` appends a number where two nodes ask the same."""
        return self.draft.wish

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return tuple(map(given, self.draft.node.shape))

    @property
    def dtype(self) -> str:
        """The dtype of an element."""
        node = self.draft.node
        return node.dtypes[self.output] if isinstance(node, Compute) else node.dtype

    def __getitem__(self, indices: Operand | tuple[Operand, ...]) -> Scalar:
        given = indices if isinstance(indices, tuple) else (indices,)
        if len(given) != len(self.shape):
            raise SpecError(f"{self.name} has rank {len(self.shape)}, read with {len(given)} index")
        sources = {self.draft.node.name: self.draft}
        parts: list[Expr] = []
        for position, index in enumerate(given):
            one = lift(index, INDEX, f"index {position} of {self.name}")
            if one.dtype != INDEX:
                raise SpecError(f"index {position} of {self.name} is {one.dtype}, not {INDEX}")
            parts.append(one.expr)
            sources |= one.sources
        return Scalar(Read(self.draft.node.name, tuple(parts), self.dtype, self.output), sources)

    def __call__(self, *indices: Operand) -> Scalar:
        """Read an element."""
        return self[indices]

    def __add__(self, other: "TensorOperand") -> "Tensor":
        return elementwise(operator.add, self, other, name="add")

    def __radd__(self, other: Operand) -> "Tensor":
        return elementwise(operator.add, other, self, name="add")

    def __sub__(self, other: "TensorOperand") -> "Tensor":
        return elementwise(operator.sub, self, other, name="subtract")

    def __rsub__(self, other: Operand) -> "Tensor":
        return elementwise(operator.sub, other, self, name="subtract")

    def __mul__(self, other: "TensorOperand") -> "Tensor":
        return elementwise(operator.mul, self, other, name="multiply")

    def __rmul__(self, other: Operand) -> "Tensor":
        return elementwise(operator.mul, other, self, name="multiply")

    def __truediv__(self, other: "TensorOperand") -> "Tensor":
        return elementwise(operator.truediv, self, other, name="divide")

    def __rtruediv__(self, other: Operand) -> "Tensor":
        return elementwise(operator.truediv, other, self, name="divide")

    def __neg__(self) -> "Tensor":
        return elementwise(operator.neg, self, name="negative")


TensorOperand: TypeAlias = Tensor | Operand


def placeholder(
    shape: Sequence[int], name: str = "placeholder", dtype: str = "float32", constant: bool = False
) -> Tensor:
    """Return an input; `constant` marks a weight that may be packed ahead of time."""
    known_dtype(dtype, name)
    node = Placeholder(new_token(name), shape_of(shape, name), dtype, constant)
    return Tensor(Draft(node, name))


def constant(array: "np.typing.ArrayLike", name: str = "const", dtype: str | None = None) -> Tensor:
    """Return a tensor whose values are part of the program (dtype: the array's)."""
    values = np.asarray(array)
    kind = values.dtype.name if dtype is None else dtype
    known_dtype(kind, name)
    shape = shape_of(values.shape, name)
    node = ConstantTensor(new_token(name), shape, kind, tensor_bytes(values, kind))
    return Tensor(Draft(node, name))


def reduce_axis(bounds: tuple[int, int], name: str = "k") -> ReduceAxis:
    """Return an axis that runs from bounds[0] to bounds[1] - 1."""
    low, high = (whole(bound, f"reduce axis {name}") for bound in bounds)
    if high <= low:
        raise SpecError(f"reduce axis {name}: empty range {low} to {high}")
    token = new_token(name)
    at = Var(token) if low == 0 else Binary("add", Var(token), Const(low))
    extent = given(high) if low == 0 else high - low
    return ReduceAxis(at, {}, name=name, extent=extent, token=token)


@overload
def compute(
    shape: Sequence[int],
    fn: Callable[..., Operand | Reduction],
    name: str = ...,
    *,
    axes: Sequence[str] | None = ...,
    unroll: Iterable[str | ReduceAxis] = ...,
    no_split_inner: Iterable[str | ReduceAxis] = ...,
    const_axes: Iterable[str | ReduceAxis] = ...,
    layout_free: Iterable[Tensor] = ...,
    flop: int | None = ...,
) -> Tensor: ...
@overload
def compute(
    shape: Sequence[int],
    fn: Callable[..., ArgReduction],
    name: str = ...,
    *,
    axes: Sequence[str] | None = ...,
    unroll: Iterable[str | ReduceAxis] = ...,
    no_split_inner: Iterable[str | ReduceAxis] = ...,
    const_axes: Iterable[str | ReduceAxis] = ...,
    layout_free: Iterable[Tensor] = ...,
    flop: int | None = ...,
) -> tuple[Tensor, Tensor]: ...
def compute(
    shape: Sequence[int],
    fn: Callable[..., Operand | Reduction | ArgReduction],
    name: str = "compute",
    *,
    axes: Sequence[str] | None = None,
    unroll: Iterable[str | ReduceAxis] = (),
    no_split_inner: Iterable[str | ReduceAxis] = (),
    const_axes: Iterable[str | ReduceAxis] = (),
    layout_free: Iterable[Tensor] = (),
    flop: int | None = None,
) -> Tensor | tuple[Tensor, Tensor]:
    """Return the tensor whose element at (i, j, ...) is fn(i, j, ...).

    `fn` answers a scalar, or a reduction (`te.sum(..., axis=k)`); the axes are called as the
    parameters of `fn`, or as `axes` says. `te.argmax` and `te.argmin` give two
    tensors: value and int64 index. The other arguments are hints for the rules (see `Attrs`),
    with axes by name.

    Raises:
        SpecError: a shape, a dtype or an axis does not fit.
    """
    extents = shape_of(shape, name)
    names = _parameters(fn, len(extents), name) if axes is None else list(axes)
    if len(names) != len(extents):
        raise SpecError(f"compute {name}: shape has rank {len(extents)}, but {len(names)} axes")
    tokens = [new_token(axis) for axis in names]
    answer = fn(*(Scalar(Var(token)) for token in tokens))
    parts, sources = _bodies(answer, name)
    reduce_axes = answer.axes if isinstance(answer, Reduction | ArgReduction) else ()
    reduced = [(axis, whole(axis.extent, name)) for axis in reduce_axes]
    final = dict(zip(tokens, names, strict=True))
    for axis in reduce_axes:
        final[axis.token] = unique(axis.name, final.values())
    _bound(parts, final, name)
    hints = [_names(axes, final, name) for axes in (unroll, no_split_inner, const_axes)]
    layouts = tuple(tensor.draft.node.name for tensor in layout_free)
    renamed = [substitute(part, {old: Var(new) for old, new in final.items()}) for part in parts]
    has_start = isinstance(answer, Reduction) and answer.start is not None
    bodies = tuple(renamed[:-1] if has_start else renamed)
    node = Compute(
        name=new_token(name),
        axes=tuple(map(Axis, names, extents)),
        body=bodies,
        dtypes=tuple(Scalar(body).dtype for body in bodies),
        reduce_axes=tuple(Axis(final[axis.token], extent) for axis, extent in reduced),
        combiner=answer.combiner if isinstance(answer, Reduction | ArgReduction) else None,
        start=renamed[-1] if has_start else None,
        attrs=Attrs(hints[0], hints[1], hints[2], layouts, flop),
    )
    draft = Draft(node, name, sources)
    tensors = tuple(Tensor(draft, output) for output in range(len(bodies)))
    return (tensors[0], tensors[1]) if len(tensors) == 2 else tensors[0]


def elementwise(
    fn: Callable[..., Operand],
    *operands: TensorOperand,
    name: str = "elementwise",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return the tensor of `fn` of the elements of the operands, which are broadcast as in NumPy.

    Args:
        fn: a function of as many scalars as there are operands.
        operands: tensors, at least one; numbers and scalars are passed on as they are.
        name: the name of the node.
        axes: the names of the axes of the result; i0, i1, ... unless given.

    Raises:
        SpecError: the shapes cannot be broadcast, or `fn` does not take the dtypes.
    """
    tensors = [operand for operand in operands if isinstance(operand, Tensor)]
    if not tensors:
        raise SpecError(f"cannot compute {name} because no operand is a tensor; expected one")
    shape = broadcast_shape([tensor.shape for tensor in tensors], name)

    def body(*i: Scalar) -> Operand:
        return fn(
            *(
                operand[broadcast_index(operand.shape, shape, i)]
                if isinstance(operand, Tensor)
                else operand
                for operand in operands
            )
        )

    return compute(shape, body, name, axes=axes)


def _bodies(answer: object, name: str) -> tuple[list[Expr], Mapping[str, Draft]]:
    """Return the bodies (and, last, the start value) of a compute, and the tensors they read."""
    match answer:
        case ArgReduction(value=value, index=index):
            scalars = [value, index]
        case Reduction(value=value, start=start):
            scalars = [value] if start is None else [value, start]
        case _:
            scalars = [lift(answer, "float32", f"body of {name}")]
    sources = {token: draft for scalar in scalars for token, draft in scalar.sources.items()}
    return [scalar.expr for scalar in scalars], sources


def _parameters(fn: Callable[..., object], rank: int, name: str) -> list[str]:
    """Return the parameter names of `fn` as axis names; `*i` gives i0, i1, ..."""
    names: list[str] = []
    for parameter in inspect.signature(fn).parameters.values():
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}{n}" for n in range(rank - len(names))]
        elif parameter.default is inspect.Parameter.empty:
            names.append(parameter.name)
    return names


def _bound(parts: Sequence[Expr], final: Mapping[str, str], name: str) -> None:
    for part in parts:
        for token in sorted(variables(part) - final.keys()):
            axis = token.partition("#")[0]
            raise SpecError(f"compute {name}: axis {axis} is neither its own nor reduced here")


def _names(
    axes: Iterable[str | ReduceAxis], final: Mapping[str, str], name: str
) -> tuple[str, ...]:
    names = tuple(axis if isinstance(axis, str) else final.get(axis.token, "?") for axis in axes)
    for axis in names:
        if axis not in final.values():
            raise SpecError(f"compute {name}: no axis {axis!r}, it has {', '.join(final.values())}")
    return names
