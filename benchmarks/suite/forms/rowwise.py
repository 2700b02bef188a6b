"""Normalisation, reductions, element-wise work."""

from dataclasses import dataclass

from benchmarks.suite.forms.common import Input, Shape, vectors


@dataclass(frozen=True, slots=True)
class Norm:
    """The Frobenius norm of every matrix of X[batch, rows, columns]."""

    batch: int
    rows: int
    columns: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return (Input("X", (self.batch, self.rows, self.columns)),)

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.batch,)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 2 * self.batch * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Softmax:
    """Softmax of every row."""

    rows: int
    columns: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return (Input("X", (self.rows, self.columns)),)

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.rows, self.columns)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 5 * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class LayerNorm:
    """(x - mean) / sqrt(variance + EPSILON) * scale + shift over every row."""

    rows: int
    columns: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return (Input("X", (self.rows, self.columns)), *vectors(self.columns))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.rows, self.columns)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 8 * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class Elementwise:
    """relu(A + B) * C."""

    rows: int
    columns: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return tuple(Input(name, (self.rows, self.columns)) for name in "ABC")

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.rows, self.columns)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 3 * self.rows * self.columns


@dataclass(frozen=True, slots=True)
class SumOf:
    """The sum of X[rows, columns] along an axis: 1 gives one value per row, 0 per column."""

    rows: int
    columns: int
    axis: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return (Input("X", (self.rows, self.columns)),)

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.columns,) if self.axis == 0 else (self.rows,)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return self.rows * self.columns
