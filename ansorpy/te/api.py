"""The Python way into tensor expressions: placeholders, computes, and the Dag they make."""

import inspect
import itertools
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, overload

import numpy as np

from ansorpy.errors import SpecError
from ansorpy.expr.expr import (
    DTYPES,
    INDEX,
    Binary,
    Const,
    Expr,
    Read,
    Var,
    substitute,
    transform,
    variables,
)
from ansorpy.te.check import check
from ansorpy.te.dag import Attrs, Axis, Compute, ConstantTensor, Dag, Node, Placeholder
from ansorpy.te.functions import ArgReduction, ReduceAxis, Reduction
from ansorpy.te.numeric import stored
from ansorpy.te.scalar import Draft, Operand, Scalar, lift

_serial: Final = itertools.count()  # makes tokens differ; never seen in a Dag


@dataclass(frozen=True, eq=False, slots=True)
class Tensor:
    """One output of a node: `T[i, j]` or `T(i, j)` reads an element."""

    draft: Draft
    output: int = 0

    @property
    def name(self) -> str:
        """The name that was asked for; `te.dag` appends a number where two nodes ask the same."""
        return self.draft.wish

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents."""
        return self.draft.node.shape

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


def placeholder(
    shape: Sequence[int], name: str = "placeholder", dtype: str = "float32", constant: bool = False
) -> Tensor:
    """Return an input; `constant` marks a weight that may be packed ahead of time."""
    _known(dtype, name)
    node = Placeholder(_token(name), _shape(shape, name), dtype, constant)
    return Tensor(Draft(node, name))


def constant(array: "np.typing.ArrayLike", name: str = "const", dtype: str | None = None) -> Tensor:
    """Return a tensor whose values are part of the program (dtype: that of the array)."""
    values = np.asarray(array)
    kind = values.dtype.name if dtype is None else dtype
    _known(kind, name)
    shape = _shape(values.shape, name)
    node = ConstantTensor(_token(name), shape, kind, stored(values, kind))
    return Tensor(Draft(node, name))


def reduce_axis(bounds: tuple[int, int], name: str = "k") -> ReduceAxis:
    """Return an axis that runs from bounds[0] to bounds[1] - 1."""
    low, high = (_whole(bound, f"reduce axis {name}") for bound in bounds)
    if high <= low:
        raise SpecError(f"reduce axis {name}: empty range {low} to {high}")
    token = _token(name)
    at = Var(token) if low == 0 else Binary("add", Var(token), Const(low))
    return ReduceAxis(at, {}, name=name, extent=high - low, token=token)


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
    extents = _shape(shape, name)
    names = _parameters(fn, len(extents), name) if axes is None else list(axes)
    if len(names) != len(extents):
        raise SpecError(f"compute {name}: shape has rank {len(extents)}, but {len(names)} axes")
    tokens = [_token(axis) for axis in names]
    answer = fn(*(Scalar(Var(token)) for token in tokens))
    parts, sources = _bodies(answer, name)
    reduce_axes = answer.axes if isinstance(answer, Reduction | ArgReduction) else ()
    final = dict(zip(tokens, names, strict=True))
    for axis in reduce_axes:
        final[axis.token] = _unique(axis.name, final.values())
    _bound(parts, final, name)
    hints = [_names(axes, final, name) for axes in (unroll, no_split_inner, const_axes)]
    layouts = tuple(tensor.draft.node.name for tensor in layout_free)
    renamed = [substitute(part, {old: Var(new) for old, new in final.items()}) for part in parts]
    has_start = isinstance(answer, Reduction) and answer.start is not None
    bodies = tuple(renamed[:-1] if has_start else renamed)
    node = Compute(
        name=_token(name),
        axes=tuple(map(Axis, names, extents)),
        body=bodies,
        dtypes=tuple(Scalar(body).dtype for body in bodies),
        reduce_axes=tuple(Axis(final[axis.token], axis.extent) for axis in reduce_axes),
        combiner=answer.combiner if isinstance(answer, Reduction | ArgReduction) else None,
        start=renamed[-1] if has_start else None,
        attrs=Attrs(hints[0], hints[1], hints[2], layouts, flop),
    )
    draft = Draft(node, name, sources)
    tensors = tuple(Tensor(draft, output) for output in range(len(bodies)))
    return (tensors[0], tensors[1]) if len(tensors) == 2 else tensors[0]


def dag(
    outputs: Tensor | Sequence[Tensor], name: str = "main", inputs: Sequence[Tensor] = ()
) -> Dag:
    """Return the checked Dag of everything that `outputs` are computed from.

    Args:
        inputs: placeholders that come first, in this order; the others follow as they are met.

    Raises:
        SpecError: an output is an input, or `ansorpy.te.check` refuses the Dag.
    """
    wanted = (outputs,) if isinstance(outputs, Tensor) else tuple(outputs)
    order: dict[str, Draft] = {tensor.draft.node.name: tensor.draft for tensor in inputs}
    for tensor in wanted:
        if not isinstance(tensor.draft.node, Compute):
            raise SpecError(f"output {tensor.name} of dag {name} is not computed")
        _collect(tensor.draft, order)
    final: dict[str, str] = {}
    for token, draft in order.items():
        final[token] = _unique(draft.wish, final.values())
    nodes = tuple(_renamed(draft.node, final) for draft in order.values())
    made = Dag(nodes, tuple(dict.fromkeys(final[t.draft.node.name] for t in wanted)), name)

    check(made)
    return made


def _bodies(answer: object, name: str) -> tuple[list[Expr], Mapping[str, Draft]]:
    """Return the bodies (and, last, the start value) of a compute, and what they read."""
    match answer:
        case ArgReduction(value=value, index=index):
            scalars = [value, index]
        case Reduction(value=value, start=start):
            scalars = [value] if start is None else [value, start]
        case _:
            scalars = [lift(answer, "float32", f"body of {name}")]
    sources = {token: draft for scalar in scalars for token, draft in scalar.sources.items()}
    return [scalar.expr for scalar in scalars], sources


def _collect(draft: Draft, order: dict[str, Draft]) -> None:
    """Append `draft` after its sources; a stack, because chains may be long."""
    stack = [(draft, False)]
    while stack:
        top, ready = stack.pop()
        if top.node.name in order:
            continue
        if ready:
            order[top.node.name] = top
        else:
            stack.append((top, True))
            stack.extend((source, False) for source in reversed([*top.sources.values()]))


def _renamed(node: Node, final: Mapping[str, str]) -> Node:
    if not isinstance(node, Compute):
        return replace(node, name=final[node.name])

    def rename(expr: Expr) -> Expr | None:
        return replace(expr, tensor=final[expr.tensor]) if isinstance(expr, Read) else None

    layouts = tuple(final[token] for token in node.attrs.layout_free if token in final)
    return replace(
        node,
        name=final[node.name],
        body=tuple(transform(body, rename) for body in node.body),
        start=None if node.start is None else transform(node.start, rename),
        attrs=replace(node.attrs, layout_free=layouts),
    )


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


def _shape(shape: Sequence[int], name: str) -> tuple[int, ...]:
    extents = tuple(_whole(extent, f"shape of {name}") for extent in shape)
    for position, extent in enumerate(extents):
        if extent < 1:
            raise SpecError(f"{name}: extent {extent} of dimension {position} is below 1")
    return extents


def _whole(value: int, place: str) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise SpecError(f"{place}: {value!r} is not a whole number") from None


def _known(dtype: str, name: str) -> None:
    if dtype not in DTYPES:
        raise SpecError(f"{name}: unknown dtype {dtype!r}, known: {', '.join(DTYPES)}")


def _token(name: str) -> str:
    return f"{name}#{next(_serial)}"


def _unique(wish: str, taken: Iterable[str]) -> str:
    used = set(taken)
    return next(
        name
        for name in itertools.chain((wish,), (f"{wish}_{n}" for n in itertools.count(1)))
        if name not in used
    )
