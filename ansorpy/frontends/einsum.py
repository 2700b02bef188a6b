"""Einstein summation of tensors: `einsum("ik,kj->ij", A, B)`."""

import re
from collections.abc import Sequence
from functools import reduce

from ansorpy.errors import SpecError
from ansorpy.te import functions
from ansorpy.te.scalar import Scalar
from ansorpy.te.tensor import Tensor, compute, reduce_axis


def einsum(spec: str, *tensors: Tensor, name: str = "einsum") -> Tensor:
    """Return the einsum of tensors.

    A letter that is not in the output is summed over. Without `->` the output has the letters that
    occur once, in alphabetical order, as in NumPy. A letter may occur twice in an operand (a
    diagonal); `...` is not supported.

    Raises:
        SpecError: the string is malformed, or the shapes do not fit it.
    """
    operands, output = _parse(spec)
    shapes = [tensor.shape for tensor in tensors]
    if len(operands) != len(shapes):
        raise SpecError(f"einsum {spec!r}: {len(operands)} operands, but {len(shapes)} shapes")
    extents = _extents(spec, operands, shapes)
    summed = [letter for letter in extents if letter not in output]
    axes = {letter: reduce_axis((0, extents[letter]), letter) for letter in summed}

    def body(*indices: Scalar) -> Scalar | functions.Reduction:
        at = {**dict(zip(output, indices, strict=True)), **axes}
        factors = [
            tensor[tuple(at[letter] for letter in letters)]
            for tensor, letters in zip(tensors, operands, strict=True)
        ]
        product = reduce(lambda a, b: a * b, factors)
        return functions.sum(product, axis=tuple(axes.values())) if axes else product

    shape = [extents[letter] for letter in output]
    return compute(shape, body, name, axes=tuple(output))


def _parse(spec: str) -> tuple[list[str], str]:
    text = spec.replace(" ", "")
    if "." in text:
        raise SpecError(f"einsum {spec!r}: '...' is not supported, name every axis")
    if not re.fullmatch(r"[A-Za-z]*(,[A-Za-z]*)*(->[A-Za-z]*)?", text):
        wrong = re.sub(r"->|[A-Za-z,]", "", text) or "a second '->' or a ',' in the output"
        raise SpecError(f"einsum {spec!r}: letters, ',' and one '->' are allowed, not {wrong}")
    left, arrow, output = text.partition("->")
    operands = left.split(",")
    if len(operands) > 8:
        raise SpecError(f"einsum {spec!r}: {len(operands)} operands, limit 8")
    letters = "".join(operands)
    if not arrow:
        output = "".join(sorted(letter for letter in letters if letters.count(letter) == 1))
    for letter in output:
        if output.count(letter) > 1:
            raise SpecError(f"einsum {spec!r}: letter {letter!r} is in the output twice")
        if letter not in letters:
            raise SpecError(f"einsum {spec!r}: output letter {letter!r} is in no operand")
    return operands, output


def _extents(spec: str, operands: Sequence[str], shapes: Sequence[Sequence[int]]) -> dict[str, int]:
    """Return the extent of every letter, in order of appearance."""
    extents: dict[str, int] = {}
    for position, (letters, shape) in enumerate(zip(operands, shapes, strict=True)):
        if len(letters) != len(shape):
            raise SpecError(
                f"einsum {spec!r}: operand {position} has {len(letters)} letters ({letters!r}), "
                f"but shape {tuple(shape)}"
            )
        for letter, extent in zip(letters, shape, strict=True):
            if extents.setdefault(letter, extent) != extent:
                raise SpecError(
                    f"einsum {spec!r}: letter {letter!r} is {extents[letter]}, but {extent} in "
                    f"operand {position}"
                )
    return extents
