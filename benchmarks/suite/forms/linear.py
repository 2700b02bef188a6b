"""Matrix products."""

from dataclasses import dataclass
from math import prod

from benchmarks.suite.forms.common import Input, Shape


@dataclass(frozen=True, slots=True)
class Matmul:
    """C[m, n] = A[m, k] * B[k, n]."""

    m: int
    k: int
    n: int
    weights: bool = False  # B is a weight

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return (Input("A", (self.m, self.k)), Input("B", (self.k, self.n), self.weights))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.m, self.n)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 2 * self.m * self.k * self.n


@dataclass(frozen=True, slots=True)
class BatchMatmul:
    """C[batch, m, n] = A[batch, m, k] * B[batch, k, n]."""

    batch: int
    m: int
    k: int
    n: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return (Input("A", (self.batch, self.m, self.k)), Input("B", (self.batch, self.k, self.n)))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.batch, self.m, self.n)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 2 * self.batch * self.m * self.k * self.n


@dataclass(frozen=True, slots=True)
class MatmulGelu:
    """gelu(A[m, k] * B[k, n] + bias[n]), the exact gelu with erf."""

    m: int
    k: int
    n: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        weights = Input("B", (self.k, self.n), weight=True)
        return (Input("A", (self.m, self.k)), weights, Input("bias", (self.n,), weight=True))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.m, self.n)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 2 * self.m * self.k * self.n + 6 * self.m * self.n


@dataclass(frozen=True, slots=True)
class TransposedBatchMatmul:
    """Scores of multi-head attention: query and value are [batch, length, heads, width]."""

    batch: int
    length: int
    heads: int
    width: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        shape = (self.batch, self.length, self.heads, self.width)
        return (Input("query", shape), Input("value", shape))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.batch, self.heads, self.length, self.length)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 2 * prod(self.output) * self.width


@dataclass(frozen=True, slots=True)
class Attention:
    """softmax(Q K^T / sqrt(width)) V of one head: Q[queries, width], K and V [keys, width]."""

    queries: int
    keys: int
    width: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        keys = (self.keys, self.width)
        return (Input("Q", (self.queries, self.width)), Input("K", keys), Input("V", keys))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.queries, self.width)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return self.queries * self.keys * (4 * self.width + 6)
