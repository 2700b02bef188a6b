"""Operators of the sweep: a function for each draws operands and attributes."""

from collections.abc import Mapping
from functools import partial
from typing import Final

import numpy as np

from benchmarks.models.node_cases import Array
from benchmarks.models.sweep_cases import CODES, FLOATS, INTS, Make, Maker

NUMBERS: Final = (*FLOATS, *INTS)
WORDS: Final = {"float32": "FLOAT", "float64": "DOUBLE"}  # words of Cast before opset 6


def _unary(attrs: Mapping[str, tuple[float, ...]], dtypes: tuple[str, ...], m: Maker) -> None:
    m.operand(m.shape(0), m.dtype(*dtypes))
    for name, choices in attrs.items():
        if m.sometimes():
            m.attribute(name, m.one_of(*choices))


def _binary(dtypes: tuple[str, ...], m: Maker) -> None:
    dtype, shape = m.dtype(*dtypes), m.shape(1)
    other = tuple(1 if m.sometimes(0.2) and m.opset >= 7 else n for n in shape)
    if m.sometimes(0.3) and m.opset >= 7:
        other = other[m.rng.integers(0, len(other)) :]
    m.operand(shape, dtype)
    m.operand(other, dtype, constant=m.sometimes(0.3))
    if m.operator in ("Div", "Mod") and dtype in INTS:
        for arrays in (m.inputs, m.weights):
            if "x1" in arrays:
                arrays["x1"] = np.where(arrays["x1"] == 0, 3, arrays["x1"]).astype(dtype)
    if m.operator == "Mod":
        m.attribute("fmod", 1 if dtype not in INTS else m.one_of(0, 1))
    if m.operator == "BitShift":
        m.attribute("direction", m.one_of("LEFT", "RIGHT"))


def _pow(m: Maker) -> None:
    dtype = m.dtype(*FLOATS, "int32", "int64")
    shape = m.shape(1)
    m.operand(shape, dtype)
    other = m.one_of(dtype, "float32", "int64", "int32") if m.opset >= 12 else dtype
    draw = [0, 1, 2, 3] if dtype in INTS else [0, 1, 2, 3, -1, 0.5, -0.5, 1.5]
    if other in INTS:
        draw = [0, 1, 2, 3]
    code = m.values((1,), other).dtype
    m.input(m.rng.choice(draw, m.one_of(shape, (1,))).astype(code), constant=m.sometimes())


def _many(m: Maker) -> None:
    dtype = m.dtype(*(NUMBERS if m.operator in ("Max", "Min") else FLOATS))
    shape = m.shape(1)
    for n in range(m.one_of(1, 2, 3)):
        m.operand(shape if n == 0 or m.opset < 8 else shape[-1:], dtype)


def _where(m: Maker) -> None:
    shape, dtype = m.shape(1), m.dtype("bool")
    m.operand(shape, dtype)
    kind = m.one_of(*FLOATS, "int64", "int32", "uint8", "bool")
    m.operand(shape[-1:], kind)
    m.operand(shape, kind)


def _clip(m: Maker) -> None:
    dtype = m.dtype(*(NUMBERS if m.opset >= 12 else FLOATS))
    m.operand(m.shape(0), dtype)
    low = 0.0 if dtype in INTS or m.sometimes() else -0.7
    if m.sometimes(0.8):
        m.given("min", low, dtype)
    if m.sometimes(0.8):
        m.given("max", m.one_of(3.0, 6.0), dtype)


def _cast(m: Maker) -> None:
    to = m.one_of(*NUMBERS, "bool")
    dtype = m.dtype(*NUMBERS, "bool")
    low, high = (0, 100) if to.startswith("u") else (-100, 100)
    array = m.values(m.shape(0), dtype)
    if to in INTS and array.dtype.kind not in "iub":  # beyond the range nothing is defined
        array = m.rng.uniform(low, high, array.shape).astype(array.dtype)
    m.input(array)
    m.attrs["to"] = WORDS.get(to, to.upper()) if m.opset < 6 else CODES[to]


def _reduce(m: Maker) -> None:
    name = m.operator
    ints = (
        ("int32", "int64") if name in ("ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd") else ()
    )
    dtype = m.dtype(
        *FLOATS, *ints, *(("uint8", "int8") if name in ("ReduceMax", "ReduceMin") else ())
    )
    shape = m.one_of(m.shape(1, 4, 5), m.shape(1, 2, 40))
    m.operand(shape, dtype)
    if name == "ReduceLogSum":  # sums near 1 that cancel have logarithms of roundoff only
        m.inputs = {one: np.abs(array) for one, array in m.inputs.items()}
    if m.sometimes(0.8):
        count = int(m.rng.integers(1, len(shape) + 1))
        axes = [int(n) for n in m.rng.permutation(len(shape))[:count]]
        signed = [n - len(shape) if m.sometimes(0.3) and m.opset >= 11 else n for n in axes]
        m.given("axes", signed)
    elif m.sometimes():
        m.attribute("noop_with_empty_axes", m.one_of(0, 1))
    if m.sometimes():
        m.attribute("keepdims", m.one_of(0, 1))


def _axis(m: Maker) -> None:
    shape = m.shape(1, 4, 9)
    dtypes = (*FLOATS, "int32", "uint8", "int64") if m.operator.startswith("Arg") else FLOATS
    m.operand(shape, m.dtype(*dtypes))
    if m.sometimes(0.7):
        low = -len(shape) if m.opset >= 11 else 0
        m.attribute("axis", int(m.rng.integers(low, len(shape))))
    if m.sometimes():
        m.attribute("keepdims", m.one_of(0, 1))
        m.attribute("select_last_index", m.one_of(0, 1))


def _cumsum(m: Maker) -> None:
    shape = m.shape(1)
    m.operand(shape, m.dtype(*FLOATS, "int32", "int64"))
    m.given("axis", int(m.rng.integers(-len(shape), len(shape))))
    m.attribute("exclusive", m.one_of(0, 1))
    m.attribute("reverse", m.one_of(0, 1))


def _window(m: Maker, spatial: int) -> list[int]:
    """Set the attributes of a window; return its extents."""
    kernel = [int(n) for n in m.rng.integers(1, 4, spatial)]
    m.attribute("kernel_shape", kernel)
    if m.sometimes():
        m.attribute("strides", [int(n) for n in m.rng.integers(1, 4, spatial)])
    if m.sometimes(0.3):
        m.attribute("dilations", [int(n) for n in m.rng.integers(1, 3, spatial)])
    if m.sometimes(0.25):
        m.attribute("auto_pad", m.one_of("SAME_UPPER", "SAME_LOWER", "VALID"))
        m.attrs.pop("dilations", None)
    elif m.sometimes():
        m.attribute("pads", [int(m.rng.integers(0, k)) for k in kernel * 2])
    return kernel


def _pool(m: Maker) -> None:
    spatial = m.one_of(1, 2, 2, 3)
    shape = (m.one_of(1, 2), m.one_of(1, 3), *(int(n) for n in m.rng.integers(6, 11, spatial)))
    m.operand(shape, m.dtype(*FLOATS, *(("int8", "uint8") if m.operator == "MaxPool" else ())))
    _window(m, spatial)
    if m.sometimes(0.3):
        m.attribute("ceil_mode", 1)
    if m.sometimes(0.4):
        m.attribute("count_include_pad", 1)
    if m.operator == "LpPool" and m.sometimes():
        m.attribute("p", m.one_of(1, 2, 3))
    if m.operator == "MaxPool" and m.opset >= 8 and m.sometimes(0.2):
        m.outputs = 2


def _conv(m: Maker) -> None:
    spatial, group = m.one_of(1, 2, 2, 2, 3), m.one_of(1, 1, 2, 3)
    inner, outer = group * m.one_of(1, 2), group * m.one_of(1, 2, 4)
    extents = tuple(int(n) for n in m.rng.integers(6, 10, spatial))
    integer = m.operator == "ConvInteger"
    dtype = m.one_of("uint8", "int8") if integer else m.dtype()
    m.operand((1, inner, *extents), dtype)
    kernel = _window(m, spatial)
    transposed = m.operator == "ConvTranspose"
    heads = (inner, outer // group) if transposed else (outer, inner // group)
    m.operand((*heads, *kernel), m.one_of("uint8", "int8") if integer else dtype, constant=True)
    m.attribute("group", group)
    if integer:
        if m.sometimes():
            m.input(np.array(m.one_of(0, 3, 100), dtype), constant=True)
    elif m.sometimes():
        m.operand((outer,), dtype, constant=True)


def _matmul(m: Maker) -> None:
    rows, inner, columns = (int(n) for n in m.rng.integers(1, 40, 3))
    batch = m.shape(0, 2, 3)
    integer = m.operator == "MatMulInteger"
    dtype = m.one_of("uint8", "int8") if integer else m.dtype(*FLOATS, "int32", "int64")
    m.operand((*batch, rows, inner), dtype)
    other = m.one_of("uint8", "int8") if integer else dtype
    m.operand((*m.one_of((), batch), inner, columns), other, constant=m.sometimes())
    if integer and m.sometimes():
        m.input(np.array(m.one_of(0, 3, 100), dtype), constant=True)


def _gemm(m: Maker) -> None:
    rows, inner, columns = (int(n) for n in m.rng.integers(1, 40, 3))
    dtype, a, b = m.dtype(), m.one_of(0, 1), m.one_of(0, 1)
    m.operand((inner, rows) if a else (rows, inner), dtype)
    m.operand((columns, inner) if b else (inner, columns), dtype, constant=m.sometimes())
    if m.opset < 11 or m.sometimes(0.7):
        shapes = (
            ((rows, columns),) if m.opset < 7 else ((columns,), (rows, 1), (1,), (rows, columns))
        )
        m.operand(m.one_of(*shapes), dtype)
    for name, value in (("transA", a), ("transB", b)):
        m.attribute(name, value)
    for name in ("alpha", "beta"):
        if m.sometimes():
            m.attribute(name, m.one_of(0.5, 2.0, 0.0, -1.5))


def _einsum(m: Maker) -> None:
    text, *shapes = m.one_of(
        ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ij->ji", (3, 4)),
        ("ii->i", (4, 4)), ("ij,ij->", (3, 4), (3, 4)), ("i,j", (3,), (4,)),
        ("...ij,...jk->...ik", (2, 3, 4), (2, 4, 5)), ("...i->...", (2, 3, 4)),
        ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    )  # fmt: skip
    dtype = m.dtype(*FLOATS, "int32", "int64")
    for shape in shapes:
        m.operand(shape, dtype)
    m.attrs["equation"] = text


def _norm(m: Maker) -> None:
    name = m.operator
    channels, dtype = m.one_of(2, 4, 6), m.dtype()
    shape = (m.one_of(1, 2), channels, *m.shape(1, 2))
    if m.draw in ("special", "equal"):  # the variance of equal numbers is rounding alone
        m.draw = "normal"
    m.operand(shape, dtype)
    parts = {"BatchNormalization": 4, "InstanceNormalization": 2, "GroupNormalization": 2,
             "LayerNormalization": 2, "RMSNormalization": 1}[name]  # fmt: skip
    size: tuple[int, ...] = (channels,)
    if name in ("LayerNormalization", "RMSNormalization"):
        axis = int(m.rng.integers(-len(shape), len(shape)))
        m.attrs["axis"], size = axis, shape[axis:]
    if name == "GroupNormalization":
        groups = m.one_of(1, 2)
        m.attrs["num_groups"], size = groups, (groups if m.opset < 21 else channels,)
    for n in range(parts):
        array = m.values(size, dtype, "normal")
        m.input(np.abs(array) + array.dtype.type(0.1) if n == 3 else array, constant=True)
    m.attribute("epsilon", m.one_of(1e-5, 1e-3))
    m.attribute("is_test", 1)
    m.attribute("consumed_inputs", [0, 0, 0, 1, 1][: len(m.names)])
    m.attribute("spatial", 1)


def _lrn(m: Maker) -> None:
    m.operand((1, m.one_of(3, 8), 3, 4), m.dtype())
    m.attrs["size"] = m.one_of(1, 3, 5)
    for name, value in (("alpha", 0.01), ("beta", 0.5), ("bias", 2.0)):
        if m.sometimes():
            m.attribute(name, value)


def _lp_normalization(m: Maker) -> None:
    shape = m.shape(1)
    m.operand(shape, m.dtype())
    m.attribute("axis", int(m.rng.integers(-len(shape), len(shape))))
    m.attribute("p", m.one_of(1, 2))


def _reshape(m: Maker) -> None:
    m.operand((2, 3, 4), m.dtype(*NUMBERS))
    m.given("shape", m.one_of([6, 4], [-1, 4], [0, -1], [24], [2, 0, 2, 2]))


def _transpose(m: Maker) -> None:
    shape = m.shape(1)
    m.operand(shape, m.dtype(*NUMBERS, "bool"))
    if m.sometimes(0.8):
        m.attrs["perm"] = [int(n) for n in m.rng.permutation(len(shape))]


def _concat(m: Maker) -> None:
    shape, dtype = m.shape(1), m.dtype(*NUMBERS)
    axis = int(m.rng.integers(0, len(shape)))
    for _ in range(m.one_of(1, 2, 3)):
        extents = list(shape)
        extents[axis] = int(m.rng.integers(1, 5))
        m.operand(extents, dtype)
    m.attribute("axis", axis if m.opset < 11 or m.sometimes() else axis - len(shape))


def _split(m: Maker) -> None:
    shape = (6, *m.shape(0, 2))
    m.operand(shape, m.dtype(*NUMBERS))
    m.attribute("axis", 0)
    m.outputs = m.one_of(2, 3)
    if m.opset < 2 or (m.opset >= 18 and m.sometimes()):
        m.attribute("num_outputs", m.outputs)
        if m.opset >= 18:
            return
    if m.opset >= 18 or m.sometimes():
        m.given("split", [2, 4] if m.outputs == 2 else [1, 2, 3])


def _slice(m: Maker) -> None:
    shape = (7, 6, 5)[: m.one_of(1, 2, 3)]
    m.operand(shape, m.dtype(*NUMBERS))
    axes = sorted(int(n) for n in m.rng.permutation(len(shape))[: m.one_of(1, len(shape))])
    back = m.opset >= 10 and m.sometimes(0.3)
    m.given("starts", [m.one_of(-1, 100) if back else m.one_of(0, 1, -3) for _ in axes])
    m.given("ends", [m.one_of(-100, 0) if back else m.one_of(100, -1, 5) for _ in axes])
    m.given("axes", axes)
    if m.opset >= 10:
        m.given("steps", [m.one_of(-1, -2) if back else m.one_of(1, 2) for _ in axes])


def _pad(m: Maker) -> None:
    shape = (4, 5, 6)[: m.one_of(1, 2, 3)]
    dtype = m.dtype(*(FLOATS if m.opset < 11 else NUMBERS))
    m.operand(shape, dtype)
    mode = m.one_of("constant", "constant", "reflect", "edge", *(["wrap"] if m.opset >= 19 else []))
    low = -1 if mode == "constant" else 0
    pads = [int(n) for n in m.rng.integers(low, 3, 2 * len(shape))]
    m.given("paddings" if m.opset < 2 else "pads", pads)
    m.attribute("mode", mode)
    if mode == "constant" and m.sometimes():
        name = "value" if m.opset < 11 else "constant_value"
        m.given(name, m.one_of(0.0, 2.0), dtype)


def _expand(m: Maker) -> None:
    m.operand(m.one_of((3, 1), (1,), (2, 1, 4)), m.dtype(*NUMBERS))
    m.given(
        "shape", m.one_of([2, 1, 4], [1], [2, 3, 4]) if m.inputs["x0"].shape != (3, 1) else [3, 5]
    )


def _tile(m: Maker) -> None:
    shape = m.shape(1, 3, 3)
    m.operand(shape, m.dtype(*NUMBERS))
    m.input(m.rng.integers(1, 4, len(shape)), constant=True)


def _gather(m: Maker) -> None:
    shape = m.shape(2, 3)
    axis = int(m.rng.integers(0, len(shape)))
    m.operand(shape, m.dtype(*NUMBERS))
    low = -shape[axis] if m.opset >= 11 else 0
    index = shape if m.operator == "GatherElements" else m.shape(0, 2)
    m.input(m.rng.integers(low, shape[axis], index).astype(m.one_of("int32", "int64")))
    m.attribute("axis", axis)


def _scatter(m: Maker) -> None:
    shape, dtype = m.shape(2, 3, 5), m.dtype(*FLOATS, "int32", "int64")
    axis = int(m.rng.integers(0, len(shape)))
    m.operand(shape, dtype)
    kind = m.one_of("none", "add", "mul", "max", "min") if m.opset >= 18 else "none"
    if m.operator == "ScatterND":
        index = m.rng.permutation(shape[0])[: max(1, shape[0] - 1)][:, None]
        m.input(index)
        m.operand((len(index), *shape[1:]), dtype)
    else:
        order = np.argsort(m.rng.random(shape), axis=axis)
        m.input(order)
        m.operand(shape, dtype)
        m.attribute("axis", axis)
    if kind != "none":
        m.attribute("reduction", kind)


def _squeeze(m: Maker) -> None:
    m.operand((1, 3, 1, 2), m.dtype(*NUMBERS))
    if m.operator == "Unsqueeze" or m.sometimes(0.7):
        m.given("axes", m.one_of([0], [0, 2], [2]))


def _depth(m: Maker) -> None:
    m.operand((1, 8, 4, 6), m.dtype())
    m.attrs["blocksize"] = 2
    if m.sometimes():
        m.attribute("mode", m.one_of("DCR", "CRD"))


def _trilu(m: Maker) -> None:
    m.operand(m.shape(2, 3), m.dtype(*FLOATS, "int64"))
    m.given("k", m.one_of(-1, 0, 1, 9))
    m.attribute("upper", m.one_of(0, 1))


def _one_hot(m: Maker) -> None:
    m.input(m.rng.integers(-4, 4, m.shape(1, 2)).astype("int64"))
    m.input(np.array(4, "int64"), constant=True)
    m.input(np.array([0, 3], m.one_of("float32", "int32")), constant=True)
    m.attribute("axis", m.one_of(-1, 0, 1))


def _topk(m: Maker) -> None:
    m.operand((3, 8), m.dtype(*FLOATS, "int64", "int32"))
    m.given("k" if m.opset < 10 else "K", 3 if m.opset < 10 else [3])
    m.attribute("largest", m.one_of(0, 1))
    m.outputs = 2


def _resize(m: Maker) -> None:
    upsample = m.operator == "Upsample"
    m.draw = "normal" if m.draw == "special" else m.draw
    shape = (1, 2, m.one_of(4, 5, 7, 10, 20), m.one_of(4, 6, 9))
    dtype = m.dtype(*(("float32",) if upsample else (*FLOATS, "uint8", "int8", "int32")))
    m.operand(shape, dtype)
    linear = "bilinear" if upsample and m.opset < 7 else "linear"
    modes = ("nearest", linear, *(("cubic",) if m.opset >= 11 and not upsample else ()))
    m.attribute("mode", m.one_of(*modes))
    m.attribute("coordinate_transformation_mode", m.one_of(
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel",
        *(["half_pixel_symmetric"] if m.opset >= 19 else [])))  # fmt: skip
    m.attribute("nearest_mode", m.one_of(
        "round_prefer_floor", "round_prefer_ceil", "floor", "ceil"))  # fmt: skip
    if m.attrs.get("mode") == "cubic":
        m.attribute("cubic_coeff_a", m.one_of(-0.5, -0.75))
        m.attribute("exclude_outside", m.one_of(0, 1))
    if m.opset >= 18 and m.sometimes(0.3) and m.attrs["mode"] != "nearest":
        m.attribute("antialias", 1)
    scales = [
        1.0,
        1.0,
        m.one_of(0.5, 0.625, 0.6875, 1.3125, 2.0, 3.0),
        m.one_of(0.5, 1.0, 1.5, 2.0),
    ]
    if upsample and m.opset < 7:
        for name, scale in zip(("height_scale", "width_scale"), scales[2:], strict=True):
            m.attribute(name, max(1.0, scale))
    elif upsample:
        m.given("scales", [max(1.0, n) for n in scales], "float32")
    elif m.opset == 10 or m.sometimes():
        m.given("scales", scales, "float32")
    else:
        m.given("sizes", [1, 2, m.one_of(3, 5, 8, 13, 36), m.one_of(3, 6, 12)])
    if m.opset in (11, 12) and not upsample:  # `roi` has to be there, `scales` too
        while len(m.names) > 1 and m.names[1] == "":
            m.names[1] = "roi"
            m.weights["roi"] = np.zeros(0, np.float32)
        if len(m.names) > 3 and m.names[2] == "":
            m.names[2] = "none"
            m.weights["none"] = np.zeros(0, np.float32)


def _grid_sample(m: Maker) -> None:
    m.operand((1, 2, 5, 6), m.dtype("float32", "float64"))
    dtype = m.inputs["x0"].dtype
    m.input(m.rng.uniform(-1.4, 1.4, (1, 3, 4, 2)).astype(dtype))
    old = m.opset < 20
    m.attribute(
        "mode", m.one_of("nearest", *(("bilinear", "bicubic") if old else ("linear", "cubic")))
    )
    m.attribute("padding_mode", m.one_of("zeros", "border", "reflection"))
    m.attribute("align_corners", m.one_of(0, 1))


def _quantize(m: Maker) -> None:
    shape, to = (2, 3, 4), m.one_of("uint8", "int8")
    per_axis = m.opset >= 13 and m.sometimes()
    size = (3,) if per_axis else ()
    if m.operator == "QuantizeLinear":
        m.draw = "normal" if m.draw == "special" else m.draw
        m.operand(shape, "float32")
    else:
        m.operand(shape, to)
    m.input(m.rng.uniform(0.01, 0.3, size).astype(np.float32), constant=True)
    m.input(m.values(size, to) if m.sometimes(0.8) else np.zeros(size, to), constant=True)
    if per_axis:
        m.attribute("axis", 1)


def _qlinear(m: Maker) -> None:
    conv = m.operator == "QLinearConv"
    a, b = m.one_of("uint8", "int8"), m.one_of("uint8", "int8")

    def scale(n: float) -> Array:
        return np.array(n, np.float32)

    m.operand((1, 4, 6, 6) if conv else (5, 16), a)
    m.input(scale(0.03), constant=True)
    m.input(np.array(m.one_of(0, 3), a), constant=True)
    m.operand((6, 4, 3, 3) if conv else (16, 7), b, constant=True)
    m.input(scale(0.02), constant=True)
    m.input(np.array(0 if conv else m.one_of(0, 2), b), constant=True)
    m.input(scale(m.one_of(0.2, 1.0)), constant=True)
    m.input(np.array(m.one_of(0, 5), a), constant=True)
    if conv:
        m.attribute("pads", [m.one_of(0, 1)] * 4)


def _recurrent(m: Maker) -> None:
    steps, batch, inner, hidden = 3, 2, 4, 5
    gates = {"RNN": 1, "GRU": 3, "LSTM": 4}[m.operator]
    direction = m.one_of("forward", "reverse", "bidirectional")
    sides = 2 if direction == "bidirectional" else 1
    m.draw = "normal"
    m.operand((steps, batch, inner), "float32")
    for shape in ((sides, gates * hidden, inner), (sides, gates * hidden, hidden)):
        m.operand(shape, "float32", constant=True)
    if m.sometimes():
        m.operand((sides, 2 * gates * hidden), "float32", constant=True)
    m.attrs |= {"hidden_size": hidden, "direction": direction}
    m.attribute("linear_before_reset", m.one_of(0, 1))
    m.outputs = 2
    if m.opset < 7:
        m.attribute("output_sequence", 1)


def _shape_of(m: Maker) -> None:
    m.operand(m.shape(1), m.dtype(*NUMBERS))
    if m.operator == "Shape" and m.sometimes():
        m.attribute("start", m.one_of(0, 1, -1))


def _flatten(m: Maker) -> None:
    shape = m.shape(2)
    m.operand(shape, m.dtype(*FLOATS))
    m.attribute("axis", int(m.rng.integers(0, len(shape))))


def _global(m: Maker) -> None:
    m.operand((1, 3, *m.shape(1, 2, 9)), m.dtype())
    if m.operator == "GlobalLpPool" and m.opset >= 2:
        m.attribute("p", m.one_of(1, 2))


_ALPHA: Final = {
    "alpha": (0.5, 1.0, 2.0), "beta": (0.1, 0.5), "gamma": (1.05,), "lambd": (0.3, 0.5),
    "bias": (0.0, 0.1),
}  # fmt: skip
_MAKERS: Final[tuple[tuple[Make, str], ...]] = (
    (
        partial(_unary, _ALPHA, FLOATS),
        "Acos Acosh Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid"
        " HardSwish IsInf IsNaN LeakyRelu Log Mish Reciprocal Round Selu Shrink Sigmoid Sin Sinh"
        " Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu",
    ),
    (partial(_unary, {}, NUMBERS), "Abs Neg Relu Sign"),
    (partial(_unary, {}, ("bool",)), "Not"),
    (partial(_unary, {}, INTS), "BitwiseNot"),
    (
        partial(_binary, NUMBERS),
        "Add Sub Mul Div Mod PRelu Equal Greater GreaterOrEqual Less LessOrEqual",
    ),
    (partial(_binary, ("bool",)), "And Or Xor"),
    (partial(_binary, INTS), "BitwiseAnd BitwiseOr BitwiseXor"),
    (partial(_binary, ("uint8", "uint16", "uint32", "uint64")), "BitShift"),
    (_pow, "Pow"),
    (_many, "Max Min Mean Sum"),
    (_where, "Where"),
    (_clip, "Clip"),
    (_cast, "Cast"),
    (
        _reduce,
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd"
        " ReduceSum ReduceSumSquare",
    ),
    (_axis, "ArgMax ArgMin Softmax LogSoftmax Hardmax"),
    (_cumsum, "CumSum"),
    (_pool, "MaxPool AveragePool LpPool"),
    (_global, "GlobalAveragePool GlobalMaxPool GlobalLpPool"),
    (_conv, "Conv ConvTranspose ConvInteger"),
    (_matmul, "MatMul MatMulInteger"),
    (_gemm, "Gemm"),
    (_einsum, "Einsum"),
    (
        _norm,
        "BatchNormalization InstanceNormalization GroupNormalization LayerNormalization"
        " RMSNormalization",
    ),
    (_lrn, "LRN"),
    (_lp_normalization, "LpNormalization"),
    (_reshape, "Reshape"),
    (_transpose, "Transpose"),
    (_concat, "Concat"),
    (_split, "Split"),
    (_slice, "Slice"),
    (_pad, "Pad"),
    (_expand, "Expand"),
    (_tile, "Tile"),
    (_gather, "Gather GatherElements"),
    (_scatter, "ScatterElements ScatterND"),
    (_squeeze, "Squeeze Unsqueeze"),
    (_depth, "DepthToSpace SpaceToDepth"),
    (_trilu, "Trilu"),
    (_one_hot, "OneHot"),
    (_topk, "TopK"),
    (_resize, "Resize Upsample"),
    (_grid_sample, "GridSample"),
    (_quantize, "QuantizeLinear DequantizeLinear"),
    (_qlinear, "QLinearConv QLinearMatMul"),
    (_recurrent, "RNN GRU LSTM"),
    (_shape_of, "Shape Size"),
    (_flatten, "Flatten"),
)
OPERATORS: Final[Mapping[str, Make]] = {
    name: make for make, names in _MAKERS for name in names.split()
}
