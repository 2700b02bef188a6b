"""Convolutions and pooling."""

from dataclasses import dataclass
from math import prod

from benchmarks.suite.forms.common import Input, Shape, vectors


@dataclass(frozen=True, slots=True)
class Conv:
    """A convolution in one to three dimensions, NC... and OI..., or with `nhwc` NHWC and HWIO.

    With `layer`, relu(convolution * scale[outputs] + shift[outputs]): a batch norm whose
    statistics are folded into scale and shift.
    """

    batch: int
    channels: int
    spatial: Shape
    outputs: int
    kernel: int
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    groups: int = 1
    nhwc: bool = False
    layer: bool = False

    @property
    def rank(self) -> int:
        """Spatial dimensions."""
        return len(self.spatial)

    @property
    def extents(self) -> Shape:
        """Spatial extents of the output."""
        reach = self.dilation * (self.kernel - 1) + 1
        return tuple((n + 2 * self.padding - reach) // self.stride + 1 for n in self.spatial)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        window, depth = (self.kernel,) * self.rank, self.channels // self.groups
        if self.nhwc:
            data = Input("X", (self.batch, *self.spatial, self.channels))
            weights = Input("W", (*window, depth, self.outputs), weight=True)
        else:
            data = Input("X", (self.batch, self.channels, *self.spatial))
            weights = Input("W", (self.outputs, depth, *window), weight=True)
        return (data, weights, *(vectors(self.outputs) if self.layer else ()))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        if self.nhwc:
            return (self.batch, *self.extents, self.outputs)
        return (self.batch, self.outputs, *self.extents)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        reduced = self.channels // self.groups * prod((self.kernel,) * self.rank)
        return prod(self.output) * (2 * reduced + (3 if self.layer else 0))


@dataclass(frozen=True, slots=True)
class TransposedConv:
    """The gradient of a conv2d: X[batch, channels, size, size], W[channels, outputs, k, k]."""

    batch: int
    channels: int
    size: int
    outputs: int
    kernel: int
    stride: int
    padding: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        weights = (self.channels, self.outputs, self.kernel, self.kernel)
        data = (self.batch, self.channels, self.size, self.size)
        return (Input("X", data), Input("W", weights, weight=True))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        extent = (self.size - 1) * self.stride - 2 * self.padding + self.kernel
        return (self.batch, self.outputs, extent, extent)

    @property
    def flop(self) -> int:
        """Operations of the formula, without products with inserted zeros."""
        window = self.kernel**2 * self.size**2
        return 2 * self.batch * self.channels * self.outputs * window


@dataclass(frozen=True, slots=True)
class Capsule:
    """A conv2d whose elements are capsule x capsule matrices: NHWijC and HWkjIO."""

    batch: int
    size: int
    channels: int
    outputs: int
    kernel: int
    stride: int
    padding: int
    capsule: int = 4

    @property
    def extent(self) -> int:
        """Spatial extent of the output."""
        return (self.size + 2 * self.padding - self.kernel) // self.stride + 1

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        square = (self.capsule, self.capsule)
        data = (self.batch, self.size, self.size, *square, self.channels)
        weights = (self.kernel, self.kernel, *square, self.channels, self.outputs)
        return (Input("X", data), Input("W", weights, weight=True))

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        square = (self.capsule, self.capsule)
        return (self.batch, self.extent, self.extent, *square, self.outputs)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 2 * prod(self.output) * self.capsule * self.channels * self.kernel**2


@dataclass(frozen=True, slots=True)
class MaxPool:
    """The maximum of every 2 x 2 window of X[batch, channels, size, size], stride 2."""

    batch: int
    channels: int
    size: int

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Inputs of the formula."""
        return (Input("X", (self.batch, self.channels, self.size, self.size)),)

    @property
    def output(self) -> Shape:
        """Shape of the output."""
        return (self.batch, self.channels, self.size // 2, self.size // 2)

    @property
    def flop(self) -> int:
        """Operations of the formula."""
        return 3 * prod(self.output)
