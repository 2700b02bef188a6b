"""Extents that are known only at run time: dims, and the Dag of one size.

A dim changes trip counts and offsets, never strides: a tensor is laid out for the largest size of
each of its dims, and a call works on the elements below the actual sizes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from ansorpy.errors import DimError, SpecError, quoted
from ansorpy.expr.build import mul
from ansorpy.expr.expr import Const, Expr, Var
from ansorpy.te.dag import Axis, Compute, Dag, Node
from ansorpy.te.limits import LIMITS, NAME
from ansorpy.te.size_weights import (
    Part,
    Representative,
    Weights,
    atoms,
    checked,
    parts_of,
    parts_text,
    represented,
    sizes_text,
    within,
)

Facts: TypeAlias = tuple[str, int, int, int, tuple[Part, ...]]
MOST_DIMS: Final = 4  # different dims of one Dag
GROWTH: Final = 8  # ratio of the largest sizes of neighbouring ranges with kernels of their own
TIMED: Final = 5  # sizes of a dim at which kernels are timed, at most


class Dim(int):
    """An extent from `low` to `high`, both included, that a call decides: a multiple of `step`.

    Its value as an int is `high`: memory, loops and features of a Dag with dims have the largest
    size. It equals a dim of the same name, range, step and weights, and no number.
    """

    name: str
    low: int
    step: int
    weights: tuple[Part, ...]  # distribution of the sizes of calls; (): not known
    terms: tuple[str | int, ...]  # names of dims, and a number, whose sum is the size; (): its own

    def __new__(
        cls,
        name: str,
        low: int,
        high: int,
        step: int = 1,
        weights: Iterable[Sequence[Any]] = (),
        terms: Iterable[str | int] = (),
    ) -> "Dim":
        """Return a dim.

        Args:
            weights: parts of a distribution (`te.size_weights`).
            terms: of a sum, such as the length of a cache behind the new rows. They are facts of a
                model; a Dag computes with the sum as with any dim, and dims of equal ranges are
                equal.

        Raises:
            SpecError: the name is no identifier, the range is empty or not of natural numbers, its
                ends are no multiples of the step, or a weight is none or of other sizes.
        """
        if not NAME.fullmatch(name):
            raise SpecError(f"cannot use {quoted(name)} as a dim; expected an ASCII identifier")
        for number, least_one in ((low, 0), (high, 1), (step, 1)):
            if type(number) is not int or not least_one <= number <= LIMITS.extent:
                by = "" if step == 1 else f" step {quoted(step)}"
                raise SpecError(
                    f"cannot take the range {quoted(low)}..{quoted(high)}{by} of dim {name};"
                    f" expected integers from 1 to {LIMITS.extent}"
                )
        if low > high:
            raise SpecError(
                f"cannot take the range {low}..{high} of dim {name} because it is empty;"
                f" expected {high}..{low}"
            )
        for end in (low, high):
            if end % step:
                raise SpecError(
                    f"cannot take the range {low}..{high} step {step} of dim {name} because {end}"
                    f" is no multiple; expected multiples of {step}"
                )
        made = super().__new__(cls, high)
        made.name, made.low, made.step, made.terms = name, low, step, tuple(terms)
        try:
            made.weights = checked(weights, low, high, step)
        except SpecError as error:
            raise SpecError(f"dim {name}: {error}") from None
        return made

    @property
    def high(self) -> int:
        """The largest size."""
        return int.__int__(self)

    @property
    def var(self) -> Var:
        """The variable of the number of steps; no loop and no named size has such a name."""
        return Var(f"~{self.name}")

    @property
    def counts(self) -> tuple[int, int]:
        """The least and the largest number of steps: the range of `var`."""
        return self.low // self.step, self.high // self.step

    @property
    def size(self) -> Expr:
        """The size in loops; as a multiple of the step, so that tiles are known to divide it."""
        return mul(self.var, Const(self.step))

    def has(self, size: int) -> bool:
        """Return True if a call may have this size."""
        return self.low <= size <= self.high and size % self.step == 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self.facts == other.facts

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.facts)

    @property
    def facts(self) -> Facts:
        """Name, least and largest size, step and weights."""
        return self.name, self.low, self.high, self.step, self.weights

    @property
    def range_text(self) -> str:
        """The range without weights: `N in 8..512 step 8`."""
        step = f" step {self.step}" if self.step > 1 else ""
        return f"{self.name} in {self.low}..{self.high}{step}"

    def __repr__(self) -> str:
        weights = f" @ {parts_text(self.weights)}" if self.weights else ""
        return f"{self.range_text}{weights}"

    __str__ = __repr__

    def __getnewargs__(self) -> tuple[Any, ...]:
        return *self.facts, self.terms


def own_sizes(dims: Iterable[Dim], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes of dims by name, without the sums."""
    return {one.name: sizes[one.name] for one in dims if not one.terms}


def _refused(name: str) -> Callable[..., Any]:
    def method(self: Dim, *_: object) -> Any:
        raise DimError(
            f"cannot compute with dim {self.name} ({self!r}) because only a call knows its size;"
            " expected it as a whole extent",
            self.name,
        )

    method.__name__ = name
    return method


class GivenDim(Dim):
    """A dim in the hands of a user: arithmetic with it is refused, because no number is its size.

    Nodes of a Dag hold plain dims (`shape_of`).
    """

    for _name in (
        "add", "radd", "sub", "rsub", "mul", "rmul", "floordiv", "rfloordiv", "truediv",
        "rtruediv", "mod", "rmod", "pow", "rpow", "divmod", "rdivmod", "neg", "abs", "lt", "le",
        "gt", "ge", "float", "index", "and", "rand", "or", "ror", "xor", "rxor", "lshift",
        "rlshift", "rshift", "rrshift", "invert",
    ):  # fmt: skip
        locals()[f"__{_name}__"] = _refused(f"__{_name}__")
    del _name


def plain(extent: Dim) -> Dim:
    """Return a dim as nodes hold it."""
    return Dim(*extent.facts)


def dims_in(extents: Iterable[object]) -> tuple[Dim, ...]:
    """Return the different dims among extents, in order."""
    found = (one if type(one) is Dim else plain(one) for one in extents if isinstance(one, Dim))
    return tuple(dict.fromkeys(found))


def sum_of(name: str, terms: Sequence[Dim | int]) -> Dim:
    """Return the dim whose size is the sum of dims and numbers; its weights are not known.

    The terms of a sum among them are its own terms.

    Raises:
        SpecError: the name is no identifier, or the largest size exceeds the limit of an extent.
    """
    dims = [one for one in terms if isinstance(one, Dim)]
    number = sum(one for one in terms if not isinstance(one, Dim))
    ends = (sum(map(least, dims)) + number, sum(one.high for one in dims) + number)
    parts = [part for one in dims for part in one.terms or (one.name,)]
    names = [part for part in parts if isinstance(part, str)]
    number += sum(part for part in parts if isinstance(part, int))
    return Dim(name, *ends, terms=(*names, number) if number else names)


def with_sums(dims: Iterable[Dim], sizes: Mapping[str, int]) -> dict[str, int]:
    """Return sizes of dims by name, with the sums among the dims whose terms have sizes."""
    found = dict(sizes)
    for one in dims:
        if one.terms and all(isinstance(term, int) or term in found for term in one.terms):
            found[one.name] = sum(found[t] if isinstance(t, str) else t for t in one.terms)
    return found


def least(extent: int) -> int:
    """Return the least size of an extent: of a number itself."""
    return extent.low if isinstance(extent, Dim) else extent


def given(extent: int) -> int:
    """Return an extent as users see it: arithmetic with a dim is refused."""
    return GivenDim(*extent.facts) if isinstance(extent, Dim) else extent


def dim(
    name: str, low: int, high: int, step: int = 1, weights: Weights = MappingProxyType({})
) -> Dim:
    """Return an extent that each call decides, from `low` to `high`, both included.

    Example:
        n = te.dim("N", 1, 512); a = te.placeholder((n, 768), "A")

    Args:
        step: a divisor of all sizes; a tile of such a size has no tail.
        weights: how often calls have a size, or one of a range: {1: 0.9, "8..512": 0.1}. Kernels
            are timed accordingly, and are right for every other size, too.

    Raises:
        SpecError: the name is no identifier, the range is empty or not of natural numbers, its ends
            are no multiples of the step, or a weight is none or of other sizes.
    """
    return GivenDim(name, low, high, step, parts_of(weights))


def dims_of(dag: Dag) -> tuple[Dim, ...]:
    """Return the dims of a Dag in the order of their first extents."""
    return dims_in(extent for node in dag.nodes for extent in extents_of(node))


def extents_of(node: Node) -> tuple[int, ...]:
    """Return all extents of a node, the reduce axes last."""
    reduced = node.reduce_axes if isinstance(node, Compute) else ()
    return (*node.shape, *(axis.extent for axis in reduced))


def extents_at(extents: Iterable[int], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """Return extents with the size, or a narrower dim, of each dim by name; other dims stay."""
    return tuple(sizes.get(one.name, one) if isinstance(one, Dim) else one for one in extents)


def too_large(
    what: str,
    extents: Iterable[int],
    amount: Callable[[Mapping[str, int]], int],
    most: int,
    text: Callable[[int], str],
) -> SpecError:
    """Return the error for dims whose largest sizes exceed a limit, with a range that fits.

    Args:
        what: the begin of the message, such as "cannot tune 'mm'".
        extents: extents, some of which are dims.
        amount: returns the need of sizes of dims by name.
        most: the limit.
        text: returns an amount for people, with its unit.
    """
    dims = dims_in(extents)
    high = {one.name: one.high for one in dims}
    named = " and ".join(map(repr, dims)) + (" needs" if len(dims) == 1 else " need")

    def fitting(dim: Dim) -> Dim | None:
        return _fitting(dim, lambda size: amount({**high, dim.name: size}) <= most)

    smaller = next((repr(one) for one in map(fitting, dims) if one is not None), "smaller sizes")
    return SpecError(
        f"{what} because {named} {text(amount(high))}; expected {smaller}, within {text(most)}"
    )


def _fitting(dim: Dim, fits: Callable[[int], bool]) -> Dim | None:
    """Return the largest range of a dim that fits; None if the least size does not."""
    least, most = dim.counts
    if not fits(dim.low):
        return None
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle * dim.step) else (least, middle - 1)
    return Dim(dim.name, dim.low, least * dim.step, dim.step)


def has_dims(extents: Iterable[int]) -> bool:
    """Return True if a call decides some of the extents."""
    return any(isinstance(one, Dim) for one in extents)


def at_sizes(dag: Dag, sizes: Mapping[str, int]) -> Dag:
    """Return the Dag that a call of these sizes computes.

    Args:
        sizes: by name, the size of a dim, or a narrower dim; other dims stay.
    """

    def axes(given: Sequence[Axis]) -> tuple[Axis, ...]:
        numbers = extents_at((axis.extent for axis in given), sizes)
        return tuple(replace(axis, extent=n) for axis, n in zip(given, numbers, strict=True))

    def node(given: Node) -> Node:
        if isinstance(given, Compute):
            reduced = axes(given.reduce_axes)
            return replace(given, axes=axes(given.axes), reduce_axes=reduced)
        return replace(given, shape=extents_at(given.shape, sizes))

    return replace(dag, nodes=tuple(map(node, dag.nodes)))


def timed_sizes(dag: Dag) -> tuple[dict[str, int], ...]:
    """Return the sizes at which kernels are timed, rising: of a distribution those that represent
    it, else of each dim the least, the largest, and between.

    Dims grow together. A Dag without dims has one size, {}.
    """
    return spread(dims_of(dag))


def spread(dims: Sequence[Dim]) -> tuple[dict[str, int], ...]:
    """Return up to TIMED sizes of dims, as `timed_sizes` does."""
    names = [one.name for one in dims]
    every = (dict(zip(names, one.sizes, strict=True)) for one in _timed(tuple(dims)))
    return tuple(with_sums(dims, sizes) for sizes in every)


def spread_weights(dims: Sequence[Dim]) -> tuple[float, ...]:
    """Return the weights of `spread`; () if no distribution of sizes is given."""
    given = any(one.weights for one in dims)
    return tuple(one.weight for one in _timed(tuple(dims))) if given else ()


def timed_weights(dag: Dag) -> tuple[float, ...]:
    """Return the weights of `timed_sizes` in the cost of a kernel; equal ones are 1."""
    return tuple(one.weight for one in _timed(dims_of(dag)))


def ends_of(dag: Dag) -> tuple[dict[str, int], dict[str, int]]:
    """Return the least and the largest sizes of all dims."""
    dims = dims_of(dag)
    return {one.name: one.low for one in dims}, {one.name: one.high for one in dims}


@lru_cache(maxsize=64)
def _timed(dims: tuple[Dim, ...]) -> tuple[Representative, ...]:
    if any(one.weights for one in dims):
        every = [atoms(one.weights or [(one.low, one.high, 1.0)], one.step) for one in dims]
        return tuple(represented(every, TIMED))
    last = max((min(one.counts[1] - one.counts[0], TIMED - 1) for one in dims), default=0)
    return tuple(
        Representative(tuple(_between(one, k, max(1, last)) for one in dims), 1.0)
        for k in range(last + 1)
    )


def _between(dim: Dim, part: int, parts: int) -> int:
    """Return the size at a part of the way from the least to the largest one, rounded down."""
    low, high = dim.counts
    return (low + (high - low) * part // parts) * dim.step


def timed_by_dim(dag: Dag) -> dict[str, tuple[int, ...]]:
    """Return, by dim, the sizes at which kernels are timed."""
    sizes = timed_sizes(dag)
    return {one.name: tuple(each[one.name] for each in sizes) for one in dims_of(dag)}


def sizes_of(dag: Dag, shapes: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """Return the size of each dim of a call, given the shapes of its inputs by name.

    Raises:
        SpecError: two inputs have different sizes of a dim, or a size is out of range.
    """
    found: dict[str, int] = {}
    for node in dag.placeholders:
        for extent, size in zip(node.shape, shapes[node.name], strict=True):
            if not isinstance(extent, Dim):
                continue
            if not extent.has(size) or found.setdefault(extent.name, size) != size:
                raise SpecError(
                    f"cannot evaluate {dag.name!r} because {node.name} has {extent.name} = {size};"
                    f" expected {found.get(extent.name, repr(extent))}"
                )
    return found


def widest(dag: Dag) -> Dag:
    """Return the Dag without dims of the largest sizes."""
    return at_sizes(dag, ends_of(dag)[1])


def ranges_of(dag: Dag, most: int) -> tuple[Dim, ...]:
    """Return the ranges of a dim that get kernels of their own, from the least sizes on.

    They end at 1, 8, 64 ..., rounded down to the step, and at the largest size; the last one has
    several sizes, and a range without weight joins a neighbour. (): one kernel serves all sizes. No
    stride of an array may depend on the dim: then all kernels take the same arrays. Of several such
    dims, it is the dim with the largest ratio of sizes.

    Args:
        most: the number of ranges, at most.
    """
    free = [dim for dim in dims_of(dag) if _leads(dag, dim)]
    dim = max(free, key=lambda one: one.high / one.low, default=None)
    ends, end = [], 1
    while dim is not None and 2 * end <= dim.high:
        size = end // dim.step * dim.step
        ends += [size] if dim.low <= size <= dim.high - 2 * dim.step else []
        end *= GROWTH
    ends = [] if dim is None else _with_weight(dim, ends)[: max(0, most - 1)]
    if dim is None or not ends:
        return ()
    lows = [dim.low, *(end + dim.step for end in ends)]
    return tuple(_narrowed(dim, *both) for both in zip(lows, [*ends, dim.high], strict=True))


def any_range_of(dag: Dag, most: int) -> tuple[Dim, ...]:
    """Return the ranges that get kernels of their own if a dim has at most `most`, or fewer."""
    counts = range(1, most + 1)
    return tuple(dict.fromkeys(sizes for count in counts for sizes in ranges_of(dag, count)))


def _with_weight(dim: Dim, ends: Sequence[int]) -> list[int]:
    """Return the ends of ranges that calls will have; a range without weight joins a neighbour."""
    if not dim.weights:
        return list(ends)
    kept, low = list[int](), dim.low
    for end in ends:
        if within(dim.weights, low, end, dim.step):
            kept.append(end)
            low = end + dim.step
    return kept if within(dim.weights, low, dim.high, dim.step) else kept[:-1]


def _narrowed(dim: Dim, low: int, high: int) -> Dim:
    return Dim(dim.name, low, high, dim.step, within(dim.weights, low, high, dim.step))


def _leads(dag: Dag, dim: Dim) -> bool:
    """Return whether no array of a call has an axis outside of an axis of a dim."""
    arrays = (*dag.placeholders, *map(dag.node, dag.outputs))
    return not any(
        extent == dim and any(outer != 1 for outer in node.shape[:axis])
        for node in arrays
        for axis, extent in enumerate(node.shape)
    )


def in_range(dag: Dag, sizes: Dim) -> Dag:
    """Return the Dag whose dim has a range of `ranges_of`; of one size, a number.

    It is called as the Dag with the range behind it.
    """
    size = sizes if sizes.low < sizes.high else int(sizes)
    part = at_sizes(dag, {sizes.name: size})
    return replace(part, name=f"{dag.name}_{sizes.name}_{sizes.low}_{sizes.high}")


def extents_as_json(shape: Sequence[int]) -> list[Any]:
    """Return extents as JSON: an integer, or {"dim", "low", "high"}, with "step" and "weights"."""
    return [_as_json(one) if isinstance(one, Dim) else one for one in shape]


def _as_json(dim: Dim) -> dict[str, Any]:
    found: dict[str, Any] = {"dim": dim.name, "low": dim.low, "high": dim.high}
    found |= {"step": dim.step} if dim.step > 1 else {}
    weights = {sizes_text(low, high): weight for low, high, weight in dim.weights}
    return found | ({"weights": weights} if weights else {})
