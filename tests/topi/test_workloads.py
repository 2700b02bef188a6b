"""Workloads against plain NumPy formulas at the sizes of SUITE_SMALL."""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ansorpy import te
from ansorpy.topi.suites import LIBRARY, SUITE_SMALL
from ansorpy.topi.workloads import Window, conv2d, matmul, transposed_conv2d
from tests.random_dag import random_inputs

Array = NDArray[Any]


def conv(x: Array, w: Array, window: Window) -> Array:
    """NC... convolution with groups, one output position at a time."""
    spatial = x.ndim - 2
    x = np.pad(x, [(0, 0), (0, 0)] + [(window.padding,) * 2] * spatial)
    kernel = w.shape[2:]
    reach = [(k - 1) * window.dilation + 1 for k in kernel]
    places = [(n - r) // window.stride + 1 for n, r in zip(x.shape[2:], reach, strict=True)]
    out = np.zeros((x.shape[0], w.shape[0], *places))
    depth, share = w.shape[1], w.shape[0] // window.groups
    for f in range(w.shape[0]):
        first = f // share * depth
        for at in np.ndindex(*places):
            cut = tuple(
                slice(i * window.stride, i * window.stride + r, window.dilation)
                for i, r in zip(at, reach, strict=True)
            )
            patch = x[(slice(None), slice(first, first + depth), *cut)]
            out[(slice(None), f, *at)] = (patch * w[f]).reshape(x.shape[0], -1).sum(1)
    return out


def softmax(x: Array) -> Array:
    powers = np.exp(x - x.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def transposed(x: Array, w: Array, stride: int, padding: int) -> Array:
    """Scatter: every input element adds a weighted window to the output."""
    n, _, h, wd = x.shape
    co, k = w.shape[1], w.shape[2]
    out = np.zeros((n, co, (h - 1) * stride + k, (wd - 1) * stride + k))
    for y in range(h):
        for z in range(wd):
            out[:, :, y * stride : y * stride + k, z * stride : z * stride + k] += np.einsum(
                "nc,cfyx->nfyx", x[:, :, y, z], w
            )
    end = -padding or None
    return out[:, :, padding:end, padding:end]


def capsule(x: Array, w: Array) -> Array:
    x = np.pad(x, [(0, 0), (1, 1), (1, 1), (0, 0), (0, 0), (0, 0)])
    n, h, wd = x.shape[0], x.shape[1] - 2, x.shape[2] - 2
    out = np.zeros((n, h, wd, x.shape[3], w.shape[3], w.shape[5]))
    for y in range(h):
        for z in range(wd):
            patch = x[:, y : y + 3, z : z + 3]
            out[:, y, z] = np.einsum("nyxikc,yxkjcf->nijf", patch, w)
    return out


def pool(x: Array, kernel: int, stride: int, padding: int, fill: float, pick: Any) -> Array:
    x = np.pad(x, [(0, 0), (0, 0), (padding,) * 2, (padding,) * 2], constant_values=fill)
    view = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    return np.asarray(pick(view[:, :, ::stride, ::stride], axis=(-2, -1)))


def layer_norm(x: Array, axis: Any) -> Array:
    centred = x - x.mean(axis, keepdims=True)
    return np.asarray(centred / np.sqrt((centred**2).mean(axis, keepdims=True) + 1e-5))


def gelu(x: Array) -> Array:
    return np.asarray(x * 0.5 * (1 + np.vectorize(math.erf)(x * math.sqrt(0.5))))


def chain(x: Array, scale: Array, shift: Array) -> Array:
    bent = np.tanh(x * scale + shift)
    return np.asarray(x + bent / (1 + np.exp(-bent)))


SAME = Window(padding=1)
TALL = (slice(None), None, None)
FORMULAS: Mapping[str, Callable[..., Array]] = {
    "matmul": lambda a, b: a @ b,
    "matmul_f64": lambda a, b: a @ b,
    "matmul_int8": lambda a, b: a.astype("i4") @ b.astype("i4"),
    "matmul_relu": lambda a, b: relu(a @ b),
    "matmul_bias_gelu": lambda a, b, bias: gelu(a @ b + bias),
    "dense": lambda x, w, bias: x @ w.T + bias,
    "batch_matmul": lambda a, b: a @ b,
    "transpose_batch_matmul": lambda query, value: np.einsum("bihd,bjhd->bhij", query, value),
    "attention": lambda q, k, v: softmax(q @ k.T / math.sqrt(q.shape[1])) @ v,
    "conv1d": lambda x, w: conv(x, w, Window(stride=2, padding=1)),
    "conv2d": lambda x, w: conv(x, w, SAME),
    "conv2d_strided": lambda x, w: conv(x, w, Window(stride=2, padding=1)),
    "conv2d_1x1": lambda x, w: conv(x, w, Window()),
    "conv2d_dilated": lambda x, w: conv(x, w, Window(padding=2, dilation=2)),
    "conv2d_grouped": lambda x, w: conv(x, w, Window(padding=1, groups=3)),
    "conv2d_nhwc": lambda x, w: conv(
        x.transpose(0, 3, 1, 2), w.transpose(3, 2, 0, 1), SAME
    ).transpose(0, 2, 3, 1),
    "conv2d_bias_relu": lambda x, w, bias: relu(conv(x, w, SAME) + bias[:, None, None]),
    "conv2d_bn_relu": lambda x, w, bias, scale, shift: relu(
        (conv(x, w, SAME) + bias) * scale + shift
    ),
    "conv3d": lambda x, w: conv(x, w, SAME),
    "depthwise_conv2d": lambda x, w: conv(x, w[:, None], Window(padding=1, groups=len(w))),
    "transposed_conv2d": lambda x, w: transposed(x, w, 2, 1),
    "capsule_conv2d": capsule,
    "max_pool2d": lambda x: pool(x, 3, 2, 1, -np.inf, np.max),
    "avg_pool2d": lambda x: pool(x, 2, 1, 0, 0, np.mean),
    "softmax": softmax,
    "layer_norm": lambda x, scale, shift: layer_norm(x, 1) * scale + shift,
    "rms_norm": lambda x, scale: x / np.sqrt((x**2).mean(1, keepdims=True) + 1e-5) * scale,
    "batch_norm": lambda x, scale, shift: layer_norm(x, (0, 2, 3)) * scale[TALL] + shift[TALL],
    "norm": lambda x: np.linalg.norm(x, axis=(1, 2)),
    "row_sum": lambda x: x.sum(1),
    "column_sum": lambda x: x.sum(0),
    "all_sum": lambda x: x.sum(),
    "row_max": lambda x: x.max(1),
    "column_min": lambda x: x.min(0),
    "row_prod": lambda x: x.prod(1),
    "argmax": lambda x: x.max(1),
    "elementwise_chain": chain,
}


def test_both_suites_have_the_same_builders_and_each_has_a_formula() -> None:
    assert list(LIBRARY) == list(SUITE_SMALL) == list(FORMULAS)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_builder_means_its_formula(name: str) -> None:
    dag = SUITE_SMALL[name]()
    inputs = random_inputs(np.random.default_rng(3), dag)
    wide = [v.astype("f8") if v.dtype.kind == "f" else v for v in inputs.values()]
    want = FORMULAS[name](*wide)
    got = te.evaluate(dag, inputs)[0]
    assert got.shape == np.shape(want)
    # Literals such as 1/17 are float32 constants of the program, hence not 1e-12.
    assert np.allclose(got, want, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", LIBRARY)
def test_middling_sizes_are_valid_and_below_thirty_megaflop(name: str) -> None:
    dag = LIBRARY[name]()
    assert 0 < sum(2 * node.points for node in dag.computes) <= 30e6


def test_weights_are_marked_constant_and_padding_is_a_node_of_its_own() -> None:
    dag = conv2d(1, 3, 8, 8, 4, 3, Window(padding=1), constant_weights=True)
    assert [(node.name, node.constant) for node in dag.placeholders] == [("X", False), ("W", True)]
    assert [node.name for node in dag.computes] == ["pad", "conv"]
    assert [node.name for node in conv2d(1, 3, 8, 8, 4, 3).computes] == ["conv"]


@pytest.mark.parametrize(("stride", "padding", "kernel"), [(1, 0, 3), (2, 0, 3), (3, 2, 5)])
def test_transposed_convolutions_of_other_strides(stride: int, padding: int, kernel: int) -> None:
    dag = transposed_conv2d(1, 2, 3, 4, 3, kernel, stride, padding)
    inputs = random_inputs(np.random.default_rng(0), dag)
    (got,) = te.evaluate(dag, inputs)
    want = transposed(inputs["X"].astype("f8"), inputs["W"].astype("f8"), stride, padding)
    assert np.allclose(got, want)


def test_narrow_integers_accumulate_in_int32() -> None:
    dag = matmul(1, 1, 300, dtype="int8")
    inputs = {"A": np.full((1, 300), -128, "i1"), "B": np.full((300, 1), -128, "i1")}
    (out,) = te.evaluate(dag, inputs)
    assert out.dtype == np.int32
    assert out.item() == 300 * 128 * 128
