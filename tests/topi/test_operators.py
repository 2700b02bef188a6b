"""Every operator against NumPy and SciPy, on drawn shapes, dtypes and arguments."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import pytest
import scipy.special

from ansorpy import te, topi
from ansorpy.oracle.reference import evaluate
from tests.random_dag import random_inputs
from tests.topi import cases, gather_cases, move_cases, quantize_cases, sample_cases, window_cases
from tests.topi.cases import FLOATS, SIGNED, Case, position, reduction

CASES: Final[Mapping[str, Callable[[np.random.Generator], Case]]] = {
    **cases.UNARY,
    **cases.BINARY,
    "argmax": position(topi.argmax, np.argmax),
    "argmin": position(topi.argmin, np.argmin),
    "logsumexp": reduction(topi.logsumexp, scipy.special.logsumexp, FLOATS),
    "max": reduction(topi.max, np.max),
    "mean": reduction(topi.mean, np.mean, FLOATS),
    "min": reduction(topi.min, np.min),
    "norm": reduction(topi.norm, cases.norm, FLOATS),
    "prod": reduction(topi.prod, np.prod, FLOATS),
    "sum": reduction(topi.sum, np.sum, SIGNED),
    "bias_add": cases.bias_add,
    "cast": cases.cast,
    "clip": cases.clip,
    "isinf": cases.isinf,
    "truncate_divide": cases.truncating(topi.truncate_divide, cases.quotient),
    "truncate_mod": cases.truncating(topi.truncate_mod, np.fmod, SIGNED),
    "dense": cases.dense,
    "floor_divide": cases.floor_divide,
    "gelu": cases.gelu,
    "matmul": cases.matmul,
    "mod": cases.mod,
    "where": cases.where,
    "dequantize_linear": quantize_cases.dequantize_linear,
    "quantize_linear": quantize_cases.quantize_linear,
    "saturate_cast": quantize_cases.saturate_cast,
    "gather_elements": gather_cases.gather_elements,
    "gather_nd": gather_cases.gather_nd,
    "scatter_elements": gather_cases.scatter_elements,
    "scatter_nd": gather_cases.scatter_nd,
    "take": gather_cases.take,
    "tensor_scatter": gather_cases.tensor_scatter,
    "avg_pool": window_cases.avg_pool,
    "batch_norm": window_cases.batch_norm,
    "capsule_conv2d": window_cases.capsule,
    "conv1d": window_cases.conv(topi.conv1d, 1),
    "conv1d_transpose": window_cases.conv_transpose(topi.conv1d_transpose, 1),
    "conv2d": window_cases.conv(topi.conv2d, 2),
    "conv2d_nhwc": window_cases.conv_nhwc,
    "conv2d_transpose": window_cases.conv_transpose(topi.conv2d_transpose, 2),
    "conv3d": window_cases.conv(topi.conv3d, 3),
    "conv3d_transpose": window_cases.conv_transpose(topi.conv3d_transpose, 3),
    "depthwise_conv2d": window_cases.depthwise,
    "global_avg_pool": window_cases.over_all(topi.global_avg_pool, np.mean),
    "global_max_pool": window_cases.over_all(topi.global_max_pool, np.max),
    "group_norm": window_cases.group_norm,
    "instance_norm": window_cases.instance_norm,
    "layer_norm": window_cases.layer_norm,
    "log_softmax": window_cases.softmax(topi.log_softmax, scipy.special.log_softmax),
    "lp_pool": window_cases.lp_pool,
    "max_pool": window_cases.max_pool,
    "max_pool_with_index": window_cases.max_pool_with_index,
    "rms_norm": window_cases.rms_norm,
    "softmax": window_cases.softmax(topi.softmax, scipy.special.softmax),
    "broadcast_to": move_cases.broadcast_to,
    "concat": move_cases.concat,
    "dft": move_cases.dft,
    "frames": move_cases.frames,
    "col2im": sample_cases.col2im,
    "grid_sample": sample_cases.grid_sample,
    "reverse_sequence": sample_cases.reverse_sequence,
    "cumsum": move_cases.cumsum,
    "depth_to_space": move_cases.depth_to_space,
    "expand_dims": move_cases.expand_dims,
    "flatten": move_cases.flatten,
    "flip": move_cases.flip,
    "one_hot": move_cases.one_hot,
    "pad": move_cases.pad,
    "repeat": move_cases.repeat,
    "reshape": move_cases.reshape,
    "resample": move_cases.resample,
    "space_to_depth": move_cases.space_to_depth,
    "split": move_cases.split,
    "squeeze": move_cases.squeeze,
    "stack": move_cases.stack,
    "strided_slice": move_cases.strided_slice,
    "tile": move_cases.tile,
    "transpose": move_cases.transpose,
    "tril": move_cases.tril,
    "triu": move_cases.triu,
}


def operators() -> set[str]:
    """Return the names of the operators that `ansorpy.topi` offers."""
    return {
        name
        for name, value in vars(topi).items()
        if callable(value) and value.__module__.startswith("ansorpy.topi")
    }


def test_every_operator_has_a_case_and_a_docstring() -> None:
    assert operators() == set(CASES)
    assert [name for name in CASES if not getattr(topi, name).__doc__] == []


@pytest.mark.parametrize("name", CASES)
def test_an_operator_equals_numpy_on_drawn_arguments(name: str) -> None:
    for seed in range(8):
        rng = np.random.default_rng([seed, *name.encode()])
        made, tensors, formula = CASES[name](rng)
        outputs = [made] if isinstance(made, te.Tensor) else list(made)
        dag = te.dag(outputs, name, inputs=tensors)
        inputs = random_inputs(rng, dag)
        wide = [v.astype("f8") if v.dtype.kind == "f" else v for v in inputs.values()]
        with np.errstate(all="ignore"):
            wanted = formula(*wide)
        for one, tensor in zip([wanted] if len(outputs) == 1 else wanted, outputs, strict=True):
            alone = te.dag(tensor, name, inputs=tensors)  # an argmax has two outputs
            got = evaluate(alone, inputs)[tensor.output]
            assert got.shape == np.shape(one) == tensor.shape, (seed, dag)
            # Literals such as 1/6 are float32 constants of the program, hence not 1e-12.
            assert np.allclose(got, one, rtol=1e-5, atol=1e-5, equal_nan=True), (seed, dag)


def test_a_norm_over_no_axis_is_the_absolute_value() -> None:
    x = te.placeholder((3, 4), "X")
    values = np.linspace(-1, 1, 12, dtype="float32").reshape(3, 4)
    (got,) = evaluate(te.dag(topi.norm(x, ())), {"X": values})
    assert np.array_equal(got, np.abs(values))


def test_logsumexp_neither_overflows_nor_turns_infinities_into_nan() -> None:
    x = te.placeholder((4, 2), "X")
    inf = np.inf
    values = np.array([[1e4, 1e4], [-1e4, -1e4], [-inf, -inf], [inf, -inf]], "float32")
    (got,) = evaluate(te.dag(topi.logsumexp(x, -1)), {"X": values})
    assert np.allclose(got, scipy.special.logsumexp(values.astype("f8"), -1))
