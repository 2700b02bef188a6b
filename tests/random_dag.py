"""Small random Dags that are valid by construction: the fuel of property tests.

Values stay tame for inputs of a few units: every expression carries a rough bound of its size,
and a value that would grow too large goes through tanh; divisors and arguments of log and sqrt
stay away from zero; exp sees only small arguments.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ansorpy import te
from ansorpy.expr.dtypes import FLOATS, INDEX, UNSIGNED
from ansorpy.te.dag import Dag
from tests.random_terms import ARGS, COMBINERS, Term, as_dtype, bent, mixed, small

INPUT_SIZE: Final = 8.0


@dataclass(frozen=True, slots=True)
class DagLimits:
    """Limits of a random Dag, all inclusive."""

    computes: int = 5
    extent: int = 20
    points: int = 200_000  # iterations of one node
    rank: int = 4
    dtypes: tuple[str, ...] = ("float32", "float32", "float32", "float64", "int32")  # as drawn


@dataclass(frozen=True, eq=False, slots=True)
class _Item:
    tensor: te.Tensor
    size: float


_At = tuple[te.Scalar, int]  # an index and its extent


def random_dag(rng: np.random.Generator, limits: DagLimits | None = None) -> Dag:
    """Return a random valid Dag; the same state of `rng` gives the same Dag."""
    maker = _Maker(rng, limits or DagLimits())
    for _ in range(int(rng.integers(1, maker.limits.computes + 1))):
        maker.grow()
    return maker.finish()


def random_inputs(
    rng: np.random.Generator, dag: Dag, whole: bool = False
) -> dict[str, NDArray[Any]]:
    """Return inputs for a Dag: normal floats and small integers, or (`whole`) all small integers.

    bfloat16 comes as float32.
    """
    found: dict[str, NDArray[Any]] = {}
    for node in dag.placeholders:
        numbers: NDArray[Any] = rng.integers(0 if node.dtype in UNSIGNED else -4, 5, node.shape)
        if node.dtype in FLOATS and not whole:
            numbers = np.clip(rng.normal(size=node.shape), -INPUT_SIZE, INPUT_SIZE)
        if node.dtype == "bool":
            numbers = numbers > 0
        found[node.name] = numbers.astype("float32" if node.dtype == "bfloat16" else node.dtype)
    return found


@dataclass
class _Maker:
    """Grows a pool of tensors node by node."""

    rng: np.random.Generator
    limits: DagLimits
    pool: list[_Item] = field(default_factory=list)  # computed tensors, oldest first
    inputs: list[_Item] = field(default_factory=list)
    used: set[int] = field(default_factory=set)  # positions in `pool` that something reads

    def grow(self) -> None:
        """Add one compute node."""
        kinds = (
            self._pointwise, self._pointwise, self._product, self._product, self._window,
            self._pad, self._reduce, self._reduce, self._arg, self._reshape,
        )  # fmt: skip
        kinds[int(self.rng.integers(len(kinds)))]()

    def finish(self) -> Dag:
        """Return the Dag of all that nothing reads, and sometimes of one node that is read."""
        outputs = [item.tensor for at, item in enumerate(self.pool) if at not in self.used]
        if self.rng.random() < 0.3:
            outputs.append(self.pool[int(self.rng.integers(len(self.pool)))].tensor)
        return te.dag(outputs, "random")

    def _source(self, least_rank: int = 0) -> _Item:
        """Return a computed tensor, mostly a late one, or an input."""
        ranks = [len(item.tensor.shape) for item in self.pool]
        fitting = [at for at, rank in enumerate(ranks) if rank >= least_rank]
        if fitting and self.rng.random() < 0.75:
            at = fitting[-1] if self.rng.random() < 0.6 else int(self.rng.choice(fitting))
            self.used.add(at)
            return self.pool[at]
        known = [item for item in self.inputs if len(item.tensor.shape) >= least_rank]
        if known and self.rng.random() < 0.3:
            return known[int(self.rng.integers(len(known)))]
        return self._input(self._shape(int(self.rng.integers(least_rank, 4))))

    def _input(self, shape: Sequence[int]) -> _Item:
        dtype = self._dtype()
        constant = bool(self.rng.random() < 0.1)
        tensor = te.placeholder(shape, f"X{len(self.inputs)}", dtype, constant)
        self.inputs.append(_Item(tensor, INPUT_SIZE))
        return self.inputs[-1]

    def _dtype(self) -> str:
        return str(self.rng.choice(self.limits.dtypes))

    def _shape(self, rank: int, points: int | None = None) -> tuple[int, ...]:
        """Return extents with at most `points` elements, extent 1 now and then."""
        left, shape = points or self.limits.points, list[int]()
        for _ in range(rank):
            most = max(1, min(self.limits.extent, left))
            extent = 1 if self.rng.random() < 0.1 else int(self.rng.integers(1, most + 1))
            shape.append(extent)
            left //= extent
        return tuple(shape)

    def _read(self, item: _Item, axes: Sequence[_At], dtype: str) -> Term:
        """Read with indices made of `axes`: straight, turned, strided, shifted, modulo, divided."""
        indices = [self._index(extent, axes) for extent in item.tensor.shape]
        return as_dtype(Term(item.tensor[tuple(indices)], item.size), dtype)

    def _index(self, extent: int, axes: Sequence[_At]) -> te.Scalar:
        same = [at for at in axes if at[1] == extent]
        if not axes or self.rng.random() < 0.03:
            return te.const(int(self.rng.integers(extent)), INDEX)
        if same and self.rng.random() < 0.7:
            return same[int(self.rng.integers(len(same)))][0]
        i, count = axes[int(self.rng.integers(len(axes)))]
        if count > extent:
            return i % extent if self.rng.random() < 0.5 else i // -(-count // extent)
        stride = int(self.rng.integers(1, max(1, (extent - 1) // max(1, count - 1)) + 1))
        if count == 1 or self.rng.random() < 0.4:
            stride = 1
        spare = extent - 1 - stride * (count - 1)
        place = i if stride == 1 else i * stride
        choice = self.rng.random()
        if choice < 0.2:
            return (extent - 1) - place
        shift = int(self.rng.integers(spare + 1))
        return place + shift if shift and choice < 0.7 else place

    def _build(
        self,
        shape: Sequence[int],
        extents: Sequence[int],
        body: Callable[[list[_At], list[_At]], Term],
        combiner: str | None = None,
    ) -> None:
        """Add a node of `shape` that reduces `extents`; body(spatial, reduced) is a term."""
        axes = [te.reduce_axis((0, extent), f"r{n}") for n, extent in enumerate(extents)]
        reduced: list[_At] = [(axis, axis.extent) for axis in axes]
        sizes: list[float] = []

        def whole(i: Sequence[te.Scalar]) -> Any:
            term = body(list(zip(i, shape, strict=True)), reduced)
            sizes.append(term.size)
            if combiner is None:
                return term.scalar
            if combiner in ("argmax", "argmin"):
                return ARGS[combiner](term.scalar, axes)
            return COMBINERS[combiner](term.scalar, axes, self._start(term))

        made = te.compute(
            shape, lambda *i: whole(i), f"T{len(self.pool)}",
            axes=[f"i{n}" for n in range(len(shape))],
        )  # fmt: skip
        count = prod(extents)
        grown = {"sum": sizes[0] * count + 1, "prod": 2.0}.get(combiner or "", sizes[0])
        for output, tensor in enumerate(made if isinstance(made, tuple) else (made,)):
            self.pool.append(_Item(tensor, float(count) if output else grown))
        if isinstance(made, tuple):  # both outputs are one node: reading either uses it
            self.used.add(len(self.pool) - 1)

    def _start(self, term: Term) -> te.Scalar | None:
        return te.cast(1, term.scalar.dtype) if self.rng.random() < 0.1 else None

    def _pointwise(self) -> None:
        sources = [self._source() for _ in range(int(self.rng.integers(1, 4)))]
        dtype = self._dtype()
        shape = sources[0].tensor.shape
        if self.rng.random() < 0.3:
            shape = self._shape(int(self.rng.integers(0, self.limits.rank + 1)))

        def body(at: list[_At], _: list[_At]) -> Term:
            term = bent(self.rng, self._read(sources[0], at, dtype))
            for source in sources[1:]:
                term = mixed(self.rng, term, bent(self.rng, self._read(source, at, dtype)))
            return bent(self.rng, term)

        self._build(shape, (), body)

    def _product(self) -> None:
        """A contraction of two tensors, by chance with batch axes, transposed reads, a factor that
        a condition guards, or another combiner than the sum.
        """
        dtype = self._dtype()
        kept = self._shape(int(self.rng.integers(1, 4)), self.limits.points // 8)
        extents = self._shape(int(self.rng.integers(1, 3)), self.limits.points // prod(kept))
        sides = [int(self.rng.integers(3)) for _ in kept]  # left, right or both
        sources, short = [self._source(1), self._source(1)], 0
        if self.rng.random() < 0.6:  # the plain case: inputs of just the right shape
            left = [n for n, side in zip(kept, sides, strict=True) if side != 1]
            right = [n for n, side in zip(kept, sides, strict=True) if side != 0]
            if self.rng.random() < 0.3:  # shorter than the axis: zero where it ends
                short = int(self.rng.integers(1, extents[-1] + 1))
                sources[1] = self._input((*right, *extents[:-1], short))
            else:
                sources[1] = self._input((*right, *extents))
            if self.rng.random() < 0.5:
                sources[0] = self._input((*left, *extents))

        def body(at: list[_At], over: list[_At]) -> Term:
            near = [axis for axis, side in zip(at, sides, strict=True) if side != 1]
            far = [axis for axis, side in zip(at, sides, strict=True) if side != 0]
            a = small(self._read(sources[0], [*near, *over], dtype))
            if not short:
                b = small(self._read(sources[1], [*far, *over], dtype))
                return Term(a.scalar * b.scalar, a.size * b.size)
            index = tuple(i for i, _ in (*far, *over))
            b = small(as_dtype(Term(sources[1].tensor[index], sources[1].size), dtype))
            guarded = te.select(over[-1][0] < short, b.scalar, te.cast(0, dtype))
            return Term(a.scalar * guarded, a.size * b.size)

        others = ["max", "min", "argmax", "argmin"]
        combiner = str(self.rng.choice(others)) if self.rng.random() < 0.2 else "sum"
        self._build(kept, extents, body, combiner)

    def _window(self) -> None:
        """A window over the last dimensions: a convolution with weights, or pooling."""
        source = self._source(2)
        dtype, shape = self._dtype(), source.tensor.shape
        width = int(self.rng.integers(1, 3))
        stride, step = int(self.rng.integers(1, 3)), int(self.rng.integers(1, 3))
        most = [min(4, (n - 1) // step + 1) for n in shape[-width:]]
        kernel = [int(self.rng.integers(1, n + 1)) for n in most]
        places = [
            (n - step * (k - 1) - 1) // stride + 1
            for n, k in zip(shape[-width:], kernel, strict=True)
        ]
        lead = shape[:-width]
        filters = self._shape(1, 12) if lead and self.rng.random() < 0.5 else ()
        extents = (*(lead[-1:] if filters else ()), *kernel)
        kept = (*(lead[:-1] if filters else lead), *filters, *places)
        if prod(kept) * prod(extents) > self.limits.points:
            return self._pointwise()
        weights = self._input((*filters, *extents)) if filters else None

        def body(at: list[_At], over: list[_At]) -> Term:
            window = [
                i * stride + r * step
                for (i, _), (r, _) in zip(at[-width:], over[-width:], strict=True)
            ]
            first = [i for i, _ in at[: len(lead) - bool(filters)]]
            index = (*first, *(r for r, _ in over[:-width]), *window)
            term = as_dtype(Term(source.tensor[index], source.size), dtype)
            if weights is None:
                return term
            term, own = small(term), tuple(r for r, _ in over)
            weight = as_dtype(Term(weights.tensor[(at[len(lead) - 1][0], *own)], INPUT_SIZE), dtype)
            return Term(term.scalar * weight.scalar, term.size * weight.size)

        pooling = str(self.rng.choice(["sum", "max", "min"]))
        return self._build(kept, extents, body, "sum" if filters else pooling)

    def _pad(self) -> None:
        source = self._source(1)
        before = [int(self.rng.integers(3)) for _ in source.tensor.shape]
        shape = [
            b + n + int(self.rng.integers(3))
            for b, n in zip(before, source.tensor.shape, strict=True)
        ]
        if prod(shape) > self.limits.points:
            return self._pointwise()

        def body(at: list[_At], _: list[_At]) -> Term:
            inside = [
                condition
                for (i, _), b, n in zip(at, before, source.tensor.shape, strict=True)
                for condition in (i >= b, i < b + n)
            ]
            element = source.tensor[tuple(i - b for (i, _), b in zip(at, before, strict=True))]
            return Term(te.select(te.all(*inside), element, 0), source.size)

        return self._build(shape, (), body)

    def _reshape(self) -> None:
        """Read a tensor in row-major order under another shape: floor divisions and modulos."""
        source = self._source(1)
        total = prod(source.tensor.shape)
        last = int(self.rng.integers(1, min(total, self.limits.extent) + 1))
        shape = (total // last, last)

        def body(at: list[_At], _: list[_At]) -> Term:
            flat, below = at[0][0] * last + at[1][0], total
            index: list[te.Scalar] = []
            for extent in source.tensor.shape:
                below //= extent
                index.append(flat // below % extent)
            return Term(source.tensor[tuple(index)], source.size)

        self._build(shape, (), body)

    def _reduce(self) -> None:
        source = self._source(1)
        dtype = self._dtype()
        combiner = str(self.rng.choice(["sum", "sum", "max", "min", "prod"]))
        body = self._over(source, dtype, combiner)
        self._build(*body, combiner)

    def _arg(self) -> None:
        source = self._source(1)
        combiner = str(self.rng.choice(["argmax", "argmin"]))
        self._build(*self._over(source, source.tensor.dtype, combiner), combiner)

    def _over(
        self, source: _Item, dtype: str, combiner: str
    ) -> tuple[list[int], list[int], Callable[[list[_At], list[_At]], Term]]:
        """Return the shape, the reduced extents and the body of a reduction of some dimensions."""
        shape = source.tensor.shape
        gone = [bool(self.rng.random() < 0.5) for _ in shape]
        gone[int(self.rng.integers(len(shape)))] = True

        def body(at: list[_At], over: list[_At]) -> Term:
            kept, reduced = iter(at), iter(over)
            index = tuple(next(reduced if away else kept)[0] for away in gone)
            term = as_dtype(Term(source.tensor[index], source.size), dtype)
            if combiner == "prod" and dtype in FLOATS:
                return Term(te.tanh(term.scalar) * 0.1 + 1.0, 1.1)
            return bent(self.rng, term) if combiner in ("sum", "max", "min") else term

        own = [n for n, away in zip(shape, gone, strict=True) if not away]
        return own, [n for n, away in zip(shape, gone, strict=True) if away], body
