"""Random small graphs over the operators that the table has, for tests of passes.

    graph = random_graph(seed)
    inputs = random_inputs(graph, seed)

Shapes have at most 4 axes and a few hundred elements. Constants are often 0, 1 or small integers,
transposes are often undone, and nodes often read the newest value, so that passes find sites.
"""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np

from ansorpy.errors import GraphError
from ansorpy.graph import Graph
from ansorpy.graph.builder import GraphBuilder
from ansorpy.graph.graph import Array, Attribute
from ansorpy.graph.operator import OPERATORS

Maker = Callable[["Draft"], None]


class Draft:
    """A graph under construction and the source of randomness."""

    def __init__(self, seed: int, dtype: str = "float32") -> None:
        self.dtype = dtype
        self.rng = np.random.default_rng(seed)
        self.builder = GraphBuilder(f"random{seed}")
        self.live: list[str] = []  # values of `dtype`, oldest first
        self._count = 0

    def name(self) -> str:
        self._count += 1
        return f"v{self._count}"

    def pick(self, rank: int | None = None) -> str | None:
        """Return a live value, the newest with probability 1/2; of one rank if it is given."""
        fits = [one for one in self.live if rank is None or len(self.shape(one)) == rank]
        if not fits:
            return None
        return fits[-1] if self.rng.random() < 0.5 else str(self.rng.choice(fits))

    def shape(self, name: str) -> tuple[int, ...]:
        return self.builder.values[name].fixed_shape

    def chance(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def constant(self, shape: tuple[int, ...], plain: bool = True) -> str:
        """Add a constant: often of one value, such as 0, -0 or 1."""
        if plain and self.chance(0.5):
            value = self.rng.choice(np.array([0.0, -0.0, 1.0, 2.0, 0.5, 3.0, -1.0]))
            return self.builder.constant(self.name(), np.full(shape, value, self.dtype))
        values = self.rng.uniform(0.25, 2, shape) * self.rng.choice([-1, 1], shape)
        return self.builder.constant(self.name(), values.astype(self.dtype))

    def scalar(self, number: float) -> str:
        return self.builder.constant(self.name(), np.array(number, self.dtype))

    def positive(self, shape: tuple[int, ...]) -> str:
        return self.builder.constant(
            self.name(), self.rng.uniform(0.25, 2, shape).astype(self.dtype)
        )

    def ints(self, *values: int) -> str:
        return self.builder.constant(self.name(), np.array(values, np.int64))

    def node(self, op: str, *inputs: str, **attrs: Attribute) -> str | None:
        """Add a node of one output and return its value; None if the table has no such node."""
        if op not in OPERATORS:
            return None
        try:
            (name,) = self.builder.add(op, inputs, (self.name(),), attrs)
        except GraphError:
            return None
        value = self.builder.values[name]
        if value.dtype == self.dtype and 0 < prod(value.fixed_shape) <= 2048:
            self.live.append(name)
        return name


def _unary(on: Draft) -> None:
    ops = ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Erf", "Exp", "Floor", "Sqrt", "Identity")
    if x := on.pick():
        on.node(str(on.rng.choice(ops)), x)


def _binary(on: Draft) -> None:
    if not (x := on.pick()):
        return
    shape = on.shape(x)
    if on.chance(0.6):
        keep = int(on.rng.integers(0, len(shape) + 1))
        y = on.constant(tuple(n if on.chance(0.7) else 1 for n in shape[keep:]))
    else:
        same = [one for one in on.live if on.shape(one) == shape]
        y = str(on.rng.choice(same))
    op = str(on.rng.choice(["Add", "Mul", "Sub", "Div", "Pow"]))
    on.node(op, *((x, y) if on.chance(0.7) else (y, x)))


def _cast(on: Draft) -> None:
    if x := on.pick():
        on.node("Cast", x, to=on.dtype)


def _twice(on: Draft) -> None:
    """Add a node that the graph has already."""
    if not on.builder.producers:
        return
    names = list(on.builder.producers)
    node = on.builder.producers[str(on.rng.choice(names))]
    on.node(node.op, *node.inputs, **node.attrs)


def _transpose(on: Draft) -> None:
    if not (x := on.pick()):
        return
    perm = tuple(int(n) for n in on.rng.permutation(len(on.shape(x))))
    y = on.node("Transpose", x, perm=perm)
    if y and on.chance(0.5):
        y = on.node("Relu", y) if on.chance(0.5) else y
        if y:
            on.node("Transpose", y, perm=tuple(int(n) for n in np.argsort(perm)))


def _view(on: Draft) -> None:
    if not (x := on.pick()):
        return
    shape = on.shape(x)
    match on.rng.integers(0, 5):
        case 0:
            on.node("Flatten", x, axis=int(on.rng.integers(0, len(shape) + 1)))
        case 1 if ones := [n for n, extent in enumerate(shape) if extent == 1]:
            on.node("Squeeze", x, on.ints(*ones))
        case 2 if len(shape) < 4:
            on.node("Unsqueeze", x, on.ints(int(on.rng.integers(0, len(shape) + 1))))
        case 3 if shape:
            at = int(on.rng.integers(0, len(shape)))
            parts = [n for n in range(1, shape[at] + 1) if shape[at] % n == 0]
            part = int(on.rng.choice(parts))
            new = (*shape[:at], part, shape[at] // part, *shape[at + 1 :])
            if len(new) <= 5:
                on.node("Reshape", x, on.ints(*new))
        case _:
            on.node("Reshape", x, on.ints(-1))


def _product(on: Draft) -> None:
    if not (x := on.pick()) or len(on.shape(x)) < 2:
        return
    *outer, rows, inner = on.shape(x)
    columns = int(on.rng.integers(1, 5))
    if on.chance(0.5) and not outer:
        swapped = on.chance(0.5)
        w = on.constant((columns, inner) if swapped else (inner, columns), plain=False)
        bias = (on.constant((columns,)),) if on.chance(0.5) else ()
        on.node("Gemm", x, w, *bias, transB=int(swapped))
        return
    if on.chance(0.5) and (y := on.node("Transpose", x, perm=_swapped(len(outer) + 2))):
        on.node("MatMul", *((x, y) if on.chance(0.5) else (y, x)))
        return
    on.node("MatMul", x, on.constant((inner, columns), plain=False))
    del rows


def _swapped(rank: int) -> tuple[int, ...]:
    return (*range(rank - 2), rank - 1, rank - 2)


def _conv(on: Draft) -> None:
    if not (x := on.pick(4)):
        return
    channels = on.shape(x)[1]
    filters = int(on.rng.integers(1, 4))
    if on.chance(0.3):
        w = on.constant((channels, filters, 2, 2), plain=False)
        y = on.node("ConvTranspose", x, w, kernel_shape=(2, 2))
    else:
        groups = channels if on.chance(0.3) else 1
        w = on.constant((filters * groups, channels // groups, 3, 3), plain=False)
        bias = (on.constant((filters * groups,)),) if on.chance(0.5) else ()
        y = on.node("Conv", x, w, *bias, kernel_shape=(3, 3), pads=(1, 1, 1, 1), group=groups)
    if y and on.chance(0.7):
        _normal_of(on, y)


def _normal(on: Draft) -> None:
    x = on.pick()
    if x and len(on.shape(x)) >= 2:
        _normal_of(on, x)


def _normal_of(on: Draft, x: str) -> None:
    channels = (on.shape(x)[1],)
    rest = [on.constant(channels), on.constant(channels), on.constant(channels)]
    on.node("BatchNormalization", x, *rest, on.positive(channels), epsilon=1e-3)


def _reduction(on: Draft) -> None:
    if (x := on.pick()) and on.shape(x):
        axis = int(on.rng.integers(0, len(on.shape(x))))
        if on.chance(0.5):
            on.node("Softmax", x, axis=axis)
        else:
            on.node("ReduceMean", x, on.ints(axis), keepdims=int(on.chance(0.5)))


def _concat(on: Draft) -> None:
    if (x := on.pick()) and on.shape(x):
        on.node("Concat", *([x] if on.chance(0.5) else [x, x]), axis=0)


def _split(on: Draft) -> None:
    """Add a node of two outputs, of which one is often not read."""
    if (x := on.pick()) and on.shape(x) and (extent := on.shape(x)[-1]) > 1:
        first = int(on.rng.integers(1, extent))
        names = on.name(), on.name()
        on.builder.add("Split", (x, on.ints(first, extent - first)), names, {"axis": -1})
        on.live.append(str(on.rng.choice(names)))


def _formula(on: Draft) -> None:
    """Add an activation or a normalisation, spelt out."""
    if not (x := on.pick()) or not on.shape(x):
        return
    axes = on.ints(-1)
    match on.rng.integers(0, 3):
        case 0:
            steps: list[tuple[str, tuple[str | float, ...]]] = [
                ("Sigmoid", (x,)), ("Mul", (x, "")),
            ]  # fmt: skip
        case 1:
            steps = [("Mul", (x, 0.5**0.5)), ("Erf", ("",)), ("Add", ("", 1.0)),
                     ("Mul", ("", x)), ("Mul", (0.5, ""))]  # fmt: skip
        case _:
            if not (centred := on.node("Sub", x, on.node("ReduceMean", x, axes) or x)):
                return
            steps = [("Mul", (centred, centred)), ("ReduceMean", ("", axes)), ("Add", ("", 0.5)),
                     ("Sqrt", ("",)), ("Div", (centred, "")),
                     ("Mul", ("", 3.0))]  # fmt: skip
    last: str | None = ""
    for op, operands in steps:
        inputs = [
            last or "" if one == "" else one if isinstance(one, str) else on.scalar(one)
            for one in operands
        ]
        last = on.node(op, *inputs)
        if last is None:
            return


MAKERS: tuple[Maker, ...] = (
    _unary, _binary, _binary, _cast, _twice, _transpose, _transpose, _view, _view, _product, _conv,
    _normal, _reduction, _concat, _formula, _formula, _split,
)  # fmt: skip


def random_graph(seed: int, nodes: int = 14, dtype: str = "float32") -> Graph:
    """Return a graph of about `nodes` nodes; some of them are dead."""
    on = Draft(seed, dtype)
    for shape in ((2, 3, 4, 4), (1, 4, 6), (3, 4)):
        on.live.append(on.builder.input(on.name(), shape, dtype))
    for _ in range(10 * nodes):
        if len(on.builder.producers) >= nodes:
            break
        MAKERS[int(on.rng.integers(0, len(MAKERS)))](on)
    read = {name for node in on.builder.producers.values() for name in node.inputs}
    made = [name for name in on.live if name in on.builder.producers and name not in read]
    ends = [name for name in made if on.chance(0.9)] or on.live[-1:]
    for n, name in enumerate(ends):
        on.builder.output(f"y{n}", name)
    return on.builder.graph()


def random_inputs(graph: Graph, seed: int) -> Mapping[str, Array]:
    """Return arrays for the inputs of a graph, with zeros of both signs among them."""
    rng = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name in graph.inputs:
        values = rng.standard_normal(graph.values[name].fixed_shape)
        values[rng.random(values.shape) < 0.1] = 0.0
        values[rng.random(values.shape) < 0.1] *= -0.0
        found[name] = values.astype(graph.values[name].dtype)
    return found
