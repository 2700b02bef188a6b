"""JAX: XLA compiles the whole form ahead; weights are arguments."""

import time
from collections.abc import Callable
from typing import Any, assert_never

import numpy as np

from benchmarks.suite import forms
from benchmarks.suite.peers.common import Job, Ready, module


def prepare(job: Job) -> Ready:
    """Return the call. XLA uses as many threads as the process has cores."""
    jax = module("jax")
    given = [jax.device_put(array) for array in job.arrays]
    begin_s = time.perf_counter()
    compiled = jax.jit(function(jax, job.form)).lower(*given).compile()
    facts = {"prepare_s": time.perf_counter() - begin_s}

    def call() -> Any:
        return compiled(*given).block_until_ready()

    return Ready(call, lambda: np.asarray(call()), facts)


def function(jax: Any, form: forms.Form) -> Callable[..., Any]:  # noqa: C901 -- one case per form
    """Return a function of the form's inputs."""
    jnp, lax = module("jax.numpy"), jax.lax
    match form:
        case forms.Matmul() | forms.BatchMatmul():
            return lambda a, b: jnp.matmul(a, b)
        case forms.Conv():
            return convolution(jax, form)
        case forms.TransposedConv():
            border = form.kernel - 1 - form.padding
            return lambda x, w: lax.conv_general_dilated(
                x, jnp.flip(w, (2, 3)).transpose(1, 0, 2, 3), [1, 1], [(border, border)] * 2,
                lhs_dilation=[form.stride] * 2, dimension_numbers=("NCHW", "OIHW", "NCHW"),
            )  # fmt: skip
        case forms.Capsule():
            return lambda x, w: capsules(lax, form, x, w)
        case forms.Norm():
            return lambda x: jnp.sqrt(jnp.sum(x * x, (1, 2)))
        case forms.TransposedBatchMatmul():
            return lambda q, v: jnp.matmul(q.transpose(0, 2, 1, 3), v.transpose(0, 2, 3, 1))
        case forms.Softmax():
            return lambda x: jax.nn.softmax(x, 1)
        case forms.LayerNorm():
            return lambda x, scale, shift: layer_norm(lax, x, scale, shift)
        case forms.MatmulGelu():
            return lambda a, b, bias: jax.nn.gelu(a @ b + bias, approximate=False)
        case forms.Attention():
            factor = form.width**-0.5
            return lambda q, k, v: jax.nn.softmax(q @ k.T * factor, 1) @ v
        case forms.Elementwise():
            return lambda a, b, c: jax.nn.relu(a + b) * c
        case forms.SumOf():
            return lambda x: x.sum(form.axis)
        case forms.MaxPool():
            window = (1, 1, 2, 2)
            return lambda x: lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")
    assert_never(form)


def convolution(jax: Any, form: forms.Conv) -> Callable[..., Any]:
    """Return a convolution or a whole layer."""
    letters, rank = "DHW"[3 - form.rank :], form.rank
    if form.nhwc:
        layouts = (f"N{letters}C", f"{letters}IO", f"N{letters}C")
    else:
        layouts = (f"NC{letters}", f"OI{letters}", f"NC{letters}")

    def product(x: Any, w: Any) -> Any:
        return jax.lax.conv_general_dilated(
            x, w, [form.stride] * rank, [(form.padding,) * 2] * rank,
            rhs_dilation=[form.dilation] * rank, dimension_numbers=layouts,
            feature_group_count=form.groups,
        )  # fmt: skip

    if not form.layer:
        return product
    along = (slice(None), *[None] * rank)
    return lambda x, w, scale, shift: jax.nn.relu(product(x, w) * scale[along] + shift[along])


def capsules(lax: Any, form: forms.Capsule, x: Any, w: Any) -> Any:
    """Return the capsule convolution as one NHWC convolution."""
    n, c, k, at = form.batch, form.capsule, form.kernel, form.extent
    data = x.transpose(0, 3, 1, 2, 4, 5).reshape(n * c, form.size, form.size, c * form.channels)
    weights = w.transpose(0, 1, 2, 4, 3, 5).reshape(k, k, c * form.channels, c * form.outputs)
    product = lax.conv_general_dilated(
        data, weights, [form.stride] * 2, [(form.padding,) * 2] * 2,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )  # fmt: skip
    return product.reshape(n, c, at, at, c, form.outputs).transpose(0, 2, 3, 1, 4, 5)


def layer_norm(lax: Any, x: Any, scale: Any, shift: Any) -> Any:
    """Return the layer norm of every row."""
    centred = x - x.mean(1, keepdims=True)
    variance = (centred**2).mean(1, keepdims=True)
    return centred * lax.rsqrt(variance + forms.EPSILON) * scale + shift
