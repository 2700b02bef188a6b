"""Matrix products. int8 and uint8 are multiplied and added in int32."""

from collections.abc import Sequence

from ansorpy import te
from ansorpy.te.broadcast import broadcast_index, broadcast_shape
from ansorpy.te.tensor import Tensor
from ansorpy.te.wide import rounds_once
from ansorpy.topi.common import multiplied, refuse, require_length, require_rank, shown


def matmul(
    a: Tensor,
    b: Tensor,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str = "matmul",
    axes: Sequence[str] | None = None,
) -> Tensor:
    """Return C[..., n, m] = sum over k of A[..., n, k] * B[..., k, m].

    Leading axes are batch axes and are broadcast, as in `numpy.matmul`.

    Args:
        transpose_a: A is given as [..., k, n].
        transpose_b: B is given as [..., m, k].
        axes: the names of the axes of the result, then of the reduced axis.

    Raises:
        SpecError: a rank below 2, other extents, or other dtypes.
    """
    action = f"multiply {shown(a)} and {shown(b)}"
    for operand in (a, b):
        if len(operand.shape) < 2:
            refuse(action, f"{operand.name} has rank {len(operand.shape)}", "rank 2 or more")
    n, k = reversed(a.shape[-2:]) if transpose_a else a.shape[-2:]
    k_of_b, m = reversed(b.shape[-2:]) if transpose_b else b.shape[-2:]
    if k != k_of_b:
        refuse(action, f"their reduced extents are {k} and {k_of_b}", "equal extents")
    batch = broadcast_shape([a.shape[:-2], b.shape[:-2]], name)
    names = axes or (*(f"b{i}" for i in range(len(batch))), "i", "j", "k")
    r = te.reduce_axis((0, k), names[-1])

    def body(*at: te.Scalar) -> te.Reduction:
        *outer, i, j = at
        left = (r, i) if transpose_a else (i, r)
        right = (j, r) if transpose_b else (r, j)
        return te.sum(
            multiplied(
                a[(*broadcast_index(a.shape[:-2], batch, outer), *left)],
                b[(*broadcast_index(b.shape[:-2], batch, outer), *right)],
            ),
            axis=r,
        )

    return te.compute((*batch, n, m), body, name, axes=names[:-1])


@rounds_once
def dense(
    data: Tensor, weights: Tensor, bias: Tensor | None = None, *, name: str = "dense"
) -> Tensor:
    """Return out[..., u] = sum over k of data[..., k] * weights[u, k], + bias[u] if it is given.

    Raises:
        SpecError: other extents, or other dtypes.
    """
    action = f"apply the dense layer {name}"
    require_rank(weights, 2, action, "[units, features]")
    if not data.shape or data.shape[-1] != weights.shape[1]:
        refuse(
            action, f"it gets {shown(data)}", f"data [..., {weights.shape[1]}] for {shown(weights)}"
        )
    rows = tuple(f"i{n}" for n in range(len(data.shape) - 1)) if len(data.shape) != 2 else ("i",)
    k = te.reduce_axis((0, data.shape[-1]), "k")
    product = te.compute(
        (*data.shape[:-1], weights.shape[0]),
        lambda *at: te.sum(multiplied(data[(*at[:-1], k)], weights[at[-1], k]), axis=k),
        name if bias is None else f"{name}_product",
        axes=(*rows, "j"),
    )
    if bias is None:
        return product
    require_length(bias, weights.shape[0], action)
    return te.compute(
        product.shape, lambda *at: product[at] + bias[at[-1]], name, axes=(*rows, "j")
    )
