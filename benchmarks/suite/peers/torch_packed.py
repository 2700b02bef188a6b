"""torch with weights packed ahead of time, by the operators of its frozen graphs."""

from collections.abc import Callable
from typing import Any, Final

from benchmarks.suite.forms import Conv, Form, Matmul, MatmulGelu, TransposedConv
from benchmarks.suite.peers.common import Unfit

NO_POST: Final[tuple[str, list[Any], str]] = ("none", [], "")


def packed(torch: Any, form: Form, tensors: list[Any]) -> Callable[[], Any]:
    """Return the call on packed weights.

    Raises:
        Unfit: the form has no weights that torch packs.
    """
    if not torch.backends.mkldnn.is_available():
        raise Unfit("this torch has no oneDNN")
    match form:
        case Conv(nhwc=False):
            return _conv(torch, form, tensors)
        case TransposedConv():
            return _transposed(torch, form, tensors)
        case Matmul(weights=True):
            return _linear(torch, tensors[0], tensors[1], None, NO_POST)
        case MatmulGelu():
            return _linear(torch, tensors[0], tensors[1], tensors[2], ("gelu", [], "none"))
        case _:
            raise Unfit("no weights that torch packs")


def _conv(torch: Any, form: Conv, tensors: list[Any]) -> Callable[[], Any]:
    """Fold the batch norm of a layer into weights and bias, as is usual for deployment."""
    if form.rank == 1:
        raise Unfit("torch packs weights of two and three dimensions")
    x, w = tensors[:2]
    bias, post = None, NO_POST
    if form.layer:
        w = w * tensors[2].reshape(-1, *[1] * (w.dim() - 1))
        bias, post = tensors[3], ("relu", [], "")
    around, step, apart = ([n] * form.rank for n in (form.padding, form.stride, form.dilation))
    reorder = getattr(torch._C._nn, f"mkldnn_reorder_conv{form.rank}d_weight")
    given = reorder(w.to_mkldnn(), around, step, apart, form.groups, list(x.shape))
    run = torch.ops.mkldnn._convolution_pointwise
    return lambda: run(x, given, bias, around, step, apart, form.groups, *post)


def _transposed(torch: Any, form: TransposedConv, tensors: list[Any]) -> Callable[[], Any]:
    x, w = tensors
    around, step = [form.padding] * 2, [form.stride] * 2
    rest = ([0, 0], step, [1, 1], 1)
    given = torch.ops.mkldnn._reorder_convolution_transpose_weight(w, around, *rest, list(x.shape))
    run = torch.ops.mkldnn._convolution_transpose_pointwise
    return lambda: run(x, given, None, around, *rest, *NO_POST)


def _linear(torch: Any, x: Any, w: Any, bias: Any, post: Any) -> Callable[[], Any]:
    given = torch.ops.mkldnn._reorder_linear_weight(w.t().contiguous(), x.shape[0])
    run = torch.ops.mkldnn._linear_pointwise
    return lambda: run(x, given, bias, *post)
