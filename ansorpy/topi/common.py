"""What several families of builders share."""

from collections.abc import Sequence

from ansorpy import te


def multiplied(a: te.Scalar, b: te.Scalar) -> te.Scalar:
    """Return a * b, in int32 where the operands are narrow integers."""
    if a.dtype in ("int8", "uint8"):
        return te.cast(a, "int32") * te.cast(b, "int32")
    return a * b


def padded(
    data: te.Tensor, before: Sequence[int], after: Sequence[int], fill: te.Scalar, axes: str
) -> te.Tensor:
    """Return `data` with `fill` around it: a node of its own, or `data` where nothing is added.

    Args:
        before, after: elements added per dimension.
        axes: one letter per dimension.
    """
    if not any(before) and not any(after):
        return data
    shape = [b + n + a for b, n, a in zip(before, data.shape, after, strict=True)]

    def body(*at: te.Scalar) -> te.Scalar:
        inside = [
            condition
            for i, b, n, a in zip(at, before, data.shape, after, strict=True)
            for condition in (*([i >= b] if b else []), *([i < b + n] if a else []))
        ]
        source = tuple(i - b if b else i for i, b in zip(at, before, strict=True))
        return te.select(te.all(*inside), data[source], fill)

    return te.compute(shape, body, "pad", axes=tuple(axes))
