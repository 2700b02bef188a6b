"""The transform matrices of F(m, r): m outputs of a filter with r taps by m + r - 1 products.

y = A^T [(G g) * (B^T d)] for m + r - 1 data d, r taps g, y[i] = sum over k of d[i + k] g[k].
Toom and Cook: evaluate both factors at points, multiply there, interpolate; transposed, because a
filter is the transpose of a polynomial product.

Source: Winograd, Arithmetic Complexity of Computations, 1980; Lavin and Gray, Fast Algorithms for
Convolutional Neural Networks, CVPR 2016, arXiv:1509.09308.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import prod
from typing import Final

from ansorpy.errors import SpecError

Matrix = tuple[tuple[Fraction, ...], ...]

# By the number of products: the finite points, pairs of opposite ones side by side (infinity is
# always the last). Dyadic, so that A and B hold no rounded number; around 1, so that powers stay
# small: with 5/8 and 3/2 the error of F(4, 3) is half of that with the usual 1 and 2 (ADR-0035).
POINTS: Final[Mapping[int, tuple[Fraction, ...]]] = {
    4: (Fraction(0), Fraction(1), Fraction(-1)),
    6: (Fraction(0), Fraction(5, 8), Fraction(-5, 8), Fraction(3, 2), Fraction(-3, 2)),
}


@dataclass(frozen=True, slots=True)
class Transforms:
    """The matrices of F(m, r), exact: `output` m x n, `weights` n x r, `data` n x n."""

    output: Matrix  # A^T
    weights: Matrix  # G
    data: Matrix  # B^T

    @property
    def products(self) -> int:
        """The number of products: m + r - 1."""
        return len(self.data)


def known(outputs: int, taps: int) -> bool:
    """Return if there are points for F(outputs, taps)."""
    return outputs >= 2 and taps >= 2 and outputs + taps - 1 in POINTS


def transforms(outputs: int, taps: int) -> Transforms:
    """Return the matrices of F(outputs, taps).

    Raises:
        SpecError: the products outnumber the known points.
    """
    if not known(outputs, taps):
        counts = ", ".join(map(str, POINTS))
        raise SpecError(f"F({outputs}, {taps}): m + r - 1 must be one of {counts}")
    points = POINTS[outputs + taps - 1]
    norms = [prod((p - q for q in points if q != p), start=Fraction(1)) for p in points]
    zero, one = Fraction(0), Fraction(1)
    output = tuple(
        (*(point**i for point in points), one if i == outputs - 1 else zero) for i in range(outputs)
    )
    weights = (
        *(tuple(p**k / norm for k in range(taps)) for p, norm in zip(points, norms, strict=True)),
        (*(zero,) * (taps - 1), one),
    )
    data = (
        *((*_with_roots([q for q in points if q != p]), zero) for p in points),
        _with_roots(points),
    )
    return Transforms(output, weights, data)


def _with_roots(roots: Sequence[Fraction]) -> tuple[Fraction, ...]:
    """Return the coefficients of the monic polynomial with these roots, of x^0 first."""
    terms = [Fraction(1)]
    for root in roots:
        shifted = [Fraction(0), *terms]
        terms = [
            above - root * here for above, here in zip(shifted, [*terms, Fraction(0)], strict=True)
        ]
    return tuple(terms)
