"""Phases: leave out the products with the zeros that a transposed convolution spreads."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from ansorpy.expr.expr import Binary, Const, Expr, Read, Select, Var, substitute, variables
from ansorpy.expr.intervals import Form, form, simplify
from ansorpy.expr.products import conjuncts, factors, is_zero, with_factor
from ansorpy.te.analysis import Answer, no, yes
from ansorpy.te.dag import Axis, Compute, Node

MAX_PHASES: Final = 16  # phases per dimension


@dataclass(frozen=True, slots=True)
class Walk:
    """A dimension in which `axis + reduce + offset` reads data at every `stride`-th position only.

    `(axis + reduce + offset - first) % stride == 0`, else the term of the sum is zero.
    """

    dimension: int  # dimension of the spread producer
    axis: Axis
    reduce: Axis
    offset: int
    first: int
    stride: int

    @property
    def shift(self) -> int:
        """The remainder of the first position by the stride."""
        return (self.first - self.offset) % self.stride

    @property
    def exact(self) -> bool:
        """True if phases can be the remainders of the output position, with affine indices.

        Otherwise they are the remainders of the tap, and some phases have an unused position.
        """
        return self.stride == 2 or self.shift == self.stride - 1

    @property
    def outputs(self) -> int:
        """The number of output positions of the longest phase."""
        if self.exact:
            return -(-self.axis.extent // self.stride)
        return -(-(self.axis.extent - 1 - self.shift) // self.stride) + 1

    @property
    def dense_extent(self) -> int:
        """The number of positions of the data, with zeros around it, that the phases read."""
        late = self.exact and self.shift != self.stride - 1
        return self.outputs + self.taps - 1 + late

    def residue(self) -> Expr:
        """Return the remainder of the taps that a phase takes."""
        phase = Var(self.phase)
        last = self.exact and self.shift == self.stride - 1
        return Binary("sub", Const(self.shift), phase) if last else phase

    def place(self) -> Expr:
        """Return the place of the data that an output position and a tap of a phase meet."""
        met = Binary("add", Var(self.axis.name), Var(self.reduce.name))
        late = self.exact and self.shift != self.stride - 1
        return Binary("add", met, Var(self.phase)) if late else met

    def phase_of(self) -> tuple[Expr, Expr]:
        """Return the phase of an output position, and its number within the phase."""
        at, stride = Var(self.axis.name), Const(self.stride)
        if self.exact:
            return Binary("mod", at, stride), Binary("floordiv", at, stride)
        ahead = Binary("add", at, Const(self.stride - 1 - self.shift))
        away = Binary("sub", Const(self.shift), at)
        return Binary("mod", away, stride), Binary("floordiv", ahead, stride)

    @property
    def taps(self) -> int:
        """Reduction steps per phase."""
        return -(-self.reduce.extent // self.stride)

    @property
    def phase(self) -> str:
        """The name of the new axis."""
        return f"{self.axis.name}_phase"


def find_walks(spread: Node, consumer: Node) -> tuple[tuple[Walk, ...], Answer]:
    """Return the dimensions in which `consumer` meets data at every n-th place only.

    A transposed convolution of stride s meets data, at an output position h, only with the taps r
    where (h + r - first) % s == 0; the others meet zeros. All positions h of one remainder meet
    the same taps: a plain convolution with 1/s of the taps per dimension.
    """
    if not isinstance(spread, Compute) or not isinstance(consumer, Compute):
        return (), no(f"{spread.name} is an input")
    body = spread.body[0]
    if spread.combiner is not None or not isinstance(body, Select) or not is_zero(body.other):
        return (), no(f"{spread.name} is not a tensor spread with zeros")
    taken = [read for read in consumer.reads if read.tensor == spread.name]
    if consumer.combiner != "sum" or len(taken) != 1:
        return (), no(f"{consumer.name} is not a sum that reads {spread.name} once")
    if taken[0] not in factors(consumer.body[0]):
        return (), no(f"{spread.name} is not a factor of {consumer.name}")
    walks = tuple(_find(spread, consumer, taken[0], body.cond))
    if not walks:
        return (), no(f"{spread.name} holds no zeros between its elements")
    told = ", ".join(f"every {w.stride}. place along {w.axis.name}" for w in walks)
    return walks, yes(f"{consumer.name} meets {spread.name} at {told}")


def phased(
    spread: Compute, consumer: Compute, walks: tuple[Walk, ...]
) -> tuple[Compute, Compute, Compute]:
    """Return (dense data, sums with an axis per phase, joined tensor of the consumer's name).

    The terms left out are products with literal zeros; the order of the others stays.
    """
    dense = _dense(spread, walks)
    sums = _sums(consumer, spread, dense, walks)
    return dense, sums, _joined(consumer, sums, walks)


def _find(spread: Compute, consumer: Compute, taken: Read, cond: Expr) -> Iterator[Walk]:
    for dimension, (first, stride) in _strides(spread, cond).items():
        step = _step(consumer, taken, dimension)
        if step is not None and 1 < stride <= MAX_PHASES:
            axis, reduce, offset = step
            yield Walk(dimension, axis, reduce, offset, first, stride)


def _strides(spread: Compute, cond: Expr) -> Mapping[int, tuple[int, int]]:
    """Return (first, stride) by dimension from conjuncts `(axis - first) % stride == 0`."""
    places = {axis.name: at for at, axis in enumerate(spread.axes)}
    strides = {}
    for conjunct in conjuncts(cond):
        match conjunct:
            case Binary(op="eq", a=Binary(op="mod", a=inner, b=Const(value=stride)), b=other) if (
                is_zero(other)
            ):
                of = form(inner)
                match list(of.terms.items()):
                    case [(Var(name=name), 1)] if name in places:
                        strides[places[name]] = (-of.const, int(stride))
            case _:
                pass
    return strides


def _step(consumer: Compute, read: Read, dimension: int) -> tuple[Axis, Axis, int] | None:
    """Return (axis, reduce axis, offset) of an index `axis + reduce + offset` met nowhere else."""
    of: Form = form(read.indices[dimension])
    if len(of.terms) != 2 or any(coef != 1 for coef in of.terms.values()):
        return None
    names = [atom.name for atom in of.terms if isinstance(atom, Var)]
    axes = [axis for axis in consumer.axes if axis.name in names]
    reduces = [axis for axis in consumer.reduce_axes if axis.name in names]
    if len(axes) != 1 or len(reduces) != 1:
        return None
    mask = replace(read, indices=_without(read.indices, dimension))
    rest = with_factor(consumer.body[0], read, mask)
    alone = axes[0].name not in variables(rest)
    return (axes[0], reduces[0], of.const) if alone else None


def _without(indices: tuple[Expr, ...], dimension: int) -> tuple[Expr, ...]:
    return tuple(Const(0) if at == dimension else index for at, index in enumerate(indices))


def _dense(spread: Compute, walks: tuple[Walk, ...]) -> Compute:
    """Return the producer at the places that hold data (and zeros around them)."""
    axes = list(spread.axes)
    place: dict[str, Expr] = {}
    for w in walks:
        axis = axes[w.dimension]
        axes[w.dimension] = Axis(axis.name, w.dense_extent)
        scaled = Binary("mul", Var(axis.name), Const(w.stride))
        place[axis.name] = Binary("add", scaled, Const(w.shift + w.offset))
    ranges = {axis.name: (0, axis.extent - 1) for axis in axes}
    body = simplify(substitute(spread.body[0], place), ranges)
    return replace(spread, name=f"{spread.name}_dense", axes=tuple(axes), body=(body,))


def _sums(consumer: Compute, spread: Compute, dense: Compute, walks: tuple[Walk, ...]) -> Compute:
    """Return the sum with one axis per phase in front of the first split axis."""
    axes, reduces = list(consumer.axes), list(consumer.reduce_axes)
    place: dict[str, Expr] = {}
    inside: list[Expr] = []
    (read,) = (r for r in consumer.reads if r.tensor == spread.name)
    indices = list(read.indices)
    for w in walks:
        axes[axes.index(w.axis)] = Axis(w.axis.name, w.outputs)
        reduces[reduces.index(w.reduce)] = Axis(w.reduce.name, w.taps)
        tap = Binary("add", Binary("mul", Var(w.reduce.name), Const(w.stride)), w.residue())
        place[w.reduce.name] = tap
        indices[w.dimension] = w.place()
        if w.taps * w.stride != w.reduce.extent:
            inside.append(Binary("lt", tap, Const(w.reduce.extent)))
    at = min(axes.index(Axis(w.axis.name, w.outputs)) for w in walks)
    axes[at:at] = [Axis(w.phase, w.stride) for w in walks]
    ranges = {axis.name: (0, axis.extent - 1) for axis in (*axes, *reduces)}
    moved = Read(dense.name, tuple(indices), read.dtype)
    hole = Read(dense.name, (), read.dtype)  # keeps the moved indices out of the substitution
    body = substitute(with_factor(consumer.body[0], read, hole), place)
    body = simplify(with_factor(body, hole, moved), ranges)
    for cond in inside:
        body = Select(cond, body, Const(0.0, consumer.dtype))
    return replace(
        consumer,
        name=f"{consumer.name}_phases",
        axes=tuple(axes),
        reduce_axes=tuple(reduces),
        body=(body,),
    )


def _joined(consumer: Compute, sums: Compute, walks: tuple[Walk, ...]) -> Compute:
    """Return the tensor of the old name: every position from its phase."""
    found = {}
    for w in walks:
        found[w.phase], found[w.axis.name] = w.phase_of()
    ranges = {axis.name: (0, axis.extent - 1) for axis in consumer.axes}
    indices = [found.get(axis.name, Var(axis.name)) for axis in sums.axes]
    taken = Read(sums.name, tuple(simplify(index, ranges) for index in indices), consumer.dtype)
    return Compute(consumer.name, consumer.axes, (taken,), consumer.dtypes)
