"""The formulas of the suite as Dags. Placeholders have the names of the inputs of the form."""

from typing import assert_never

from ansorpy import te
from ansorpy.te.dag import Dag
from ansorpy.topi import pad, relu, workloads
from ansorpy.topi.workloads import Window
from benchmarks.suite import forms


def dag_of(form: forms.Form, constant_weights: bool) -> Dag:  # noqa: C901 -- one case per form
    """Return the Dag of a form; with `constant_weights` its weights may be packed ahead."""
    match form:
        case forms.Matmul():
            packed = constant_weights and form.weights
            return workloads.matmul(form.m, form.n, form.k, constant_weights=packed)
        case forms.BatchMatmul():
            return workloads.batch_matmul(form.batch, form.m, form.n, form.k)
        case forms.Conv():
            return conv(form, constant_weights)
        case forms.TransposedConv(n, channels, size, outputs, kernel, stride, padding):
            return workloads.transposed_conv2d(
                n, channels, size, size, outputs, kernel, stride, padding,
                constant_weights=constant_weights,
            )  # fmt: skip
        case forms.Capsule(n, size, channels, outputs, kernel, stride, padding, capsule):
            return workloads.capsule_conv2d(
                n, size, size, channels, outputs, kernel, capsule, Window(stride, padding),
                constant_weights=constant_weights,
            )  # fmt: skip
        case forms.Norm():
            return workloads.norm(form.batch, form.rows, form.columns)
        case forms.TransposedBatchMatmul():
            return workloads.transpose_batch_matmul(form.batch, form.length, form.heads, form.width)
        case forms.Softmax():
            return workloads.softmax(form.rows, form.columns)
        case forms.LayerNorm():
            return workloads.layer_norm(form.rows, form.columns)
        case forms.MatmulGelu():
            return workloads.matmul_bias_gelu(
                form.m, form.n, form.k, constant_weights=constant_weights
            )
        case forms.Attention():
            return workloads.attention(form.queries, form.keys, form.width)
        case forms.Elementwise():
            return elementwise(form)
        case forms.SumOf():
            made = workloads.reduce_columns if form.axis == 0 else workloads.reduce_rows
            return made(form.rows, form.columns)
        case forms.MaxPool():
            return workloads.max_pool2d(form.batch, form.channels, form.size, form.size)
    assert_never(form)


def conv(form: forms.Conv, constant_weights: bool) -> Dag:
    """Return a convolution; a depthwise one has weights [channels, kernel, kernel]."""
    window = Window(form.stride, form.padding, form.dilation, form.groups)
    n, inputs, at, outputs, kernel = (
        form.batch, form.channels, form.spatial, form.outputs, form.kernel,
    )  # fmt: skip
    if form.layer:
        return conv_layer(form, constant_weights)
    if form.nhwc:
        return workloads.conv2d_nhwc(
            n, at[0], at[1], inputs, outputs, kernel, window, constant_weights=constant_weights
        )
    if form.groups == inputs == outputs and form.rank == 2:
        return workloads.depthwise_conv2d(
            n, inputs, at[0], at[1], kernel, window, constant_weights=constant_weights
        )
    if form.rank == 1:
        return workloads.conv1d(
            n, inputs, at[0], outputs, kernel, window, constant_weights=constant_weights
        )
    if form.rank == 2:
        return workloads.conv2d(
            n, inputs, at[0], at[1], outputs, kernel, window, constant_weights=constant_weights
        )
    return workloads.conv3d(
        n, inputs, at[0], at[1], at[2], outputs, kernel, window, constant_weights=constant_weights
    )


def conv_layer(form: forms.Conv, constant_weights: bool) -> Dag:
    """Return relu(conv2d * scale + shift): an NCHW convolution with a folded batch norm."""
    x = te.placeholder((form.batch, form.channels, *form.spatial), "X")
    shape = (form.outputs, form.channels, form.kernel, form.kernel)
    w = te.placeholder(shape, "W", constant=constant_weights)
    scale, shift = (
        te.placeholder((form.outputs,), name, constant=constant_weights)
        for name in ("scale", "shift")
    )
    around = (0, 0, form.padding, form.padding)
    source = pad(x, around, axes="nchw")
    rc = te.reduce_axis((0, form.channels), "rc")
    ry, rx = te.reduce_axis((0, form.kernel), "ry"), te.reduce_axis((0, form.kernel), "rx")
    s, d = form.stride, form.dilation
    product = te.compute(
        form.output,
        lambda n, f, h, w_: te.sum(
            source[n, rc, h * s + ry * d, w_ * s + rx * d] * w[f, rc, ry, rx], axis=(rc, ry, rx)
        ),
        "conv",
    )
    scaled = te.compute(form.output, lambda n, f, h, w: product[n, f, h, w] * scale[f], "scaled")
    moved = te.compute(form.output, lambda n, f, h, w: scaled[n, f, h, w] + shift[f], "shifted")
    return te.dag(relu(moved), "conv_layer", inputs=(x, w, scale, shift))


def elementwise(form: forms.Elementwise) -> Dag:
    """Return relu(A + B) * C: three nodes."""
    a, b, c = (te.placeholder(given.shape, given.name) for given in form.inputs)
    total = te.compute(form.output, lambda i, j: a[i, j] + b[i, j], "total")
    bent = relu(total)
    out = te.compute(form.output, lambda i, j: bent[i, j] * c[i, j], "out")
    return te.dag(out, "elementwise", inputs=(a, b, c))
