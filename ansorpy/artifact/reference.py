"""A Dag as plain float64 loops: the second opinion that every delivered kernel carries.

The text uses our own symbols only (t0, i0, r0 ...), made from positions; names that a user gave
stand nowhere in it. It shares no code with the kernel: no tiles, no schedule, one loop per axis.
"""

from collections.abc import Mapping
from typing import Final

from ansorpy.artifact.scalars import array_name, literal, scalar_text, wrapped
from ansorpy.expr.dtypes import FLOATS
from ansorpy.te.dag import Compute, Dag, Placeholder
from ansorpy.te.dims import Dim, dims_of

REFERENCE: Final = "reference.py"  # name of the file in a zip
_REFERENCE_HEAD: Final = '''"""The meaning of the kernels: float64, one loop per axis."""

import math

import numpy as np

try:
    from numba import njit
except ImportError:  # slower, and right, too

    def njit(function=None, **_):
        """Return a function as it is."""
        return (lambda each: each) if function is None else function'''

# NumPy's minimum and maximum: a NaN on either side wins. NumPy's shifts: by any count.
_HELPERS: Final = """\
@njit(inline="always")
def _max(a, b):
    return a if a >= b or a != a else b


@njit(inline="always")
def _min(a, b):
    return a if a <= b or a != a else b


@njit(inline="always")
def _shl(a, b, width):
    return np.int64(a) << np.int64(b) if 0 <= b < width else np.int64(0)


@njit(inline="always")
def _shr(a, b, width):
    return np.int64(a) >> (np.int64(b) if 0 <= b < width else np.int64(63))


@njit(inline="always")
def _shr_unsigned(a, b):
    return a >> b if b < 64 else np.uint64(0)


@njit(inline="always")
def _unsigned(x):
    return np.uint64(x) if x >= 2.0**63 else np.uint64(np.int64(x))
"""


def reference_source(dag: Dag) -> str:
    """Return Python text that defines `reference(inputs, constants) -> tuple of arrays`.

    `inputs` are the placeholders in order, `constants` the constant tensors in order; floats are
    float64 arrays there, everything else has its own dtype. The text needs `math`, `np`, `njit`.
    """
    symbols = {node.name: f"t{i}" for i, node in enumerate(dag.nodes)}
    sizes = {one.name: f"n{i}" for i, one in enumerate(dims_of(dag))}
    parts = [_HELPERS]
    calls = [f"{sizes[name]} = inputs[{at[0]}].shape[{at[1]}]" for name, at in _told(dag).items()]
    inputs = constants = 0
    for node in dag.nodes:
        name = symbols[node.name]
        if isinstance(node, Compute):
            reads = tuple(dict.fromkeys((r.tensor, r.output) for r in node.reads))
            arguments = [array_name(symbols, *read) for read in reads]
            outs = [array_name(symbols, node.name, i) for i in range(len(node.dtypes))]
            parts.append(_function(node, symbols, arguments, outs, sizes))
            calls += [
                f"{out} = np.empty({_shape(node, sizes)}, np.{_meaning(dtype)})"
                for out, dtype in zip(outs, node.dtypes, strict=True)
            ]
            given = (*arguments, *outs, *sizes.values())
            calls.append(f"_{name}({', '.join(given)})")
        elif isinstance(node, Placeholder):
            calls.append(f"{name} = inputs[{inputs}]")
            inputs += 1
        else:
            calls.append(f"{name} = constants[{constants}]")
            constants += 1
    results = [
        array_name(symbols, name, i)
        for name in dag.outputs
        for i in range(len(_compute(dag, name).dtypes))
    ]
    body = "\n    ".join((*calls, f"return ({', '.join(results)},)"))
    parts.append(
        "def reference(inputs, constants):\n"
        f'    """The meaning, one loop per axis."""\n    {body}\n'
    )
    return "\n\n".join(parts)


def reference_text(dag: Dag) -> str:
    """Return `reference.py`; names of users are not in it."""
    return f"{_REFERENCE_HEAD}\n\n\n{reference_source(dag).rstrip()}\n"


def _compute(dag: Dag, name: str) -> Compute:
    node = dag.node(name)
    assert isinstance(node, Compute)
    return node


def _meaning(dtype: str) -> str:
    if dtype in FLOATS:
        return "float64"
    return "bool_" if dtype == "bool" else dtype


def _told(dag: Dag) -> dict[str, tuple[int, int]]:
    """Return, by dim, the number of an input and of its axis that tell the size."""
    found: dict[str, tuple[int, int]] = {}
    for number, node in enumerate(dag.placeholders):
        for axis, extent in enumerate(node.shape):
            if isinstance(extent, Dim):
                found.setdefault(extent.name, (number, axis))
    return found


def _extent(extent: int, sizes: Mapping[str, str]) -> str:
    return sizes[extent.name] if isinstance(extent, Dim) else str(extent)


def _shape(node: Compute, sizes: Mapping[str, str]) -> str:
    told = [_extent(extent, sizes) for extent in node.shape]
    return f"({', '.join(told)}{',' * (len(told) == 1)})"


def _function(
    node: Compute,
    symbols: Mapping[str, str],
    arguments: list[str],
    outs: list[str],
    sizes: Mapping[str, str],
) -> str:
    spatial = {axis.name: f"i{n}" for n, axis in enumerate(node.axes)}
    reduce = {axis.name: f"r{n}" for n, axis in enumerate(node.reduce_axes)}
    names = {**spatial, **reduce}
    values = [scalar_text(part, symbols, names) for part in node.body]
    at = f"[{', '.join(spatial.values()) or '()'}]"
    lines = [f"for {spatial[a.name]} in range({_extent(a.extent, sizes)}):" for a in node.axes]
    lines = ["    " * depth + line for depth, line in enumerate(lines)]
    inside = "    " * len(lines)
    if node.combiner is None:
        lines.append(f"{inside}{outs[0]}{at} = {values[0]}")
    else:
        start = None if node.start is None else scalar_text(node.start, symbols, names)
        before, update = _combine(node, values, start)
        lines += [inside + line for line in before]
        for depth, axis in enumerate(node.reduce_axes):
            counted = f"for {reduce[axis.name]} in range({_extent(axis.extent, sizes)}):"
            lines.append(f"{inside}{'    ' * depth}{counted}")
        deep = inside + "    " * len(node.reduce_axes)
        lines += [deep + line for line in update]
        finals = ("best", "where")[: len(outs)] if len(outs) > 1 else ("acc",)
        lines += [f"{inside}{out}{at} = {f}" for out, f in zip(outs, finals, strict=True)]
    text = "\n    ".join(lines)
    given = ", ".join((*arguments, *outs, *sizes.values()))
    head = f"def _{symbols[node.name]}({given}):"
    return f'@njit(error_model="numpy")\n{head}\n    {text}\n'


def _combine(node: Compute, values: list[str], start: str | None) -> tuple[list[str], list[str]]:
    """Return the lines before and inside the reduce loops."""
    value, dtype = values[0], node.dtype
    if node.combiner in ("argmax", "argmin"):
        better = ">" if node.combiner == "argmax" else "<"
        before = [
            "first = True",
            f"best = {literal(0, node.dtypes[0])}",
            f"where = {literal(0, node.dtypes[1])}",
        ]
        update = [
            f"value = {value}",
            f"if first or value {better} best:",
            "    first = False",
            "    best = value",
            f"    where = {wrapped(values[1], node.dtypes[1])}",
        ]
        return before, update
    if node.combiner in ("max", "min"):
        step = f"acc = _{node.combiner}(acc, {value})"
        if start is not None:
            return [f"acc = {start}"], [step]
        return [f"acc = {_least(node.combiner, dtype)}"], [step]
    symbol, identity = ("+", 0) if node.combiner == "sum" else ("*", 1)
    begin = literal(identity, dtype) if start is None else start
    return [f"acc = {begin}"], [f"acc = {wrapped(f'acc {symbol} {value}', dtype)}"]


def _least(combiner: str, dtype: str) -> str:
    if dtype in FLOATS:
        return "-np.inf" if combiner == "max" else "np.inf"
    if dtype == "bool":
        return "np.bool_(False)" if combiner == "max" else "np.bool_(True)"
    return f"np.{dtype}(np.iinfo(np.{dtype}).{'min' if combiner == 'max' else 'max'})"
