"""Matrix products."""

from collections.abc import Mapping

from ansorpy import te, topi
from ansorpy.graph.operator import Operands, operator
from ansorpy.te.tensor import Tensor


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of matrices, as `numpy.matmul`: a vector is a row or a column."""
    row, column = len(a.shape) == 1, len(b.shape) == 1
    left = topi.reshape(a, (1, *a.shape)) if row else a
    right = topi.reshape(b, (*b.shape, 1)) if column else b
    product = topi.matmul(left, right)
    if not row and not column:
        return product
    shape = list(product.shape)
    if column:
        shape.pop()
    if row:
        shape.pop(-1 if column else -2)
    return topi.reshape(product, shape)


@operator("MatMul")
def _matmul(on: Operands) -> Tensor:
    return product(on.tensor(0), on.tensor(1))


@operator("Gemm", "alpha", "beta", "transA", "transB")
def _gemm(on: Operands) -> Tensor:
    product = topi.matmul(
        on.tensor(0), on.tensor(1),
        transpose_a=bool(on.attribute("transA", 0)), transpose_b=bool(on.attribute("transB", 0)),
    )  # fmt: skip
    alpha, beta = on.attribute("alpha", 1.0), on.attribute("beta", 1.0)
    product = product if alpha == 1 else topi.multiply(product, _factor(alpha))
    if not on.given(2) or beta == 0:
        return product
    c = on.operand(2, 2)
    if beta != 1:
        c = topi.multiply(on.tensor(2), _factor(beta))
    return topi.add(product, c)


@operator("Einsum", "equation")
def _einsum(on: Operands) -> Tensor:
    """Return the sum that an equation states; an ellipsis stands for letters of its own."""
    equation = on.attribute("equation", "").replace(" ", "")
    tensors = [on.tensor(n) for n in range(len(on))]
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if "..." in equation:
        if len(terms) != len(tensors):
            on.refuse(f"equation {equation[:80]!r} has {len(terms)} terms", f"{len(tensors)}")
        free = [c for c in "ZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in equation]
        ranks = [
            len(x.shape) - len(term.replace("...", "")) if "..." in term else 0
            for x, term in zip(tensors, terms, strict=True)
        ]
        most = max(ranks)
        if min(ranks) < 0 or most > len(free):
            on.refuse(f"equation {equation[:80]!r} does not fit its operands", "one letter an axis")
        letters = "".join(reversed(free[:most]))
        terms = [
            term.replace("...", letters[most - rank :])
            for term, rank in zip(terms, ranks, strict=True)
        ]
        if not arrow:
            text = "".join(terms)
            right = letters + "".join(
                sorted(c for c in set(text) - set(letters) if text.count(c) == 1)
            )
        arrow, right = "->", right.replace("...", letters)
    if [len(x.shape) for x in tensors] == [len(term) for term in terms]:
        widest: dict[str, int] = {}
        for x, term in zip(tensors, terms, strict=True):
            for letter, extent in zip(term, x.shape, strict=True):
                if extent != 1 or letter not in widest:
                    widest[letter] = extent
        pairs = [_narrowed(x, term, widest) for x, term in zip(tensors, terms, strict=True)]
        tensors, terms = [x for x, _ in pairs], [term for _, term in pairs]
    return te.einsum(",".join(terms) + arrow + right, *tensors)


def _narrowed(x: Tensor, term: str, widest: Mapping[str, int]) -> tuple[Tensor, str]:
    """Return an operand and its term without the axes along which it is repeated."""
    repeated = [
        n for n, letter in enumerate(term)
        if x.shape[n] == 1 != widest[letter] and term.count(letter) == 1
    ]  # fmt: skip
    if not repeated:
        return x, term
    kept = "".join(letter for n, letter in enumerate(term) if n not in repeated)
    return topi.squeeze(x, repeated), kept


def _factor(value: float) -> float | int:
    return int(value) if value == int(value) else value
