"""The forms as TVM tensor expressions; depthwise weights are [channels, 1, kernel, kernel]."""

from collections.abc import Callable, Sequence
from math import sqrt
from typing import Any, assert_never

from benchmarks.suite import forms
from benchmarks.suite.peers.common import module


def primitive(form: forms.Form) -> Any:
    """Return the primitive function that MetaSchedule tunes: inputs, then the output."""
    te = module("tvm.te")
    inputs = [te.placeholder(i.shape, name=i.name, dtype="float32") for i in form.inputs]
    return te.create_prim_func([*inputs, _expression(form, inputs)])


def _reduce(extent: int, name: str) -> Any:
    return module("tvm.te").reduce_axis((0, extent), name=name)


def _computed(shape: Sequence[int], body: Callable[..., Any], name: str) -> Any:
    return module("tvm.te").compute(shape, body, name=name)


def _expression(form: forms.Form, inputs: list[Any]) -> Any:  # noqa: C901 -- one case per form
    te, topi = module("tvm.te"), module("tvm.topi")
    x = inputs[0]
    match form:
        case forms.Matmul() | forms.BatchMatmul() | forms.MatmulGelu():
            return _product(form, inputs)
        case forms.Conv():
            return _nhwc(form, x, inputs[1]) if form.nhwc else _conv(form, inputs)
        case forms.TransposedConv():
            step, around = (form.stride,) * 2, (form.padding,) * 2
            return topi.nn.conv2d_transpose_nchw(x, inputs[1], step, around, "float32", (0, 0))
        case forms.Capsule():
            return _capsules(form, x, inputs[1])
        case forms.Norm():
            i, j = _reduce(form.rows, "i"), _reduce(form.columns, "j")
            squares = _computed(
                form.output, lambda b: te.sum(x[b, i, j] * x[b, i, j], axis=[i, j]), "squares"
            )
            return _computed(form.output, lambda b: te.sqrt(squares[b]), "norm")
        case forms.TransposedBatchMatmul():
            return _transposed_product(form, *inputs)
        case forms.Softmax():
            return topi.nn.softmax(x, axis=1)
        case forms.LayerNorm():
            return topi.nn.layer_norm(x, inputs[1], inputs[2], [1], forms.EPSILON)
        case forms.Attention():
            return _attention(form, *inputs)
        case forms.Elementwise():
            return _elementwise(form, *inputs)
        case forms.SumOf():
            return topi.sum(x, axis=form.axis)
        case forms.MaxPool():
            return topi.nn.pool2d(x, (2, 2), (2, 2), (1, 1), (0, 0, 0, 0), "max")
    assert_never(form)


def _constant(value: float) -> Any:
    return module("tvm.tirx").const(value, "float32")


def _product(form: forms.Matmul | forms.BatchMatmul | forms.MatmulGelu, inputs: list[Any]) -> Any:
    te = module("tvm.te")
    a, b = inputs[:2]
    k = _reduce(form.k, "k")
    product = _computed(
        form.output, lambda *at: te.sum(a[(*at[:-1], k)] * b[(*at[:-2], k, at[-1])], axis=k), "C"
    )
    if not isinstance(form, forms.MatmulGelu):
        return product
    biased = _computed(form.output, lambda i, j: product[i, j] + inputs[2][j], "biased")
    half, root = _constant(0.5), _constant(sqrt(0.5))
    return _computed(
        form.output,
        lambda i, j: biased[i, j] * (half + te.erf(biased[i, j] * root) * half),
        "gelu",
    )


def _padded(x: Any, form: forms.Conv | forms.Capsule, first: int, rank: int) -> Any:
    """Pad `rank` axes of x from `first` on, if the form has padding."""
    around = [form.padding if first <= at < first + rank else 0 for at in range(len(x.shape))]
    return module("tvm.topi").nn.pad(x, around, name="pad") if form.padding else x


def _conv(form: forms.Conv, inputs: list[Any]) -> Any:
    te = module("tvm.te")
    x, w = _padded(inputs[0], form, 2, form.rank), inputs[1]
    walk = [_reduce(form.kernel, f"r{at}") for at in range(form.rank)]
    depth, share = form.channels // form.groups, form.outputs // form.groups
    rc = _reduce(depth, "rc")
    s, d = form.stride, form.dilation

    def body(n: Any, f: Any, *at: Any) -> Any:
        places = [i * s + r * d for i, r in zip(at, walk, strict=True)]
        if depth == share == 1:
            return te.sum(x[(n, f, *places)] * w[(f, 0, *walk)], axis=walk)
        channel = rc if form.groups == 1 else te.indexdiv(f, share) * depth + rc
        return te.sum(x[(n, channel, *places)] * w[(f, rc, *walk)], axis=[rc, *walk])

    product = _computed(form.output, body, "conv")
    if not form.layer:
        return product
    scale, shift = inputs[2:]
    moved = _computed(
        form.output, lambda n, f, h, w: product[n, f, h, w] * scale[f] + shift[f], "normal"
    )
    zero = _constant(0.0)
    return _computed(form.output, lambda *at: te.max(moved[at], zero), "relu")


def _nhwc(form: forms.Conv, x: Any, w: Any) -> Any:
    te = module("tvm.te")
    x = _padded(x, form, 1, form.rank)
    ry, rx = _reduce(form.kernel, "ry"), _reduce(form.kernel, "rx")
    rc = _reduce(form.channels, "rc")
    s, d = form.stride, form.dilation
    return _computed(
        form.output,
        lambda n, h, v, f: te.sum(
            x[n, h * s + ry * d, v * s + rx * d, rc] * w[ry, rx, rc, f], axis=[ry, rx, rc]
        ),
        "conv",
    )


def _capsules(form: forms.Capsule, x: Any, w: Any) -> Any:
    te = module("tvm.te")
    x, s = _padded(x, form, 1, 2), form.stride
    ry, rx = _reduce(form.kernel, "ry"), _reduce(form.kernel, "rx")
    k, rc = _reduce(form.capsule, "k"), _reduce(form.channels, "rc")
    return _computed(
        form.output,
        lambda n, h, v, i, j, f: te.sum(
            x[n, h * s + ry, v * s + rx, i, k, rc] * w[ry, rx, k, j, rc, f], axis=[ry, rx, k, rc]
        ),
        "capsules",
    )


def _transposed_product(form: forms.TransposedBatchMatmul, query: Any, value: Any) -> Any:
    te = module("tvm.te")
    n, heads, length, width = form.batch, form.heads, form.length, form.width
    rows = _computed((n, heads, length, width), lambda b, h, i, d: query[b, i, h, d], "query_T")
    columns = _computed((n, heads, width, length), lambda b, h, d, i: value[b, i, h, d], "value_T")
    k = _reduce(width, "k")
    return _computed(
        form.output,
        lambda b, h, i, j: te.sum(rows[b, h, i, k] * columns[b, h, k, j], axis=k),
        "out",
    )


def _attention(form: forms.Attention, q: Any, k: Any, v: Any) -> Any:
    te, topi = module("tvm.te"), module("tvm.topi")
    d, r = _reduce(form.width, "d"), _reduce(form.keys, "r")
    factor = _constant(form.width**-0.5)
    shape = (form.queries, form.keys)
    scores = _computed(shape, lambda i, j: te.sum(q[i, d] * k[j, d], axis=d), "scores")
    scaled = _computed(shape, lambda i, j: scores[i, j] * factor, "scaled")
    shares = topi.nn.softmax(scaled, axis=1)
    return _computed(form.output, lambda i, j: te.sum(shares[i, r] * v[r, j], axis=r), "out")


def _elementwise(form: forms.Elementwise, a: Any, b: Any, c: Any) -> Any:
    te, zero = module("tvm.te"), _constant(0.0)
    total = _computed(form.output, lambda i, j: a[i, j] + b[i, j], "total")
    bent = _computed(form.output, lambda i, j: te.max(total[i, j], zero), "relu")
    return _computed(form.output, lambda i, j: bent[i, j] * c[i, j], "out")
