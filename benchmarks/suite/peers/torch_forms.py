"""The forms as functions of torch tensors, and as eager calls with a fixed output."""

from collections.abc import Callable
from typing import Any, assert_never

from benchmarks.suite import forms

Function = Callable[..., Any]


def eager(torch: Any, form: forms.Form, tensors: list[Any]) -> Callable[[], Any]:
    """Return the eager call; the result goes into the same memory if torch has `out=`."""
    out = torch.empty(form.output)
    x = tensors[0]
    match form:
        case forms.Matmul() | forms.BatchMatmul():
            return lambda: torch.matmul(x, tensors[1], out=out)
        case forms.Norm():
            return lambda: torch.linalg.vector_norm(x, dim=(1, 2), out=out)
        case forms.Softmax():
            return lambda: torch.softmax(x, 1, out=out)
        case forms.SumOf():
            return lambda: torch.sum(x, form.axis, out=out)
        case _:
            made = function(torch, form)
            return lambda: made(*tensors)


def function(torch: Any, form: forms.Form) -> Function:  # noqa: C901 -- one case per form
    """Return a function of the form's inputs; convolutions are always NCHW."""
    functional = torch.nn.functional
    match form:
        case forms.Matmul() | forms.BatchMatmul():
            return lambda a, b: torch.matmul(a, b)
        case forms.Conv():
            return convolution(torch, form)
        case forms.TransposedConv():
            return lambda x, w: functional.conv_transpose2d(x, w, None, form.stride, form.padding)
        case forms.Capsule():
            return lambda x, w: capsules(functional, form, x, w)
        case forms.Norm():
            return lambda x: torch.linalg.vector_norm(x, dim=(1, 2))
        case forms.TransposedBatchMatmul():
            return lambda q, v: torch.matmul(q.permute(0, 2, 1, 3), v.permute(0, 2, 3, 1))
        case forms.Softmax():
            return lambda x: torch.softmax(x, 1)
        case forms.LayerNorm():
            width = (form.columns,)
            return lambda x, scale, shift: functional.layer_norm(
                x, width, scale, shift, forms.EPSILON
            )
        case forms.MatmulGelu():
            return lambda a, b, bias: functional.gelu(torch.addmm(bias, a, b))
        case forms.Attention():
            return lambda q, k, v: functional.scaled_dot_product_attention(
                q[None, None], k[None, None], v[None, None]
            )[0, 0]
        case forms.Elementwise():
            return lambda a, b, c: torch.relu(a + b) * c
        case forms.SumOf():
            return lambda x: torch.sum(x, form.axis)
        case forms.MaxPool():
            return lambda x: functional.max_pool2d(x, 2)
    assert_never(form)


def convolution(torch: Any, form: forms.Conv) -> Function:
    """Return a convolution, for a layer with batch norm (mean 0, variance 1) and relu."""
    functional = torch.nn.functional
    made = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[form.rank]
    rest = (None, form.stride, form.padding, form.dilation, form.groups)
    if not form.layer:
        return lambda x, w: made(x, w, *rest)
    mean, variance = torch.zeros(form.outputs), torch.ones(form.outputs)

    def layer(x: Any, w: Any, scale: Any, shift: Any) -> Any:
        product = made(x, w, *rest)
        normal = functional.batch_norm(product, mean, variance, scale, shift, False, 0.0, 0.0)
        return torch.relu(normal)

    return layer


def capsules(functional: Any, form: forms.Capsule, x: Any, w: Any) -> Any:
    """Return the capsule convolution as one conv2d: rows are batch, columns and channels inputs."""
    n, size, c, k = form.batch, form.size, form.capsule, form.kernel
    data = x.permute(0, 3, 4, 5, 1, 2).reshape(n * c, c * form.channels, size, size)
    weights = w.permute(3, 5, 2, 4, 0, 1).reshape(c * form.outputs, c * form.channels, k, k)
    product = functional.conv2d(data, weights, None, form.stride, form.padding)
    parts = product.reshape(n, c, c, form.outputs, form.extent, form.extent)
    return parts.permute(0, 4, 5, 1, 2, 3).contiguous()
