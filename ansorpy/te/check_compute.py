"""The checks of one compute node."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Final

from ansorpy.errors import SpecError, quoted, shown
from ansorpy.expr.affine import form
from ansorpy.expr.bounds import Ranges, bounds, bounds_of_form
from ansorpy.expr.dtypes import INDEX, INTEGER_RANGE
from ansorpy.expr.expr import (
    OPERANDS,
    Binary,
    Cast,
    Const,
    Expr,
    Read,
    Var,
    children,
    substitute,
    transform,
    variables,
    walk,
)
from ansorpy.expr.typecheck import TypeCheck
from ansorpy.te.check_basics import Tensors, check_dtypes, check_extent, check_name, check_shape
from ansorpy.te.check_ranges import check_ranges
from ansorpy.te.dag import COMBINERS, Axis, Compute
from ansorpy.te.dims import Dim, extents_at, extents_of, has_dims, too_large
from ansorpy.te.limits import DagLimits

ARG_COMBINERS: Final = ("argmax", "argmin")


@dataclass(frozen=True)
class ComputeCheck:
    """The checks of one compute node, in the order in which each may rely on those before.

    `run` raises SpecError where one fails.
    """

    node: Compute
    tensors: Tensors
    later: frozenset[str]
    limits: DagLimits
    where: str

    def run(self) -> int:
        """Return the number of expression parts."""
        self._axes()
        self._combiner()
        terms = self._sizes()
        self._reads()
        self._types()
        self._attrs()
        ranges = {a.name: (0, a.extent - 1) for a in (*self.node.axes, *self.node.reduce_axes)}
        axes = (*self.node.axes, *self.node.reduce_axes)
        dims = {axis.name: axis.extent for axis in axes if isinstance(axis.extent, Dim)}
        for expr in self._exprs:
            check_ranges(expr, ranges, self.tensors, self.where, dims=dims)
        if self.node.combiner in ARG_COMBINERS:
            self._order(ranges)
        return terms

    @property
    def _exprs(self) -> tuple[Expr, ...]:
        start = () if self.node.start is None else (self.node.start,)
        return (*self.node.body, *start)

    @property
    def _type_check(self) -> TypeCheck:
        return TypeCheck(
            tensor_dtype=lambda read: self.tensors[read.tensor][1][read.output],
            error=lambda text: SpecError(f"{self.where}: {text}"),
            operands=OPERANDS,
        )

    def _axes(self) -> None:
        node, limits = self.node, self.limits
        check_shape(node.shape, self.where, limits)
        if len(node.reduce_axes) > limits.rank:
            raise SpecError(
                f"{self.where}: {len(node.reduce_axes)} reduce axes, limit {limits.rank}"
            )
        seen: set[str] = set()
        for axis in (*node.axes, *node.reduce_axes):
            self._axis(axis)
            if axis.name in seen:
                raise SpecError(f"{self.where}: axis {axis.name!r} is there twice")
            seen.add(axis.name)
        extents = extents_of(node)
        if node.points > limits.points and has_dims(extents):
            raise too_large(
                f"cannot take {self.where}", extents,
                lambda sizes: prod(extents_at(extents, sizes)),
                limits.points, "{} iterations".format,
            )  # fmt: skip
        if node.points > limits.points:
            raise SpecError(f"{self.where}: {node.points} iterations, limit {limits.points}")

    def _axis(self, axis: Axis) -> None:
        check_name(axis.name, f"{self.where}: axis")
        check_extent(axis.extent, f"{self.where}: axis {axis.name!r}: extent", self.limits)

    def _combiner(self) -> None:
        node = self.node
        if node.combiner is not None and node.combiner not in COMBINERS:
            raise SpecError(
                f"{self.where}: combiner {quoted(node.combiner)}; there are {', '.join(COMBINERS)}"
            )
        if (node.combiner is None) == bool(node.reduce_axes):
            has = (
                f"reduces over {node.reduce_axes[0].name!r}" if node.reduce_axes else "has no axis"
            )
            raise SpecError(
                f"{self.where}: combiner {node.combiner}, but it {has}"
                f"{'' if node.reduce_axes else ' to reduce'}"
            )
        count = 2 if node.combiner in ARG_COMBINERS else 1
        if len(node.body) != count or len(node.dtypes) != count:
            raise SpecError(
                f"{self.where}: {len(node.body)} bodies and {len(node.dtypes)} dtypes, not {count}"
            )
        if node.start is not None and (node.combiner is None or count == 2):
            raise SpecError(f"{self.where}: a start value needs sum, prod, max or min")

    def _sizes(self) -> int:
        terms = 0
        for expr in self._exprs:
            stack: list[tuple[Expr, int]] = [(expr, 1)]
            while stack:
                part, depth = stack.pop()
                if not isinstance(part, Expr):
                    raise SpecError(f"{self.where}: {quoted(part)} is not an expression")
                terms += 1
                if terms > self.limits.terms:
                    raise SpecError(f"{self.where}: more than {self.limits.terms} expression parts")
                if depth > self.limits.depth:
                    raise SpecError(
                        f"{self.where}: expressions nest deeper than {self.limits.depth}"
                    )
                if isinstance(part, Const):
                    self._type_check.dtype(part)
                stack.extend((child, depth + 1) for child in children(part))
        return terms

    def _reads(self) -> None:
        for read in self.node.reads:
            found = self.tensors.get(read.tensor)
            if found is None:
                raise SpecError(f"{self.where}: reads {quoted(read.tensor)}, {self._why(read)}")
            shape, dtypes = found
            if len(read.indices) != len(shape):
                raise SpecError(
                    f"{self.where}: {shown(read)} has {len(read.indices)} indices, but "
                    f"{read.tensor!r} has rank {len(shape)}"
                )
            if type(read.output) is not int or not 0 <= read.output < len(dtypes):
                raise SpecError(
                    f"{self.where}: output {quoted(read.output)} of {read.tensor!r}, "
                    f"which has {len(dtypes)}"
                )

    def _why(self, read: Read) -> str:
        if read.tensor == self.node.name:
            return "itself: a tensor cannot be computed from itself"
        if read.tensor in self.later:
            return "which comes after it: producers come first, without recursion"
        return "which is not there"

    def _types(self) -> None:
        node = self.node
        check_dtypes(node.dtypes, self.where)
        spatial = {axis.name for axis in node.axes}
        axes = spatial | {axis.name for axis in node.reduce_axes}
        for expr, dtype in zip(node.body, node.dtypes, strict=True):
            self._bound(expr, axes, "is not an axis of it")
            self._type_check.expect(expr, dtype)
        if node.start is not None:
            self._bound(node.start, spatial, "cannot stand in the start value")
            self._type_check.expect(node.start, node.dtype)
        if node.combiner is not None and node.dtype == "bool":
            raise SpecError(f"{self.where}: {node.combiner} of bool; cast it to a number")
        if len(node.dtypes) == 2 and node.dtypes[1] not in ("int32", "int64"):
            raise SpecError(f"{self.where}: index of dtype {node.dtypes[1]}, not int32 or int64")

    def _order(self, ranges: Ranges) -> None:
        """Demand an index that does not fall in row-major order over the reduce axes.

        Then the first of equal elements has the smallest index, which a kernel keeps in any order
        of reduction.
        """
        index = transform(self.node.body[1], _as_index)
        proved = index == self.node.body[1] or _fits(index, ranges, INTEGER_RANGE["int32"])
        axes = [axis for axis in self.node.reduce_axes if axis.extent > 1]
        for n, axis in enumerate(axes):
            last = {inner.name: Const(inner.extent - 1) for inner in axes[n + 1 :]}
            first = dict.fromkeys(last, Const(0))
            after = substitute(index, {axis.name: Binary("add", Var(axis.name), Const(1)), **first})
            step = form(after).plus(form(substitute(index, last)), -1)
            within = {**ranges, axis.name: (0, axis.extent - 2)}
            proved = proved and bounds_of_form(step, within)[0] >= 0
        if not proved:
            raise SpecError(
                f"{self.where}: the index {shown(self.node.body[1])} of {self.node.combiner} must "
                "not fall in row-major order over the reduce axes: of equal elements the first wins"
            )

    def _bound(self, expr: Expr, axes: set[str], why: str) -> None:
        for name in sorted(variables(expr) - axes):
            raise SpecError(f"{self.where}: {quoted(name)} {why}")

    def _attrs(self) -> None:
        node, attrs = self.node, self.node.attrs
        extents: Mapping[str, int] = {a.name: a.extent for a in (*node.axes, *node.reduce_axes)}
        for attr in ("unroll", "no_split_inner", "const_axes"):
            for name in getattr(attrs, attr):
                if name not in extents:
                    raise SpecError(f"{self.where}: {attr} names {quoted(name)}, not an axis")
        copies = prod(extents[name] for name in {*attrs.unroll, *attrs.const_axes})
        if copies > self.limits.unrolled:
            raise SpecError(
                f"{self.where}: unroll and const_axes ask for {copies} copies of the body, "
                f"limit {self.limits.unrolled}"
            )
        read = {read.tensor for read in node.reads}
        for name in attrs.layout_free:
            if name not in read:
                raise SpecError(
                    f"{self.where}: layout_free names {quoted(name)}, which it does not read"
                )
        if attrs.flop is not None and (
            type(attrs.flop) is not int or not 0 <= attrs.flop <= self.limits.flop
        ):
            raise SpecError(
                f"{self.where}: flop is {quoted(attrs.flop)}, not 0 to {self.limits.flop}"
            )


def _as_index(part: Expr) -> Expr | None:
    """Return an int32 part as int64: values that fit have the same order."""
    match part:
        case Const(value=value, dtype="int32"):
            return Const(int(value))
        case Cast(dtype="int32" | "int64", a=a) if a.dtype == INDEX:
            return a
        case _:
            return None


def _fits(index: Expr, ranges: Ranges, within: tuple[int, int]) -> bool:
    """Return if every integer part of an expression stays in an interval."""
    spans = [bounds(part, ranges) for part in walk(index) if part.dtype == INDEX]
    return all(within[0] <= low and high <= within[1] for low, high in spans)
